"""Base transfers, trees and extensions of two servers, as tests begin with them; nothing here is random."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from sedml.mpc.ot.base_ot import base_ots
from sedml.mpc.ot.extension import Extension
from sedml.mpc.ot.trees import LEAVES, TREES, BaseOts, Trees, grow
from sedml.mpc.prg import Seed, expand
from sedml.mpc.steps import Steps
from support.harness import fixed_seed
from support.lockstep import both

KEYS = (11, 12)
"""Of the coins of S0 and of S1, where a test does not say otherwise."""


def share_trees(base: BaseOts, coins: Seed | None = None) -> Steps[Trees]:
    """Both directions at once, in one round."""
    grown = grow(base, coins)
    theirs = yield "ot/trees", [*grown.message]
    return grown.take(theirs)


@cache
def shared_bases() -> tuple[BaseOts, BaseOts]:
    """Both sides of the base OTs, made once."""
    s0, s1 = both(base_ots(0), base_ots(1), keys=KEYS)
    return s0, s1


@cache
def shared_trees() -> tuple[Trees, Trees]:
    """Both sides of the trees, made once."""
    s0, s1 = both(*map(share_trees, shared_bases()), keys=KEYS)
    return s0, s1


def trusted_trees(key0: int, key1: int, deltas: Sequence[np.ndarray] | None = None) -> tuple[Trees, Trees]:
    """Trees as a trusted party would hand them out: S0's secrets follow from one key, S1's from the other. Quick."""
    drawn = [expand(fixed_seed(key), "trees", TREES * (LEAVES * 16 + 1)) for key in (key0, key1)]
    own = [part[TREES:].reshape(TREES, LEAVES, 16) for part in drawn]
    # As `base_ots` has it, the lowest bit of Delta is 1.
    lowest = np.arange(TREES) == 0
    deltas = deltas or [part[:TREES] % LEAVES | lowest for part in drawn]
    known = []
    for delta, theirs in zip(deltas, reversed(own), strict=True):
        order = np.arange(LEAVES) ^ delta[:, np.newaxis]
        leaves = np.take_along_axis(theirs, order[..., np.newaxis], axis=1)
        leaves[:, 0] = 0
        known.append(leaves)
    return tuple(Trees(*parts) for parts in zip(own, deltas, known, strict=True))


def extensions(label: bytes = b"label", trees: tuple[Trees, Trees] | None = None) -> tuple[Extension, Extension]:
    """Both ends of a new extension."""
    s0, s1 = trees or shared_trees()
    return Extension(s0, label), Extension(s1, label)
