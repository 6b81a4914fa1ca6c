"""AND of XOR-shared bits by triples that the servers made: 1 round, 2 bits each way (Beaver 1991 over Z_2).

A triple takes one random OT each way and no message. As sender with pads p_0, p_1 (one bit each) a server has
a_i = p_0 ^ p_1; as receiver it has b_i = its choice bit. The other's pad of that choice is p_0 ^ b a, so
c_i = p_0 ^ (the pad received) ^ a_i b_i are XOR shares of a b.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from sedml.lab.semi_honest.party import Party, Pieces
from sedml.lab.semi_honest.recipe import Recipe
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.ot.hashing import hash_rows
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.mpc.steps import Steps

__all__ = ["BitTriples", "bit_and"]


@dataclass(frozen=True)
class BitTriples(Recipe):
    """One triple for each entry of `shape`, samples last."""

    shape: tuple[int, ...]

    @property
    def transfers(self) -> int:
        """One each way."""
        return prod(self.shape)

    def prepare(self, role: int, ots: Transfers, coins: Seed) -> Steps[Pieces]:
        """a, b and c: 0/1 uint8[shape]."""
        yield from ()
        zero, one, received = (
            hash_rows(rows, ots.first)[:, 0].astype(np.uint8) & np.uint8(1)
            for rows in (ots.sent, ots.sent ^ ots.delta, ots.received)
        )
        a, b = zero ^ one, ots.choices
        c = zero ^ received ^ (a & b)
        return {"a": a.reshape(self.shape), "b": b.reshape(self.shape), "c": c.reshape(self.shape)}


def bit_and(party: Party, name: str, x: Array, y: Array) -> Array:
    """x, y: 0/1 uint8[m, rows, A], shares -> shares of x & y."""
    pieces = party.take(name)
    a, b, c = (pieces[key][..., : x.shape[-1]] for key in ("a", "b", "c"))
    masked = np.packbits(np.stack([x ^ a, y ^ b]), bitorder="little")
    [theirs] = party.swap(name, [masked])
    opened = np.unpackbits(masked ^ theirs, count=2 * x.size, bitorder="little").reshape(2, *x.shape)
    e, f = opened
    product: Array = c ^ (e & b) ^ (f & a)
    return product ^ (e & f) if party.role == 0 else product
