"""Oblivious selection: the larger of two shared values, and its index, without learning which it is.

A *duel* of [a] and [b], which is SCMP and lines 10, 29 and 30 of Algorithm 1 in one gadget. Let f = a - b and
e = [f < 0]; the winner is a - e f, and ties go to a.

1. Sign test of f (`sign`): opens c = f + r, yields ⟦e⟧. The index difference g = ia - ib is opened under a
   mask of its own, c_g = g + u, in the same round.
2. Open eps = e ^ rho for a dealt bit rho. 1 round, 1 bit each way.
3. With dealt [rho] and [rho r], the servers hold [X] = c [rho] - [rho r] = [rho f], and the winner is
   a - X where eps = 0 and b + X where eps = 1: if eps = 0 then e = rho, so e f = X; if eps = 1 then
   e = 1 - rho, so a - e f = a - f + X = b + X. The index goes the same way with c_g, [rho u] and the same eps.

No value is opened again for the selection: the sign test's masked difference serves both. At the first level
of a tournament the indices are public (ia - ib = -1) and nothing is opened for them.
Rounds: those of the sign test + 1. Dealt besides the sign test: 2 w + index bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.fields import Bits
from sedml.lab.paper.gadgets.sign import SignTest, open_masked, plan_borrow, sign_of_masked
from sedml.lab.semi_honest.party import Party, Pieces
from sedml.mpc.bits import from_planes, plane_bytes
from sedml.mpc.ring import Array, Ring
from sedml.mpc.sharing import Additive, Field

__all__ = ["Duel", "duel", "plan_duel"]


@dataclass(frozen=True)
class Duel(SignTest):
    """A sign test's mask and what carries its outcome over to values and indices."""

    index_width: int
    value: bool
    """Whether the winner's value is wanted, not only its index."""
    secret_index: bool
    """Whether the indices are shared values; at the first level they are public."""

    @property
    def rho_width(self) -> int:
        """[rho] serves the value's ring and the index's; a share reduces to either."""
        return max(self.width, self.index_width) if self.value else self.index_width

    @property
    def masks(self) -> Mapping[str, Field]:
        """[r], ⟦rho⟧ and [u]."""
        masks = {**super().masks, "flip": Bits(self.shape)}
        return {**masks, "u": Additive(self.shape, self.index_width)} if self.secret_index else masks

    @property
    def derived(self) -> Mapping[str, Field]:
        """[rho], [rho r] and [rho u]."""
        derived = {**super().derived, "rho": Additive(self.shape, self.rho_width)}
        if self.value:
            derived["rho_r"] = Additive(self.shape, self.width)
        if self.secret_index:
            derived["rho_u"] = Additive(self.shape, self.index_width)
        return derived

    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """The products in the clear."""
        values = super().derive(masks0, masks1)
        rho = from_planes(masks0["flip"] ^ masks1["flip"], self.samples)
        values["rho"] = rho
        for mask, product in (("r", "rho_r"), ("u", "rho_u")):
            if product in self.derived:
                layout = self.masks[mask]
                values[product] = layout.combine(masks0[mask], masks1[mask]) * rho
        return values


def plan_duel(name: str, spec: Duel) -> dict[str, Correlation]:
    """What `duel` needs."""
    return {f"{name}/mask": spec, **plan_borrow(name, spec.rows, spec.samples, spec.width)}


def duel(party: Party, name: str, spec: Duel, a: Array, b: Array, ia: Array, ib: Array) -> tuple[Array | None, Array]:
    """a, b: uint[rows, Q] in Z_{2^width}; ia, ib in Z_{2^index_width} -> the winner's value and index."""
    samples = a.shape[-1]
    pieces = party.take(f"{name}/mask")
    ring, index_ring = Ring(spec.width), Ring(spec.index_width)
    parts = [((a - b) & ring.mask, pieces["r"], spec.width)]
    if spec.secret_index:
        parts.append(((ia - ib) & index_ring.mask, pieces["u"], spec.index_width))
    c, *c_index = open_masked(party, f"{name}/mask", parts)
    e = sign_of_masked(party, name, c, pieces, spec.width)
    [flipped] = party.open_(f"{name}/flip", [(Bits(a.shape), e ^ pieces["flip"][..., : plane_bytes(samples)])])
    eps = from_planes(flipped, samples).view(np.bool_)

    rho = pieces["rho"][..., :samples]
    if spec.secret_index:
        index_x = c_index[0] * index_ring.reduce(rho) - pieces["rho_u"][..., :samples]
    else:
        index_x = -index_ring.reduce(rho)
    index = np.where(eps, ib + index_x, ia - index_x) & index_ring.mask
    if not spec.value:
        return None, index
    x = c * ring.reduce(rho) - pieces["rho_r"][..., :samples]
    return np.where(eps, b + x, a - x) & ring.mask, index
