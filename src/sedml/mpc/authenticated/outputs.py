"""Results for a third party: the masks of outputs, authenticated once more under a Delta that it may know.

Both servers know M = v ^ m_0 ^ m_1 of every output v. The MACs of m_0 and m_1 cannot be shown to the requester: whoever
checks them has the servers' Deltas, and an evaluator with the garbler's Delta reads everything. So:

1. A second extension, for this block alone, gives bits u_i with MACs under second Deltas: mac_i = key_{1-i} ^ u_i
   Delta'_{1-i}. Its base transfers are 128 of the first extension's (`ot.fresh_deltas`); 1 round.
2. Server i sends sigma_i = u_i ^ m_i. Both now know P = M ^ sigma_0 ^ sigma_1 = v ^ u_0 ^ u_1.
3. It proves that sigma_i is right: for 128 random sets of outputs, which follow from all that was opened (Fiat and
   Shamir), the sum of m_i over the set, hidden by a spare bit, with a hash of its MACs under both Deltas. A wrong
   sigma_i passes a set with probability 1/2.
4. A share for the requester is P, u_i, a hash of the MACs of u_i, the keys for u_{1-i}, and Delta'_i. The requester
   compares both P and both hashes, and has v = P ^ u_0 ^ u_1.

Any change of a server's keys or Delta' is accepted for at most one value of all of the other's u, of which 64 are there
for that alone: so a refusal tells nothing. Words have 64 bits.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from sedml.mpc.authenticated.authenticated_bits import Bits, Bytes, Words, caught, spread
from sedml.mpc.ot.extension import Transfers, begin_extension
from sedml.mpc.ot.fresh_deltas import base_of
from sedml.mpc.prg import Seed, expand
from sedml.mpc.steps import Steps

BLINDS = 128
"""Sets of outputs that a server is asked about, and spare bits that hide the answers."""
PADDING = 64
"""Bits of a share that hide what a refusal would tell."""


@dataclass(frozen=True)
class Second:
    """Bits u under the second Deltas."""

    bit: Bytes = field(repr=False)
    """uint8[n]: this server's u."""
    mac: Words = field(repr=False)
    """uint64[n]: under the other's second Delta."""
    key: Words = field(repr=False)
    """uint64[n]: for the other's u."""
    delta: np.uint64 = field(repr=False)

    def __getitem__(self, place: slice) -> Second:
        return Second(self.bit[place], self.mac[place], self.key[place], self.delta)

    def without(self, place: slice) -> Second:
        """All others."""
        kept = np.ones(self.bit.size, np.bool_)
        kept[place] = False
        return Second(self.bit[kept], self.mac[kept], self.key[kept], self.delta)


def second_bits(base: Transfers, count: int) -> Steps[Second]:
    """Step 1: so many bits, from BASE transfers."""
    made = yield from begin_extension(base_of(base), b"outputs", count)
    mac, key = (np.ascontiguousarray(rows[:count, 0]) for rows in (made.received, made.sent))
    return Second(made.choices[:count], mac, key, made.delta[0])


@dataclass(frozen=True)
class Sums:
    """What a server's proof of its sigma is about: masks of outputs and their blinds, and the same under Delta'."""

    masks: Bits
    """[outputs + BLINDS], of the circuit."""
    second: Second
    """[outputs + BLINDS]."""
    delta: np.uint64 = field(repr=False)
    """The lower word of this server's Delta."""

    @property
    def outputs(self) -> int:
        """How many."""
        return self.masks.bit.size - BLINDS

    def over(self, sets: Bytes, values: Words) -> Words:
        """Sums of values uint64[outputs + BLINDS] over sets of outputs uint8[BLINDS, outputs], each with its blind."""
        values = np.ascontiguousarray(values)
        sums: Words = np.bitwise_xor.reduce(spread(sets) & values[: self.outputs], axis=1)
        return sums ^ values[self.outputs :]


def prove_sums(about: Sums, key: bytes) -> list[Bytes]:
    """Step 3, as the one that proves: the sums, and a digest of their MACs."""
    sets = _sets(key, about.outputs)
    sums = about.over(sets, about.masks.bit.astype(np.uint64)).astype(np.uint8)
    macs = about.over(sets, about.masks.peer[:, 0]), about.over(sets, about.second.mac)
    return [np.packbits(sums, bitorder="little"), mac_digest("sums", np.stack(macs))]


def check_sums(about: Sums, key: bytes, sigma: Bytes, packed: Bytes, digest: Bytes) -> None:
    """Step 3, as the one that is shown it; sigma uint8[outputs + BLINDS] is what the other sent."""
    sets = _sets(key, about.outputs)
    sums = np.unpackbits(packed, count=BLINDS, bitorder="little")
    own = about.over(sets, about.masks.bit.astype(np.uint64)).astype(np.uint8)
    second = sums ^ about.over(sets, sigma.astype(np.uint64)).astype(np.uint8)
    macs = about.over(sets, about.masks.own[:, 0]) ^ (spread(own ^ sums) & about.delta)
    others = about.over(sets, about.second.key) ^ (spread(second) & about.second.delta)
    if not np.array_equal(mac_digest("sums", np.stack([macs, others])), digest):
        raise caught("masks of outputs")


def mac_digest(use: str, macs: Words) -> Bytes:
    """uint64[...] -> uint8[32], another one for each use."""
    return np.frombuffer(hashlib.sha256(f"sedml MACs of {use}:".encode() + macs.tobytes()).digest(), np.uint8)


def _sets(key: bytes, outputs: int) -> Bytes:
    drawn = expand(Seed(hashlib.sha256(b"sedml sets of outputs" + key).digest()), "sets", BLINDS * -(-outputs // 8))
    return np.unpackbits(drawn.reshape(BLINDS, -1), axis=1, count=outputs)
