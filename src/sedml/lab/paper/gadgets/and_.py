"""AND of XOR-shared bits, of any number of inputs, in one round.

Given ⟦x_1⟧ .. ⟦x_m⟧ and a list of monomials (which inputs to multiply together):

1. The dealer deals ⟦a_i⟧ for every input and ⟦a_U⟧, the AND of the a_i in U, for every subset U of two
   or more inputs of a monomial.
2. Open d_i = x_i ^ a_i. One round, m bits a sample each way.
3. x_i = d_i ^ a_i, so a monomial is a polynomial in the public d_i whose coefficients are the dealt ⟦a_U⟧:
   the servers evaluate it on their shares, variable by variable as in Horner's rule.

With two inputs this is Beaver's triple (Beaver 1991) over Z_2. An input that several monomials share is
opened once, which is how a carry node gets away with 3 bits for its two products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain, combinations
from operator import and_ as bit_and
from typing import TypeAlias

import numpy as np

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.fields import Bits
from sedml.lab.semi_honest.party import Party, Pieces
from sedml.mpc.bits import Plane, plane_bytes
from sedml.mpc.sharing import Field

__all__ = ["Gate", "Monomials", "Products", "products"]

Monomials: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Products(Correlation):
    """What a gate with these inputs and monomials needs, for an array of `shape` (samples last)."""

    inputs: int
    monomials: Monomials
    shape: tuple[int, ...]

    @property
    def masks(self) -> Mapping[str, Field]:
        """One mask an input."""
        return {"a": Bits((self.inputs, *self.shape))}

    @property
    def derived(self) -> Mapping[str, Field]:
        """One AND a subset."""
        return {"products": Bits((len(_subsets(self.monomials)), *self.shape))}

    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """The ANDs in the clear."""
        a = masks0["a"] ^ masks1["a"]
        ands = [reduce(bit_and, [a[i] for i in subset]) for subset in _subsets(self.monomials)]
        return {"products": np.stack(ands)}


@lru_cache(maxsize=256)
def _subsets(monomials: Monomials) -> list[tuple[int, ...]]:
    """Every set of two or more inputs whose AND must be dealt."""
    sets = (combinations(sorted(monomial), size) for monomial in monomials for size in range(2, len(monomial) + 1))
    return sorted(set(chain.from_iterable(sets)))


@dataclass(frozen=True)
class Gate:
    """A use of `Products`: the piece's name, the inputs `uint8[m, ..., B]` and what to multiply."""

    name: str
    inputs: Plane
    monomials: Monomials
    samples: int


def products(party: Party, step: str, gates: Sequence[Gate]) -> list[Plane]:
    """Evaluate all gates in one round; for each, shares `uint8[len(monomials), ..., B]`."""
    dealt = [party.take(gate.name) for gate in gates]
    masked = []
    for gate, pieces in zip(gates, dealt, strict=True):
        width = plane_bytes(gate.samples)
        pieces["a"] = pieces["a"][..., :width]
        pieces["products"] = pieces["products"][..., :width]
        layout = Bits((*gate.inputs.shape[:-1], gate.samples))
        masked.append((layout, gate.inputs ^ pieces["a"]))
    opened = party.open_(step, masked)
    return [_evaluate(party, gate, d, pieces) for gate, d, pieces in zip(gates, opened, dealt, strict=True)]


def _evaluate(party: Party, gate: Gate, d: Plane, pieces: Pieces) -> Plane:
    one = np.uint8(0xFF) if party.role == 0 else np.uint8(0)
    coefficients: dict[tuple[int, ...], Plane | np.uint8] = {(): one}
    coefficients |= {(i,): mask for i, mask in enumerate(pieces["a"])}
    coefficients |= zip(_subsets(gate.monomials), pieces["products"], strict=True)
    out = np.empty((len(gate.monomials), *gate.inputs.shape[1:]), np.uint8)
    for k, monomial in enumerate(gate.monomials):
        out[k] = _horner(tuple(sorted(monomial)), coefficients, d)
    return out


def _horner(
    variables: tuple[int, ...],
    coefficients: Mapping[tuple[int, ...], Plane | np.uint8],
    d: Plane,
    chosen: tuple[int, ...] = (),
) -> Plane | np.uint8:
    """The XOR over subsets U of `variables` of a_{U and chosen} times the d_i of the others, highest i first."""
    if not variables:
        return coefficients[chosen]
    *rest, i = variables
    with_i = _horner(tuple(rest), coefficients, d, (i, *chosen))
    value: Plane = with_i ^ (d[i] & _horner(tuple(rest), coefficients, d, chosen))
    return value
