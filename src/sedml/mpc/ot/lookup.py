"""Look-up in a table that the other server holds: 1-of-2^d OT of a few bits, from d random OTs.

For half of the samples S0 has the tables and S1 the positions, for the other half it is the other way round.

Offline: of each of the d OTs the receiver has choice bit c_b and the pad of that choice, the sender both pads, one bit
for each bit of the table. (One bit for each position: keys XORed over the d OTs would be linearly dependent.)
Online, for a position y and a table T:
1. The receiver sends y ^ c, d bits.
2. The sender sends T, its bit for position j masked by the XOR over b of bit j of pad b for choice (j ^ y ^ c)_b.
   At j = y these are the pads that the receiver has; at every other j one at least is not.
2 rounds; d bits one way, the table's the other. An entry of several bits is several tables side by side.

The pads of all shifts are Z ^ XOR_b D_b (y ^ c)_b for Z and D_b that need no table, so all hashing is done offline.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from sedml.mpc.bits import pack, unpack
from sedml.mpc.correlations import Pieces
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.ot.hashing import hash_rows
from sedml.mpc.ot.recipe import Preparation, Recipe
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array, Ring

__all__ = ["Lookup", "answer", "ask", "halves", "joined", "pick"]

_AT_ONCE = 1 << 14  # hashed together: stays in the second-level cache


@dataclass(frozen=True)
class Lookup(Recipe):
    """Look-ups of `entries` bits in tables of 2^bits positions, for rows x samples; the samples in two halves."""

    rows: int
    samples: int
    bits: int
    entries: int = 1
    masked: bool = True
    """Whether the sender hides the entry by bits of its own, so that both hold XOR shares of it."""

    @property
    def half(self) -> int:
        """Samples of each half."""
        return -(-self.samples // 2)

    @property
    def shape(self) -> tuple[int, int]:
        """Look-ups each way."""
        return self.rows, self.half

    @property
    def transfers(self) -> int:
        """One for each bit of a position."""
        return self.bits * prod(self.shape)

    @property
    def word(self) -> np.dtype[np.unsignedinteger[npt.NBitBase]]:
        """What tables are made of."""
        return np.dtype(f"u{max(1, min(64, self.entries << self.bits) // 8)}")

    @property
    def words(self) -> int:
        """Of one table."""
        return max(1, (self.entries << self.bits) // 64)

    def prepare(self, role: int, ots: Transfers) -> Preparation:
        """Keys of the receiver; pads and, if masked, the mask bits of the sender. Nothing is sent."""
        yield from ()
        count, blocks = prod(self.shape), -(-self.words // 2)
        pads = _Pads(ots, blocks, self.words, self.word)
        keys = np.zeros((count, self.words), self.word)
        z, d = np.zeros((count, self.words), self.word), np.empty((self.bits, count, self.words), self.word)
        for bit in range(self.bits):
            mask = _where_set(self.bits, self.entries, bit)
            for start in range(0, count, _AT_ONCE):
                here = slice(start, min(start + _AT_ONCE, count))
                at = slice(bit * count + here.start, bit * count + here.stop)
                keys[here] ^= pads.received(at)
                zero, one = pads.sent(at)
                one ^= zero
                d[bit, here] = one
                one &= mask
                one ^= zero
                z[here] ^= one
        chosen = ots.choices.reshape(self.bits, count)
        c = np.zeros(count, Ring(self.bits).dtype)
        for bit in range(self.bits):
            c |= chosen[bit].astype(c.dtype) << c.dtype.type(bit)
        own = np.zeros((self.entries, *self.shape), np.uint8)
        if self.masked:
            own = (expand(Seed.random(), "mask", own.size) & np.uint8(1)).reshape(own.shape)
            z ^= _spread(own.reshape(self.entries, count), self)
        shape = (*self.shape, self.words)
        return {
            "c": c.reshape(self.shape),
            "keys": keys.reshape(shape),
            "z": z.reshape(shape),
            "d": d.reshape(self.bits, *shape),
            "own": own,
        }


@dataclass(frozen=True)
class _Pads:
    """Hashed transfers, cut to the words of a table."""

    ots: Transfers
    blocks: int
    words: int
    word: np.dtype[np.unsignedinteger[npt.NBitBase]]

    def received(self, at: slice) -> Array:
        return self._hash(self.ots.received[at], at)

    def sent(self, at: slice) -> tuple[Array, Array]:
        rows = self.ots.sent[at]
        return self._hash(rows, at), self._hash(rows ^ self.ots.delta, at)

    def _hash(self, rows: Array, at: slice) -> Array:
        hashed = hash_rows(rows, self.ots.first + at.start, self.blocks)
        cut: Array = hashed.view(self.word)[:, : self.words]
        return cut


def halves(role: int, values: Array) -> tuple[Array, Array]:
    """values: [..., Q] -> where this server has the tables, and where the positions; padded to the same length."""
    samples = values.shape[-1]
    half = -(-samples // 2)
    first, second = values[..., :half], values[..., half:]
    if second.shape[-1] < half:
        second = np.concatenate([second, np.zeros((*values.shape[:-1], 1), values.dtype)], axis=-1)
    return (first, second) if role == 0 else (second, first)


def joined(role: int, mine: Array, theirs: Array, samples: int) -> Array:
    """The inverse of `halves`."""
    both = (mine, theirs) if role == 0 else (theirs, mine)
    return np.concatenate(both, axis=-1)[..., :samples]


def ask(spec: Lookup, pieces: Pieces, y: Array) -> Array:
    """y: uint[rows, h] positions below 2^bits -> the packed message of step 1."""
    return pack((y ^ _part(pieces["c"], y)).reshape(-1), spec.bits)


def answer(spec: Lookup, pieces: Pieces, asked: Array, table: Array) -> Array:
    """table: [rows, h, words] -> the message of step 2."""
    half = table.shape[1]
    shift = unpack(asked, spec.bits, spec.rows * half).reshape(spec.rows, half)
    masked: Array = pieces["z"][:, :half] ^ table
    for bit in range(spec.bits):
        on = (shift >> shift.dtype.type(bit)).astype(table.dtype) & table.dtype.type(1)
        masked ^= pieces["d"][bit][:, :half] * on[..., np.newaxis]
    return masked


def pick(spec: Lookup, pieces: Pieces, answered: Array, y: Array) -> Array:
    """The receiver's entries uint8[entries, rows, h]."""
    table = answered ^ pieces["keys"][:, : y.shape[-1]]
    size = 8 * spec.word.itemsize
    found = []
    for entry in range(spec.entries):
        at = y.astype(np.uint32) + np.uint32(entry << spec.bits)
        words = table[..., 0]
        if spec.words > 1:
            words = np.take_along_axis(table, (at // size).astype(np.intp)[..., np.newaxis], -1)[..., 0]
        found.append((words >> (at % np.uint32(size)).astype(table.dtype)).astype(np.uint8) & np.uint8(1))
    return np.stack(found)


def _part(values: Array, like: Array) -> Array:
    return values[..., : like.shape[-1]]


@lru_cache(maxsize=64)
def _where_set(bits: int, entries: int, bit: int) -> Array:
    """uint[words]: the bits of a table whose position has this bit set."""
    positions = np.arange(entries << bits) % (1 << bits)
    return _as_words(((positions >> bit) & 1).astype(np.uint8))


def _spread(own: Array, spec: Lookup) -> Array:
    """uint8[entries, n] mask bits -> uint[n, words]: each over its whole sub-table."""
    out = np.zeros((own.shape[1], spec.words), spec.word)
    for entry in range(spec.entries):
        positions = np.zeros(spec.entries << spec.bits, np.uint8)
        positions[entry << spec.bits : (entry + 1) << spec.bits] = 1
        out ^= _as_words(positions) * own[entry].astype(spec.word)[:, np.newaxis]
    return out


def _as_words(bits: Array) -> Array:
    packed = np.packbits(bits, bitorder="little")
    return packed.view(f"u{min(8, packed.size)}")
