"""Base transfers of many extensions from one set-up: each has a Delta of its own, without public-key operations.

The set-up makes an extension whose transfers are used for nothing else: 128 of them, hashed, are the base transfers of
another one. Its Delta is made of the choices in those, so it is uniform and independent of all other Deltas; only the
choice that makes its lowest bit 1 is not free. There the chooser tells whether the transfer's own choice is another
one, and the sender then swaps the two keys: that tells nothing, as everybody knows the choice that is wanted.

2 rounds for any number of them: base transfers; then the trees of this extension, its transfers, and those bits.
"""

from __future__ import annotations

import numpy as np

from sedml.mpc.ot.base_ot import base_ots
from sedml.mpc.ot.extension import Extension, Transfers
from sedml.mpc.ot.hashing import hash_rows
from sedml.mpc.ot.trees import DEPTH, KEY_BYTES, TREES, BaseOts, grow
from sedml.mpc.steps import Steps

BASE = TREES * DEPTH
"""Transfers that an extension begins with."""
_LOWEST = DEPTH - 1
"""The one whose choice is the lowest bit of Delta."""


def base_of(made: Transfers) -> BaseOts:
    """Base transfers from BASE transfers, with their choices."""
    keys = [hash_rows(rows, made.first) for rows in (made.sent, made.sent ^ made.delta, made.received)]
    zero, one, received = (key.view(np.uint8).reshape(BASE, KEY_BYTES) for key in keys)
    return BaseOts(np.stack([zero, one], axis=1), made.choices.copy(), received)


def bases(role: int, count: int) -> Steps[list[BaseOts]]:
    """Base transfers of so many extensions, each with a Delta whose lowest bit is 1."""
    grown = grow((yield from base_ots(role)))
    end = Extension(grown, b"renewal")
    offer = end.offer(BASE * count)
    flips = offer.choices[_LOWEST : BASE * count : BASE].copy()
    theirs = yield "ot/renewal", [*grown.message, *offer.message, flips]
    their_flips = theirs.pop()
    end.learn(grown.take([theirs.pop(0) for _ in grown.message]))
    made = end.take(offer, theirs)
    found = []
    for number in range(count):
        base = base_of(made.part(BASE * number, BASE))
        base.choices[_LOWEST] = 0
        # By a mask and not by a branch; what is told is public, the keys are not.
        swap = (base.sent[_LOWEST, 0] ^ base.sent[_LOWEST, 1]) & np.negative(their_flips[number] & np.uint8(1))
        base.sent[_LOWEST] ^= swap
        found.append(base)
    return found
