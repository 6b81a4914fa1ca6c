"""What a gadget needs of the servers' own randomness, and how all of it for a block is made together.

A `Recipe` says how many transfers each way it takes, and turns them into pieces.
Where that takes messages, `prepare` yields what to send and is given what came; the recipes of a block go in step, so a
block takes one round for its transfers and as many more as its longest recipe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sedml.errors import CorrelationError, CorrelationReusedError
from sedml.lab.semi_honest.party import Pieces
from sedml.mpc.channel import Channel
from sedml.mpc.ot.extension import Extension, Transfers
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array

__all__ = ["MadeRandomness", "Preparation", "Recipe", "Recipes", "make"]

Preparation: TypeAlias = Generator[list[Array], list[Array], Pieces]


class Recipe(ABC):
    """One gadget's need; the subclasses are frozen dataclasses."""

    @property
    @abstractmethod
    def transfers(self) -> int:
        """Random OTs each way."""

    @abstractmethod
    def prepare(self, role: int, ots: Transfers, coins: Seed) -> Preparation:
        """Make this server's pieces of so many transfers, yielding a list of arrays for each round it takes.

        What else it draws follows from its `coins`.
        """


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


def make(role: int, extension: Extension, channel: Channel, block: int, recipes: Recipes) -> MadeRandomness:
    """Everything that a block needs, by both servers together."""
    own = Seed.random().child(f"make/{block}")
    ots = extension.extend(channel, block, sum(recipe.transfers for recipe in recipes.values()))
    under_way: dict[str, Preparation] = {}
    messages: dict[str, list[Array]] = {}
    pieces: dict[str, Pieces] = {}

    def advance(name: str, received: list[Array] | None) -> None:
        preparation = under_way[name]
        try:
            messages[name] = next(preparation) if received is None else preparation.send(received)
        except StopIteration as end:
            pieces[name] = end.value
            messages.pop(name, None)

    start = 0
    for name, recipe in recipes.items():
        under_way[name] = recipe.prepare(role, ots.part(start, recipe.transfers), own.child(name))
        start += recipe.transfers
        advance(name, None)
    step = 0
    while messages:
        names = list(messages)
        came = channel.exchange(block, f"make/{step}", [array for name in names for array in messages[name]])
        for name in names:
            count = len(messages[name])
            mine, came = came[:count], came[count:]
            advance(name, mine)
        step += 1
    return MadeRandomness(block, pieces)
