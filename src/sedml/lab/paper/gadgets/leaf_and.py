"""Product of a value that S0 knows and a value that S1 knows: 1 round, half the traffic of a triple.

1. The dealer gives S0 (a, c_0) and S1 (b, c_1) with c_0 + c_1 = a b.
2. S0 sends e = x - a and S1 sends f = y - b at the same time.
3. S0 holds x f + c_0 and S1 holds e b + c_1, which add up to x y.

Over Z_2 (`leaf_and`) these are the generate signals G_j = x_j y_j at the leaves of the paper's adder,
where x_j are bits of S0's share and y_j of S1's; over Z_{2^w} (`leaf_product`) the p_1 p_2 of its
conversion. Each server sends the value's own size, nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.party import Party, Pieces
from sedml.lab.sharing import Additive, Bits, Field, Plane, plane_bytes
from sedml.mpc.ring import Array


@dataclass(frozen=True)
class LeafAnd(Correlation):
    """a for S0, b for S1, XOR shares of ab."""

    shape: tuple[int, ...]

    @property
    def masks(self) -> Mapping[str, Field]:
        """Each server's own mask: a is S0's draw, b is S1's."""
        return {"own": Bits(self.shape)}

    @property
    def derived(self) -> Mapping[str, Field]:
        """⟦ab⟧."""
        return {"ab": Bits(self.shape)}

    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """ab in the clear."""
        return {"ab": masks0["own"] & masks1["own"]}


@dataclass(frozen=True)
class LeafProduct(Correlation):
    """a for S0, b for S1, additive shares of ab in Z_{2^width}."""

    shape: tuple[int, ...]
    width: int

    @property
    def masks(self) -> Mapping[str, Field]:
        """Each server's own mask: a is S0's draw, b is S1's."""
        return {"own": Additive(self.shape, self.width)}

    @property
    def derived(self) -> Mapping[str, Field]:
        """[ab]."""
        return {"ab": Additive(self.shape, self.width)}

    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """ab in the clear, modulo the container's size; the field reduces it."""
        return {"ab": masks0["own"] * masks1["own"]}


def leaf_and(party: Party, name: str, own: Plane, samples: int) -> Plane:
    """⟦x y⟧ where `own` is x at S0 and y at S1."""
    pieces = party.take(name)
    size = plane_bytes(samples)
    mask, ab = pieces["own"][..., :size], pieces["ab"][..., :size]
    [theirs] = party.swap(name, [own ^ mask])
    mine: Array = own if party.role == 0 else mask
    product: Array = (mine & theirs) ^ ab
    return product


def leaf_product(party: Party, name: str, own: Array, width: int) -> Array:
    """[x y] in Z_{2^width} where `own` is x at S0 and y at S1."""
    pieces = party.take(name)
    samples = own.shape[-1]
    layout = Additive(own.shape, width)
    mask, ab = pieces["own"][..., :samples], pieces["ab"][..., :samples]
    [packed] = party.swap(name, [layout.to_wire((own - mask) & layout.ring.mask)])
    theirs = layout.from_wire(packed)
    product: Array = (own if party.role == 0 else mask) * theirs + ab
    product &= layout.ring.mask
    return product
