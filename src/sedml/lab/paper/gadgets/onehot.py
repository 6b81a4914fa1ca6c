"""From a shared class index to a shared one-hot vector, by a dealt one-time table.

A vote is v in Z_{2^c}, c = ceil(log2(N + 1)): the classes, and everything from N up is an abstention, so
whatever a teacher sends is at most one vote.

1. The dealer deals [r] in Z_{2^c} and the one-hot vector of r as L = 2^c additive shares modulo 16.
2. Open d = v - r. 1 round, c bits a vote each way.
3. onehot(v) is onehot(r) rotated by the public d: each server rotates its own share.

Entries modulo 16 are nibbles, 16 of them to a uint64, so a rotation is two shifts, and the sum of up to 15
one-hot vectors is a plain addition of bytes (`count`). Dealt: 4 L bits a vote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from sedml.lab.paper.correlations import Correlation
from sedml.mpc.party import Party, Pieces
from sedml.mpc.ring import Array, index_width
from sedml.mpc.sharing import Additive, Field

__all__ = ["NIBBLE", "Nibbles", "OneHot", "onehot", "rotate"]

NIBBLE = 4
_PER_WORD = 16


@dataclass(frozen=True)
class Nibbles(Field):
    """Vectors of `lanes` additive shares modulo 16, packed: uint[*shape, words]; the lowest lane first."""

    lanes: int

    @property
    def word(self) -> np.dtype[np.unsignedinteger[npt.NBitBase]]:
        """A word of up to 16 lanes."""
        return np.dtype(f"u{min(self.lanes, _PER_WORD) * NIBBLE // 8}")

    @property
    def packed_shape(self) -> tuple[int, ...]:
        """Vectors longer than a word take several."""
        return (*self.shape, -(-self.lanes // _PER_WORD))

    @property
    def drawn_bytes(self) -> int:
        """Four bits a lane."""
        return prod(self.packed_shape) * self.word.itemsize

    wire_bytes = drawn_bytes

    @property
    def _low(self) -> np.unsignedinteger[npt.NBitBase]:
        """0x0F in every byte."""
        low: np.unsignedinteger[npt.NBitBase] = np.full(1, 0x0F0F0F0F0F0F0F0F, "u8").view(self.word)[0]
        return low

    def draw(self, stream: npt.NDArray[np.uint8]) -> Array:
        """The stream itself."""
        return stream.view(self.word).reshape(self.packed_shape)

    def combine(self, share0: Array, share1: Array) -> Array:
        """Addition in every lane, even and odd lanes apart so that no carry crosses."""
        low, nibble = self._low, self.word.type(NIBBLE)
        even = ((share0 & low) + (share1 & low)) & low
        odd = (((share0 >> nibble) & low) + ((share1 >> nibble) & low)) & low
        return even | (odd << nibble)

    def remainder(self, value: Array, share0: Array) -> Array:
        """Subtraction in every lane; 16 is lent to each byte so that no borrow crosses."""
        low, nibble = self._low, self.word.type(NIBBLE)
        lent = low + low // self.word.type(0x0F)
        even = ((value & low) + lent - (share0 & low)) & low
        odd = (((value >> nibble) & low) + lent - ((share0 >> nibble) & low)) & low
        return even | (odd << nibble)

    def to_wire(self, share: Array) -> npt.NDArray[np.uint8]:
        """Dense already."""
        return np.ascontiguousarray(share).reshape(-1).view(np.uint8)

    def from_wire(self, packed: npt.NDArray[np.uint8]) -> Array:
        """Dense already."""
        return self.draw(packed)


@dataclass(frozen=True)
class OneHot(Correlation):
    """A random index and its one-hot vector, for every teacher and sample."""

    shape: tuple[int, int]
    classes: int

    @property
    def table(self) -> Nibbles:
        """The one-hot vectors."""
        return Nibbles(self.shape, 1 << index_width(self.classes))

    @property
    def masks(self) -> Mapping[str, Field]:
        """[r]."""
        return {"r": Additive(self.shape, index_width(self.classes))}

    @property
    def derived(self) -> Mapping[str, Field]:
        """[onehot(r)]."""
        return {"table": self.table}

    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """onehot(r) in the clear."""
        r = self.masks["r"].combine(masks0["r"], masks1["r"])
        table = self.table
        values = np.zeros(table.packed_shape, table.word)
        bit = table.word.type(1) << ((r % _PER_WORD) * NIBBLE).astype(table.word)
        np.put_along_axis(values, (r // _PER_WORD).astype(np.intp)[..., np.newaxis], bit[..., np.newaxis], -1)
        return {"table": values}


def onehot(party: Party, name: str, votes: Array, classes: int) -> tuple[Array, Array]:
    """votes: uint[K, Q] in Z_{2^c} -> the dealt table uint[K, Q, words] and the public rotation uint[K, Q].

    `rotate(table, rotation)` is the one-hot vector; it is left to the caller, who can do it piece by piece.
    """
    pieces = party.take(name)
    layout = Additive((votes.shape[0], votes.shape[1]), index_width(classes))
    masked = layout.remainder(votes, pieces["r"])
    [rotation] = party.open_(name, [(layout, masked)])
    return pieces["table"], rotation


def rotate(table: Array, rotation: Array) -> Array:
    """Move lane i of every vector to lane i + rotation, modulo the number of lanes."""
    words = table.shape[-1]
    near = far = table
    whole, lanes = np.divmod(rotation, rotation.dtype.type(_PER_WORD))
    if words > 1:
        source = (np.arange(words) - whole.astype(np.intp)[..., np.newaxis]) % words
        near = np.take_along_axis(table, source, -1)
        far = np.take_along_axis(table, (source - 1) % words, -1)
    left = (lanes.astype(table.dtype) * table.dtype.type(NIBBLE))[..., np.newaxis]
    # Shifting by the full width gives 0 in NumPy, which is right where left is 0.
    right = table.dtype.type(table.dtype.itemsize * 8) - left
    rotated: Array = (near << left) | (far >> right)
    return rotated
