"""The carry out of a row of bits, each of which generates a carry, or propagates one, or neither: a binary tree.

A node combines two neighbours by the paper's operator (G'', P'') o (G', P') = (G'' + P'' G', P'' P'). A digit never
generates and propagates at once, so + is XOR, and a node takes two ANDs with a common factor (`Ands`): Beaver's triples
over Z_2 (1991), of which P'' is opened once. All nodes of a level share one round; a node opens 3 bits, the lowest one
2, for no carry enters it and it needs no P. ceil(log2 D) rounds for D bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.gadgets.tournament import levels
from sedml.lab.paper.party import Party, Pieces
from sedml.lab.sharing import Bits, Field, Plane, plane_bytes


@dataclass(frozen=True)
class Ands(Correlation):
    """⟦a⟧, `others` times ⟦b⟧, and each ⟦a b⟧, for an array of `shape` (samples last)."""

    others: int
    shape: tuple[int, ...]

    @property
    def masks(self) -> Mapping[str, Field]:
        """⟦a⟧ and all ⟦b⟧."""
        return {"a": Bits(self.shape), "b": Bits((self.others, *self.shape))}

    @property
    def derived(self) -> Mapping[str, Field]:
        """All ⟦a b⟧."""
        return {"ab": Bits((self.others, *self.shape))}

    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """The products in the clear."""
        return {"ab": (masks0["a"] ^ masks1["a"]) & (masks0["b"] ^ masks1["b"])}


def plan_carry(name: str, digits: int, shape: tuple[int, ...]) -> dict[str, Correlation]:
    """What `carry_out` needs for digits of `shape` = (rows, samples)."""
    plan: dict[str, Correlation] = {}
    for level, nodes in enumerate(levels(digits)):
        plan[f"{name}/{level}/low"] = Ands(1, (1, *shape))
        if nodes > 1:
            plan[f"{name}/{level}/high"] = Ands(2, (nodes - 1, *shape))
    return plan


def carry_out(party: Party, name: str, g: Plane, p: Plane, samples: int) -> Plane:
    """G and P of D digits, uint8[D, rows, B], lowest first -> ⟦carry⟧ out of the highest; p[0] is never looked at."""
    for level, nodes in enumerate(levels(len(g))):
        step, end = f"{name}/{level}", 2 * nodes
        gates = [(f"{step}/low", p[1:2], g[np.newaxis, :1])]
        if nodes > 1:
            gates.append((f"{step}/high", p[3:end:2], np.stack([g[2:end:2], p[2:end:2]])))
        low, *high = _ands(party, step, gates, samples)
        generated = np.concatenate([low[0], *(both[0] for both in high)])
        passed = np.concatenate([p[:1], *(both[1] for both in high)])
        g, p = np.concatenate([g[1:end:2] ^ generated, g[end:]]), np.concatenate([passed, p[end:]])
    carry: Plane = g[0]
    return carry


def _ands(party: Party, step: str, gates: Sequence[tuple[str, Plane, Plane]], samples: int) -> list[Plane]:
    """⟦a b⟧ for a uint8[n, rows, B] and b uint8[others, n, rows, B] of each gate, all in one round."""
    width = plane_bytes(samples)
    dealt = [{key: piece[..., :width] for key, piece in party.take(name).items()} for name, _, _ in gates]
    masked = [
        (Bits((*value.shape[:-1], samples)), value ^ pieces[key])
        for (_, a, b), pieces in zip(gates, dealt, strict=True)
        for key, value in (("a", a), ("b", b))
    ]
    opened: list[Plane] = party.open_(step, masked)
    found = []
    for pieces, d, e in zip(dealt, opened[::2], opened[1::2], strict=True):
        share: Plane = pieces["ab"] ^ (d & pieces["b"]) ^ (e & pieces["a"])
        found.append(share ^ (d & e) if party.role == 0 else share)
    return found
