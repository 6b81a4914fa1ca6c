"""Whether all of N XOR-shared bits are set, opened to both servers and nothing else: the bit t of a sample.

One server's shares are a string x, the other's a string y, and all bits are set exactly if y is the complement of x: a
private equality test. For half of the samples S0 plays the sender, for the other half S1.

Offline: of one random OT a bit, the receiver has choice bit c_b and the pad of that choice, the sender both pads.
1. The receiver sends y ^ c, N bits.
2. The sender sends the XOR over b of its pads for choice (~x ^ y ^ c)_b, 16 bytes. Where ~x and y agree that is the
   pad which the receiver has, so the sum is its own sum of pads if they agree everywhere; if not, a pad that it does
   not know is in it, and what it sees is uniform.
3. The receiver has learned t, which is public, and says so: 1 bit.

3 rounds for any N. Transfers: N for half of the samples each way. Two strings that differ pass for equal with
probability 2^-128.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sedml.lab.semi_honest.lookup import halves, joined
from sedml.lab.semi_honest.party import Party, Pieces
from sedml.lab.semi_honest.recipe import Recipe
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.ot.hashing import hash_rows
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.mpc.steps import Steps

__all__ = ["Equalities", "all_set"]


@dataclass(frozen=True)
class Equalities(Recipe):
    """Equality tests of strings of so many bits, one a sample; the samples in two halves."""

    bits: int
    samples: int

    @property
    def half(self) -> int:
        """Samples of each half."""
        return -(-self.samples // 2)

    @property
    def transfers(self) -> int:
        """One a bit."""
        return self.bits * self.half

    def prepare(self, role: int, ots: Transfers, coins: Seed) -> Steps[Pieces]:
        """c: 0/1 uint8[bits, h]; key: uint64[h, 2]; zero, both: uint64[bits, h, 2], the pads of choice 0 and 0 ^ 1."""
        yield from ()
        shape = self.bits, self.half, 2
        received, zero, one = (
            hash_rows(rows, ots.first).reshape(shape) for rows in (ots.received, ots.sent, ots.sent ^ ots.delta)
        )
        return {
            "c": ots.choices.reshape(self.bits, self.half),
            "key": np.bitwise_xor.reduce(received, axis=0),
            "zero": zero,
            "both": zero ^ one,
        }


def all_set(party: Party, name: str, bits: Array) -> npt.NDArray[np.bool_]:
    """bits: 0/1 uint8[N, A], shares -> whether all N are set, public: bool[A]."""
    role, samples = party.role, bits.shape[-1]
    pieces = party.take(name)
    x, y = halves(role, bits)
    half = x.shape[-1]
    [asked] = party.swap(f"{name}/ask", [np.packbits(y ^ pieces["c"][:, :half], bitorder="little")])
    shift = np.unpackbits(asked, count=x.size, bitorder="little").reshape(x.shape)
    chosen = (x ^ np.uint8(1) ^ shift).astype(np.uint64)[..., np.newaxis]
    pads = pieces["zero"][:, :half] ^ (pieces["both"][:, :half] * chosen)
    [sums] = party.swap(f"{name}/sum", [np.bitwise_xor.reduce(pads, axis=0)])
    found = (sums == pieces["key"][:half]).all(axis=-1)
    [told] = party.swap(f"{name}/t", [np.packbits(found, bitorder="little")])
    theirs = np.unpackbits(told, count=half, bitorder="little").view(np.bool_)
    return joined(role, theirs, found, samples)
