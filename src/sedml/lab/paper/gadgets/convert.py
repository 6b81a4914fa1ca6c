"""From an XOR-shared bit ⟦e⟧ to an additive [e].

The paper's conversion (`convert_paper`): with p_1, p_2 the two servers' own bits, e = p_1 + p_2 - 2 p_1 p_2,
and p_1 p_2 is a `leaf_product`. 1 round, w bits each way.

With a dealt bit (`convert`): the dealer deals rho both as ⟦rho⟧ and as [rho]; open eps = e ^ rho, then
[e] = eps + (1 - 2 eps) [rho]. 1 round, 1 bit each way. (A daBit, Rotaru and Wood 2019.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.fields import Bits
from sedml.lab.paper.gadgets.leaf_and import leaf_product
from sedml.mpc.bits import Plane, from_planes, plane_bytes
from sedml.mpc.party import Party, Pieces
from sedml.mpc.ring import Array, Ring
from sedml.mpc.sharing import Additive, Field

__all__ = ["DealtBit", "convert", "convert_paper"]


@dataclass(frozen=True)
class DealtBit(Correlation):
    """A random bit, XOR-shared and additively shared in Z_{2^width}."""

    shape: tuple[int, ...]
    width: int

    @property
    def masks(self) -> Mapping[str, Field]:
        """⟦rho⟧."""
        return {"flip": Bits(self.shape)}

    @property
    def derived(self) -> Mapping[str, Field]:
        """[rho]."""
        return {"rho": Additive(self.shape, self.width)}

    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """Rho in the clear."""
        return {"rho": from_planes(masks0["flip"] ^ masks1["flip"], self.shape[-1])}


def convert(party: Party, name: str, e: Plane, samples: int, width: int) -> Array:
    """⟦e⟧: uint8[..., B] -> [e]: uint[..., Q] in Z_{2^width}, by a dealt bit."""
    pieces = party.take(name)
    flip, rho = pieces["flip"][..., : plane_bytes(samples)], pieces["rho"][..., :samples]
    [flipped] = party.open_(name, [(Bits((*e.shape[:-1], samples)), e ^ flip)])
    eps = from_planes(flipped, samples)
    converted: Array = np.where(eps.view(np.bool_), -rho, rho) + party.constant(eps)
    converted &= Ring(width).mask
    return converted


def convert_paper(party: Party, name: str, e: Plane, samples: int, width: int) -> Array:
    """⟦e⟧: uint8[..., B] -> [e]: uint[..., Q] in Z_{2^width}, by the paper's product."""
    ring = Ring(width)
    own = from_planes(e, samples).astype(ring.dtype)
    product = leaf_product(party, name, own, width)
    converted: Array = (own - ring.dtype.type(2) * product) & ring.mask
    return converted
