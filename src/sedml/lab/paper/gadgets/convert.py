"""From an XOR-shared bit ⟦e⟧ to an additive [e], as the paper does it.

With p_1, p_2 the two servers' own bits, e = p_1 + p_2 - 2 p_1 p_2, and p_1 p_2 is a `leaf_product`. 1 round, w bits
each way.
"""

from __future__ import annotations

from sedml.lab.paper.gadgets.leaf_and import leaf_product
from sedml.lab.semi_honest.party import Party
from sedml.mpc.bits import Plane, from_planes
from sedml.mpc.ring import Array, Ring

__all__ = ["convert_paper"]


def convert_paper(party: Party, name: str, e: Plane, samples: int, width: int) -> Array:
    """⟦e⟧: uint8[..., B] -> [e]: uint[..., Q] in Z_{2^width}, by the paper's product."""
    ring = Ring(width)
    own = from_planes(e, samples).astype(ring.dtype)
    product = leaf_product(party, name, own, width)
    converted: Array = (own - ring.dtype.type(2) * product) & ring.mask
    return converted
