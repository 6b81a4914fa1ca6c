"""From shared class indices to shared counts: one round, for any number of teachers.

Before the votes are known the servers make, for every vote, a random index [r] and its one-hot vector [onehot(r)] in
the ring of the counts:

1. The c bits of r are the choice bits of c transfers each way. The vector of no bits is (1). That of one bit more is
   (v - b v, b v) for the vector v so far and the next bit b (`bit_times`): 2^j lanes at bit j, so c rounds,
   2^c - 1 lanes of w bits a vote each way.
2. The lanes of b v add up to [b]; [r] is the sum of these, times 2^j.

With the votes there: open d = v - r, c bits a vote each way; onehot(v) is onehot(r) rotated by d, and the counts are
the sums over the teachers. 1 round.

The lanes are as wide as the counts, so nothing can wrap: a group of teachers needs no second step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from sedml.mpc.bits import packed_size
from sedml.mpc.kernel import kernel
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
        """r: uint[K, Q] in Z_{2^c}; table: uint[2^c, K, Q] in the ring of the counts."""
        count, ring = prod(self.shape), Ring(self.width)
        table, r = np.empty((1 << self.bits, count), ring.dtype), np.zeros(count, ring.dtype)
        # A public 1 is S0's share for the first half of the votes and S1's for the second.
        table[0, : count // 2] = 1 - role
        table[0, count // 2 :] = role
        for bit in range(self.bits):
            size = 1 << bit
            product = scale(ots.part(bit * count, count), table[:size], ring)
            layout = Additive(product.tau.shape, self.width)
            [came] = yield [layout.to_wire(product.tau & ring.mask)]
            upper = table[size : 2 * size]
            upper[:] = product.finish(layout.from_wire(came))
            table[:size] -= upper
            # The lanes of a one-hot vector add up to 1, and so those of b v to b.
            r += upper.sum(axis=0, dtype=ring.dtype) << ring.dtype.type(bit)
        return {"r": Ring(self.bits).reduce(r).reshape(self.shape), "table": table.reshape(-1, *self.shape)}


def plan_tally(name: str, teachers: int, classes: int, samples: int, width: int) -> dict[str, Recipe]:
    """What `tally` needs; the ring of the counts must hold an index too."""
    return {name: OneHots((teachers, samples), classes, max(width, index_width(classes)))}


def tally(party: Party, name: str, votes: Array, classes: int, width: int) -> Array:
    """votes: uint[K, Q] in Z_{2^c} -> [n]: uint[N, Q] in Z_{2^width}."""
    pieces = party.take(name)
    layout = Additive((votes.shape[0], votes.shape[1]), index_width(classes))
    [rotation] = party.open_(name, [(layout, layout.remainder(votes, pieces["r"]))])
    table, ring = pieces["table"], Ring(width)
    lanes = len(table)
    counts = np.empty((classes, votes.shape[1]), table.dtype)
    fast = kernel()
    if fast is not None and rotation.dtype == np.uint8:
        fast.tally(table, rotation, table.itemsize, lanes, votes.shape[1], classes, counts)
        return ring.reduce(counts)
    flat = table.reshape(-1)
    # onehot(v) at a label is onehot(r) at label - d: lane by lane downwards, and around.
    at = np.arange(votes.size).reshape(votes.shape) + (-rotation.astype(np.intp) & (lanes - 1)) * votes.size
    for label in range(classes):
        counts[label] = flat.take(at, mode="wrap").sum(axis=0, dtype=table.dtype)
        at += votes.size
    return ring.reduce(counts)
