"""What a gadget needs of the servers' own randomness, and how all of it for a block is made together.

A `Recipe` says how many transfers each way it takes, and turns them into pieces.
The recipes of a block go in step, so a block takes one round for its transfers and as many more as its longest recipe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sedml.errors import CorrelationError, CorrelationReusedError
from sedml.lab.semi_honest.party import Pieces
from sedml.mpc.ot.extension import Extension, Transfers
from sedml.mpc.prg import Seed
from sedml.mpc.steps import Steps, together

__all__ = ["MadeRandomness", "Recipe", "Recipes", "make"]


class Recipe(ABC):
    """One gadget's need; the subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def transfers(self) -> int:
        """Random OTs each way."""

    @abstractmethod
    def prepare(self, role: int, ots: Transfers, coins: Seed) -> Steps[Pieces]:
        """Make this server's pieces of so many transfers; what else it draws follows from its `coins`."""


Recipes: TypeAlias = Mapping[str, Recipe]


@dataclass
class MadeRandomness:
    """One server's pieces for one block, each to be taken once."""

    block: int
    _pieces: dict[str, Pieces] = field(repr=False)
    _taken: set[str] = field(default_factory=set, repr=False)

    def take(self, name: str) -> Pieces:
        """This server's share of the named piece, once."""
        if name in self._taken:
            raise CorrelationReusedError(
                f"Randomness '{name}' of block {self.block} was used before.",
                "Make fresh randomness: using a mask twice would reveal shares.",
            )
        if name not in self._pieces:
            raise CorrelationError(
                f"No randomness '{name}' was made for block {self.block}.", "Make it for the task that the servers run."
            )
        self._taken.add(name)
        return self._pieces.pop(name)


def make(role: int, extension: Extension, block: int, recipes: Recipes) -> Steps[MadeRandomness]:
    """Everything that a block needs, by both servers together."""
    own = Seed.random().child(f"make/{block}")
    ots = yield from extension.extend(sum(recipe.transfers for recipe in recipes.values()))
    parts, start = [], 0
    for name, recipe in recipes.items():
        parts.append(recipe.prepare(role, ots.part(start, recipe.transfers), own.child(name)))
        start += recipe.transfers
    pieces = yield from together(*parts)
    return MadeRandomness(block, dict(zip(recipes, pieces, strict=True)))
