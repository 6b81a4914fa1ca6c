"""From shared class indices to shared counts without a dealer: one round, for any number of teachers.

Before the votes are known the servers make, for every vote, a random index [r] and its one-hot vector [onehot(r)] in
the ring of the counts:

1. The c bits of r are the choice bits of c transfers each way. The vector of no bits is (1). That of one bit more is
   (v - b v, b v) for the vector v so far and the next bit b (`bit_times`): 2^j lanes at bit j, so c rounds,
   2^c - 1 lanes of w bits a vote each way.
2. [r] is the sum of the lanes' numbers times the lanes.

With the votes there: open d = v - r, c bits a vote each way; onehot(v) is onehot(r) rotated by d, and the counts are
the sums over the teachers. 1 round.

The lanes are as wide as the counts, so nothing can wrap: a group of teachers needs no second step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from sedml.mpc.bits import packed_size
from sedml.mpc.ot.bit_times import scale
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.ot.recipe import Preparation, Recipe
from sedml.mpc.party import Party
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array, Ring, index_width
from sedml.mpc.sharing import Additive

__all__ = ["OneHots", "plan_tally", "tally"]


@dataclass(frozen=True)
class OneHots(Recipe):
    """A random index and its one-hot vector in Z_{2^width}, for every teacher and sample."""

    shape: tuple[int, int]
    classes: int
    width: int

    @property
    def bits(self) -> int:
        """c, of an index."""
        return index_width(self.classes)

    @property
    def transfers(self) -> int:
        """One each way a bit."""
        return self.bits * prod(self.shape)

    @property
    def rounds_to_make(self) -> int:
        """One a bit."""
        return self.bits

    @property
    def sent(self) -> int:
        """The lanes of every bit; d."""
        count = prod(self.shape)
        lanes = sum(packed_size(count << bit, self.width) for bit in range(self.bits))
        return lanes + packed_size(count, self.bits)

    def prepare(self, role: int, ots: Transfers, coins: Seed) -> Preparation:
        """r: uint[K, Q] in Z_{2^c}; table: uint[K, Q, 2^c] in the ring of the counts."""
        count, ring = prod(self.shape), Ring(self.width)
        table = np.empty((count, 1 << self.bits), ring.dtype)
        # A public 1 is S0's share for the first half of the votes and S1's for the second.
        table[: count // 2, 0] = 1 - role
        table[count // 2 :, 0] = role
        for bit in range(self.bits):
            size = 1 << bit
            product = scale(ots.part(bit * count, count), table, ring, size)
            layout = Additive(product.tau.shape, self.width)
            [came] = yield [layout.to_wire(product.tau & ring.mask)]
            upper = product.finish(layout.from_wire(came))
            table[:, size : 2 * size] = upper
            table[:, :size] -= upper
        index_ring = Ring(self.bits)
        numbers = np.arange(1 << self.bits).astype(ring.dtype)
        r = index_ring.reduce((table * numbers).sum(axis=1, dtype=ring.dtype))
        return {"r": r.reshape(self.shape), "table": table.reshape(*self.shape, -1)}


def plan_tally(name: str, teachers: int, classes: int, samples: int, width: int) -> dict[str, Recipe]:
    """What `tally` needs; the ring of the counts must hold an index too."""
    return {name: OneHots((teachers, samples), classes, max(width, index_width(classes)))}


def tally(party: Party, name: str, votes: Array, classes: int, width: int) -> Array:
    """votes: uint[K, Q] in Z_{2^c} -> [n]: uint[N, Q] in Z_{2^width}."""
    pieces = party.take(name)
    layout = Additive((votes.shape[0], votes.shape[1]), index_width(classes))
    [rotation] = party.open_(name, [(layout, layout.remainder(votes, pieces["r"]))])
    table, ring = pieces["table"], Ring(width)
    lanes = table.shape[-1]
    counts = np.zeros((classes, votes.shape[1]), table.dtype)
    flat = table.reshape(-1)
    first = np.arange(votes.size).reshape(votes.shape) * lanes
    for label in range(classes):
        # onehot(v) at a label is onehot(r) at label - d.
        at = first + ((label - rotation.astype(np.int64)) & (lanes - 1))
        counts[label] = flat[at].sum(axis=0, dtype=table.dtype)
    return ring.reduce(counts)
