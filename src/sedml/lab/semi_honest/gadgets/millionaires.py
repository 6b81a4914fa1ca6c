"""Sign test: ⟦f < 0⟧ of [f] in Z_{2^w}, by look-ups on the two servers' own shares.

The top bit of f = f_0 + f_1 is the XOR of the shares' top bits and of the carry out of their low w-1 bits. That carry
is y > x for x = 2^(w-1) - 1 - low(f_0), which one server knows, and y = low(f_1), which the other knows: the
millionaires' problem (Yao 1982), by digits as in CrypTFlow2 (Rathee et al., CCS 2020).

1. Cut x and y into digits: the lowest of 6 bits, the others of 5. For each, the owner of x offers a table of
   [j > x_k], and for all but the lowest also of [j = x_k], and the owner of y looks up its own digit (`lookup`).
   2 rounds, w-1 bits one way and 64 bits a digit the other.
2. Combine neighbouring digits, (g, e)(g', e') = (g ^ e g', e e'), until one is left: ceil(log2 digits) rounds
   of `bit_and`, 2 bits each way for w = 12.

3 rounds for w = 12. Transfers: w-1 for half of the samples each way, and one for every AND and sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from sedml.lab.semi_honest.gadgets.bit_and import BitTriples, bit_and
from sedml.lab.semi_honest.lookup import Lookup, answer, ask, halves, joined, pick
from sedml.lab.semi_honest.party import Party
from sedml.lab.semi_honest.recipe import Recipe
from sedml.mpc.ring import Array, Ring

__all__ = ["negative", "plan_negative"]

_LOWEST, _OTHER = 6, 5


def plan_negative(name: str, rows: int, samples: int, width: int) -> dict[str, Recipe]:
    """What `negative` needs; width of at least 2."""
    recipes: dict[str, Recipe] = {f"{name}/digit{k}": spec for k, spec in enumerate(_lookups(rows, samples, width))}
    # Both halves take part in an AND.
    padded = 2 * -(-samples // 2)
    digits = len(_sizes(width))
    level = 0
    while digits > 1:
        recipes[f"{name}/and{level}"] = BitTriples((_ands(digits), rows, padded))
        digits, level = -(-digits // 2), level + 1
    return recipes


def negative(party: Party, name: str, f: Array, width: int, also: Sequence[Array] = ()) -> tuple[Array, list[Array]]:
    """f: uint[rows, A] in Z_{2^width} -> ⟦f < 0⟧: 0/1 uint8[rows, A]; `also` is swapped in the first round."""
    role, (rows, samples) = party.role, f.shape
    low = Ring(width - 1)
    offered, looked = halves(role, f & f.dtype.type(low.mask))
    x, y = f.dtype.type(low.mask) - offered, looked
    specs = _lookups(rows, samples, width)
    pieces = [party.take(f"{name}/digit{k}") for k in range(len(specs))]
    digits = list(zip(_cut(x, width), _cut(y, width), strict=True))

    asked = [ask(spec, piece, theirs) for spec, piece, (_, theirs) in zip(specs, pieces, digits, strict=True)]
    came = party.swap(f"{name}/ask", [*also, *asked])
    others, questions = came[: len(also)], came[len(also) :]
    tables = [_table(spec, mine) for spec, (mine, _) in zip(specs, digits, strict=True)]
    sent = [answer(*each) for each in zip(specs, pieces, questions, tables, strict=True)]
    answers = party.swap(f"{name}/answer", sent)
    nodes: list[tuple[Array, ...]] = []
    for spec, piece, came_back, (_, theirs) in zip(specs, pieces, answers, digits, strict=True):
        found = pick(spec, piece, came_back, theirs)
        whole = joined(role, piece["own"][..., : x.shape[-1]], found, 2 * x.shape[-1])
        nodes.append(tuple(whole))
    carry = _combine(party, name, nodes)[..., :samples]
    top: Array = (f >> f.dtype.type(width - 1)).astype(np.uint8)
    return top ^ carry, others


def _combine(party: Party, name: str, nodes: list[tuple[Array, ...]]) -> Array:
    """The g of all digits together; nodes are (g, e), lowest first, and the lowest is (g,)."""
    level = 0
    while len(nodes) > 1:
        pairs = list(zip(nodes[::2], nodes[1::2], strict=False))
        # A digit's e is an input wherever its g is; the lowest digit has none, for nothing is carried into it.
        factors = [(high[-1], value) for low, high in pairs for value in low]
        products = list(bit_and(party, f"{name}/and{level}", *(np.stack(side) for side in zip(*factors, strict=True))))
        merged = []
        for low, high in pairs:
            g, *e = products[: len(low)]
            merged.append((high[0] ^ g, *e))
            products = products[len(low) :]
        nodes = merged + ([nodes[-1]] if len(nodes) % 2 else [])
        level += 1
    return nodes[0][0]


def _sizes(width: int) -> list[int]:
    """Bits of each digit of the low width-1 bits, lowest first."""
    low = width - 1
    return [min(_LOWEST, low), *(min(_OTHER, low - start) for start in range(_LOWEST, low, _OTHER))]


def _ands(digits: int) -> int:
    """The lowest pair takes one AND, every other pair two."""
    return 2 * (digits // 2) - 1


@lru_cache(maxsize=64)
def _lookups(rows: int, samples: int, width: int) -> tuple[Lookup, ...]:
    return tuple(Lookup(rows, samples, size, 1 if k == 0 else 2) for k, size in enumerate(_sizes(width)))


def _cut(values: Array, width: int) -> list[Array]:
    digits, start = [], 0
    for size in _sizes(width):
        digit = (values >> values.dtype.type(start)) & values.dtype.type((1 << size) - 1)
        digits.append(digit.astype(np.uint8))
        start += size
    return digits


def _table(spec: Lookup, x: Array) -> Array:
    """x: uint8[rows, h] -> uint[rows, h]: bit j is [j > x]; the second half of the bits, if there is one, [j = x]."""
    word, size = spec.word.type, 1 << spec.bits
    at = x.astype(spec.word)
    full = word(np.iinfo(spec.word).max if 8 * spec.word.itemsize == size else (1 << size) - 1)
    # Two shifts: one by the whole width would be no shift on some processors.
    greater = ((full << at) << word(1)) & full
    if spec.entries == 2:
        greater |= (word(1) << at) << word(size)
    return greater
