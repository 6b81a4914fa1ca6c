"""Multiplication of additive shares by Beaver's triple (paper, section 2.2).

1. The dealer deals [t_1], [t_2] and [t_3] = [t_1 t_2].
2. Open e = x - t_1 and f = y - t_2. 1 round, 2 w bits each way.
3. [x y] = e f + [t_1] f + [t_2] e + [t_3], the public e f added by S0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.party import Party, Pieces
from sedml.lab.sharing import Additive, Field
from sedml.mpc.ring import Array


@dataclass(frozen=True)
class Triple(Correlation):
    """Multiplication triples in Z_{2^width}."""

    shape: tuple[int, ...]
    width: int

    @property
    def masks(self) -> Mapping[str, Field]:
        """[t_1], [t_2]."""
        layout = Additive(self.shape, self.width)
        return {"t1": layout, "t2": layout}

    @property
    def derived(self) -> Mapping[str, Field]:
        """[t_3]."""
        return {"t3": Additive(self.shape, self.width)}

    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """t_3 in the clear, modulo the container's size; the field reduces it."""
        return {"t3": (masks0["t1"] + masks1["t1"]) * (masks0["t2"] + masks1["t2"])}


def multiply(party: Party, name: str, x: Array, y: Array, width: int) -> Array:
    """[x y] for x, y: uint[..., Q] in Z_{2^width}."""
    pieces = {key: piece[..., : x.shape[-1]] for key, piece in party.take(name).items()}
    layout = Additive(x.shape, width)
    mask = layout.ring.mask
    e, f = party.open_(name, [(layout, (x - pieces["t1"]) & mask), (layout, (y - pieces["t2"]) & mask)])
    product: Array = pieces["t1"] * f + pieces["t2"] * e + pieces["t3"] + party.constant(e * f)
    product &= mask
    return product
