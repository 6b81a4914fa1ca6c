"""The dealer's one-use randomness: declared by each gadget, dealt from seeds, handed out once.

A `Correlation` declares what a gadget needs: *masks*, of which each server expands its own share from its own seed, and
*derived* values, functions of the masks. S0 expands its share of those as well; S1's share is the *correction* that it
is sent. So S0 is sent a seed and S1 a seed and the corrections, all before the votes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeAlias

from sedml.lab.paper.party import DealtRandomness, Pieces
from sedml.lab.sharing import Field
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array


class Correlation(ABC):
    """What one step of one gadget needs from the dealer; the subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def masks(self) -> Mapping[str, Field]:
        """Values of which each server draws its own share."""

    @property
    @abstractmethod
    def derived(self) -> Mapping[str, Field]:
        """Functions of the masks; S1's share of each is a correction."""

    @abstractmethod
    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """The derived values in the clear, from S0's and S1's shares of the masks. Only the dealer runs this."""


Plan: TypeAlias = Mapping[str, Correlation]


def deal(plan: Plan, block: int, seeds: tuple[Seed, Seed]) -> tuple[DealtRandomness, DealtRandomness]:
    """What S0 and S1 have for a block once everything is dealt; the same seeds deal the same."""
    dealt: tuple[dict[str, Pieces], dict[str, Pieces]] = ({}, {})

    def drawn(role: int, label: str, layout: Field) -> Array:
        return layout.draw(expand(seeds[role], f"{block}/{label}", layout.drawn_bytes))

    for name, correlation in plan.items():
        s0, s1 = (
            {key: drawn(role, f"{name}/{key}", layout) for key, layout in correlation.masks.items()} for role in (0, 1)
        )
        values = correlation.derive(s0, s1)
        for key, layout in correlation.derived.items():
            s0[key] = drawn(0, f"{name}/{key}", layout)
            s1[key] = layout.remainder(values[key], s0[key])
        dealt[0][name], dealt[1][name] = s0, s1
    return DealtRandomness(block, dealt[0]), DealtRandomness(block, dealt[1])


def corrections_size(plan: Plan) -> int:
    """Bytes the dealer sends to S1 for one block, besides the seed."""
    return sum(layout.wire_bytes for correlation in plan.values() for layout in correlation.derived.values())
