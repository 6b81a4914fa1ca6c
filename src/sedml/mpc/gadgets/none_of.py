"""Whether all of N XOR-shared bits are set, opened to both servers and nothing else: the bit t of a sample.

1. Ten bits at most make a group. One server's shares of a group are a word x, the other's a word y, and all bits are
   set exactly if y = ~x: the owner of x offers a table with that one entry, the other looks up y (`lookup`). 2 rounds,
   10 bits one way and 128 bytes the other for N = 10.
2. With more than one group the entries are masked, and step 1 is repeated on the groups' bits.
3. The last table is not masked: its receiver learns t, which is public, and says so. 1 round, 1 bit.

3 rounds for up to 10 classes, 5 up to 100. Transfers: N for half of the samples each way, and a tenth of that on top.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.mpc.ot.lookup import Lookup, answer, ask, halves, joined, pick
from sedml.mpc.ot.recipe import Recipe
from sedml.mpc.party import Party
from sedml.mpc.ring import Array

__all__ = ["all_set", "plan_all_set"]

_GROUP = 10


def plan_all_set(name: str, bits: int, samples: int) -> dict[str, Recipe]:
    """What `all_set` needs."""
    return dict(_levels(name, bits, samples))


def all_set(party: Party, name: str, bits: Array) -> npt.NDArray[np.bool_]:
    """bits: 0/1 uint8[N, A], shares -> whether all N are set, public: bool[A]."""
    role, samples = party.role, bits.shape[-1]
    for step, spec in _levels(name, bits.shape[0], samples):
        pieces = party.take(step)
        offered, looked = halves(role, _words(party, bits, spec))
        [asked] = party.swap(f"{step}/ask", [ask(spec, pieces, looked)])
        [answered] = party.swap(f"{step}/answer", [answer(spec, pieces, asked, _table(spec, offered))])
        [found] = pick(spec, pieces, answered, looked)
        if spec.masked:
            bits = joined(role, pieces["own"][0][..., : found.shape[-1]], found, samples)
        else:
            [theirs] = party.swap(f"{name}/t", [np.packbits(found, bitorder="little")])
            told = np.unpackbits(theirs, count=found.size, bitorder="little").reshape(found.shape)
            bits = joined(role, told, found, samples)
    result: npt.NDArray[np.bool_] = bits[0].view(np.bool_)
    return result


def _levels(name: str, bits: int, samples: int) -> list[tuple[str, Lookup]]:
    levels: list[tuple[str, Lookup]] = []
    while True:
        groups = -(-bits // _GROUP)
        size = -(-bits // groups)
        levels.append((f"{name}/{len(levels)}", Lookup(groups, samples, size, masked=groups > 1)))
        if groups == 1:
            return levels
        bits = groups


def _words(party: Party, bits: Array, spec: Lookup) -> Array:
    """0/1 uint8[N, A] -> uint16[groups, A], one bit of a word for each of a group's bits; missing ones count as set."""
    words = np.zeros((spec.rows, bits.shape[-1]), np.uint16)
    missing = party.constant(np.ones(bits.shape[-1], np.uint8))
    for i in range(spec.rows * spec.bits):
        row = bits[i] if i < len(bits) else missing
        words[i % spec.rows] |= row.astype(np.uint16) << np.uint16(i // spec.rows)
    return words


def _table(spec: Lookup, x: Array) -> Array:
    """uint16[groups, h] -> [groups, h, words]: one entry, at the complement of x."""
    at = x ^ np.uint16((1 << spec.bits) - 1)
    size = np.uint16(8 * spec.word.itemsize)
    table = np.zeros((*x.shape, spec.words), spec.word)
    bit = spec.word.type(1) << (at % size).astype(spec.word)
    np.put_along_axis(table, (at // size).astype(np.intp)[..., np.newaxis], bit[..., np.newaxis], -1)
    return table
