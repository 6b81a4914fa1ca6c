"""Look-up in a table that the other server holds: 1-of-2^d OT of one or two bits, from d random OTs.

For half of the samples S0 has the tables and S1 the positions, for the other half it is the other way round.

Offline: of each of the d OTs the receiver has choice bit c_b and the pad of that choice, the sender both pads, one bit
for each bit of the table. (One bit for each position: keys XORed over the d OTs would be linearly dependent.)
Online, for a position y and a table T:
1. The receiver sends y ^ c, d bits.
2. The sender sends T, its bit for position j masked by the XOR over b of bit j of pad b for choice (j ^ y ^ c)_b.
   At j = y these are the pads that the receiver has; at every other j one at least is not. The sender has hidden the
   entry by a bit of its own as well, so that both hold XOR shares of it.
2 rounds; d bits one way, the table's the other. An entry of two bits is two tables side by side in one word.

The pads of all shifts are z ^ XOR_b d_b (y ^ c)_b for z and d_b that need no table, so all hashing is done offline.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from sedml.lab.semi_honest.party import Pieces
from sedml.lab.semi_honest.recipe import Recipe
from sedml.mpc.bits import pack, unpack
from sedml.mpc.kernel import kernel
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.ot.hashing import hash_rows, round_keys
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array
from sedml.mpc.steps import Steps

__all__ = ["Lookup", "answer", "ask", "halves", "joined", "pick"]

_AT_ONCE = 1 << 14  # hashed together: stays in the second-level cache


@dataclass(frozen=True)
class Lookup(Recipe):
    """Look-ups of `entries` bits in tables of 2^bits positions, for rows x samples; the samples in two halves.

    A table fits a word: entries 2^bits <= 64.
    """

    rows: int
    samples: int
    bits: int
    entries: int = 1

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

    @cached_property
    def word(self) -> np.dtype[np.unsignedinteger[npt.NBitBase]]:
        """What a table is."""
        return np.dtype(f"u{max(8, self.entries << self.bits) // 8}")

    def prepare(self, role: int, ots: Transfers, coins: Seed) -> Steps[Pieces]:
        """c, keys: uint[rows, h] of the receiver; z: uint[rows, h], d: uint[bits, rows, h], own bits of the sender."""
        yield from ()
        count = prod(self.shape)
        keys, z, d = np.zeros(count, self.word), np.zeros(count, self.word), np.empty((self.bits, count), self.word)
        fast = kernel()
        if fast is None:
            for bit in range(self.bits):
                mask = _where_set(self, bit)
                for start in range(0, count, _AT_ONCE):
                    here = slice(start, min(start + _AT_ONCE, count))
                    part = ots.part(bit * count + here.start, here.stop - here.start)
                    received, zero, one = (
                        hash_rows(rows, part.first).view(self.word)[:, 0]
                        for rows in (part.received, part.sent, part.sent ^ part.delta)
                    )
                    keys[here] ^= received
                    d[bit, here] = zero ^ one
                    z[here] ^= zero ^ (d[bit, here] & mask)
        else:
            masks = np.array([_where_set(self, bit) for bit in range(self.bits)], np.uint64)
            fast.pads(
                round_keys(fast), ots.sent, ots.received, ots.delta, ots.first, masks, self.word.itemsize, keys, z, d
            )
        chosen = ots.choices.reshape(self.bits, count)
        c = np.zeros(count, np.uint8)
        for bit in range(self.bits):
            c |= chosen[bit] << np.uint8(bit)
        own = (expand(coins, "own", self.entries * count) & np.uint8(1)).reshape(self.entries, count)
        for entry in range(self.entries):
            z ^= _whole(self, entry) * own[entry].astype(self.word)
        return {
            "c": c.reshape(self.shape),
            "keys": keys.reshape(self.shape),
            "z": z.reshape(self.shape),
            "d": d.reshape(self.bits, *self.shape),
            "own": own.reshape(self.entries, *self.shape),
        }


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
    """y: uint8[rows, h] positions below 2^bits -> the packed message of step 1."""
    return pack((y ^ pieces["c"][:, : y.shape[-1]]).reshape(-1), spec.bits)


def answer(spec: Lookup, pieces: Pieces, asked: Array, table: Array) -> Array:
    """table: uint[rows, h] -> the message of step 2."""
    half = table.shape[1]
    shift = unpack(asked, spec.bits, spec.rows * half).reshape(spec.rows, half)
    z, d, fast = pieces["z"], pieces["d"], kernel()
    if fast is not None and z.flags.c_contiguous and d.flags.c_contiguous:
        found: Array = np.empty(table.shape, table.dtype)
        fast.answer(z, d, shift, np.ascontiguousarray(table), table.itemsize, spec.bits, spec.rows, z.shape[1], found)
        return found
    masked: Array = pieces["z"][:, :half] ^ table
    for bit in range(spec.bits):
        on = (shift >> np.uint8(bit)).astype(table.dtype) & table.dtype.type(1)
        masked ^= pieces["d"][bit][:, :half] * on
    return masked


def pick(spec: Lookup, pieces: Pieces, answered: Array, y: Array) -> Array:
    """The receiver's shares of its entries: uint8[entries, rows, h]."""
    table = (answered ^ pieces["keys"][:, : y.shape[-1]]) >> y.astype(spec.word)
    entries = [table >> spec.word.type(entry << spec.bits) for entry in range(spec.entries)]
    return np.stack([entry.astype(np.uint8) & np.uint8(1) for entry in entries])


@lru_cache(maxsize=64)
def _where_set(spec: Lookup, bit: int) -> Array:
    """The bits of a table whose position has this bit set."""
    positions = range(spec.entries << spec.bits)
    return np.array(sum(1 << j for j in positions if (j % (1 << spec.bits)) >> bit & 1), np.uint64).astype(spec.word)


def _whole(spec: Lookup, entry: int) -> Array:
    """All bits of one of the tables side by side."""
    return np.array(((1 << (1 << spec.bits)) - 1) << (entry << spec.bits), np.uint64).astype(spec.word)
