"""The dealer's one-use randomness: declared by each gadget, dealt from seeds, handed out once.

A `Correlation` declares what a gadget needs: *masks*, of which each server expands its own share from
its own seed, and *derived* values, functions of the masks. S0 expands its share of those as well; S1
receives its share, the *correction*. So S0 is sent a seed and S1 a seed and the corrections.

Pieces are addressed by name ("label/0/duel"), block and task. `Correlations.take` hands a piece out
once; asking again raises, because a mask used for two values reveals their difference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import CorrelationError, CorrelationReusedError
from sedml.lab.semi_honest.party import Pieces
from sedml.mpc.prg import Seed, expand
from sedml.mpc.sharing import Field

__all__ = ["Correlation", "Correlations", "Plan", "corrections_size", "deal"]


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


@dataclass
class Correlations:
    """One server's correlations for one block, each to be taken once.

    `seed` is the server's own, already bound to the task; `corrections` is None for S0.
    """

    plan: Plan
    block: int
    seed: Seed = field(repr=False)
    corrections: npt.NDArray[np.uint8] | None = field(repr=False)
    _left: dict[str, int] = field(init=False, repr=False)
    _ready: dict[str, Pieces] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._left = {}
        size = 0
        for name, correlation in self.plan.items():
            self._left[name] = size
            size += _layout(correlation).wire_size
        if self.corrections is not None and self.corrections.size != size:
            raise CorrelationError(
                f"The corrections of block {self.block} have {self.corrections.size} bytes, not {size}.",
                "Deal this block again; nothing of it has been used.",
            )

    def prepare(self) -> Correlations:
        """Expand and unpack every piece now. None depends on a vote, so a server does this before the block starts."""
        self._ready = {name: self._expand(name) for name in self._left}
        return self

    def take(self, name: str) -> Pieces:
        """This server's share of the named piece, once."""
        if name not in self.plan:
            raise CorrelationError(
                f"No correlation '{name}' was dealt for block {self.block}.",
                "Deal for the same task and protocol that the servers run.",
            )
        if name not in self._left:
            raise CorrelationReusedError(
                f"Correlation '{name}' of block {self.block} was used before.",
                "Deal fresh randomness: using a mask twice would reveal shares.",
            )
        pieces = self._ready.pop(name, None) or self._expand(name)
        del self._left[name]
        return pieces

    def _expand(self, name: str) -> Pieces:
        layouts, offset = _layout(self.plan[name]), self._left[name]
        label = f"{self.block}/{name}"
        if self.corrections is None:
            return _draw(layouts.all, self.seed, label)
        pieces = _draw(layouts.masks, self.seed, label)
        for key, layout, size in layouts.derived:
            pieces[key] = layout.from_wire(self.corrections[offset : offset + size])
            offset += size
        return pieces


def deal(plan: Plan, block: int, seed0: Seed, seed1: Seed) -> npt.NDArray[np.uint8]:
    """The corrections that S1 needs for one block; the seeds are those the two servers hold."""
    parts: list[npt.NDArray[np.uint8]] = [np.empty(0, np.uint8)]
    for name, correlation in plan.items():
        label, layouts = f"{block}/{name}", _layout(correlation)
        pieces0 = _draw(layouts.all, seed0, label)
        pieces1 = _draw(layouts.masks, seed1, label)
        values = correlation.derive(pieces0, pieces1)
        for key, layout, _ in layouts.derived:
            parts.append(layout.to_wire(layout.remainder(values[key], pieces0[key])))
    return np.concatenate(parts)


def corrections_size(plan: Plan) -> int:
    """Bytes the dealer sends to S1 for one block."""
    return sum(_layout(correlation).wire_size for correlation in plan.values())


class _Drawn(NamedTuple):
    """Fields, and where each one's part of a stream starts and ends; and the size of the stream."""

    fields: tuple[tuple[str, Field, int, int], ...]
    size: int


class _Layout(NamedTuple):
    masks: _Drawn
    all: _Drawn
    derived: tuple[tuple[str, Field, int], ...]
    """The parts, with the size of each on the wire."""
    wire_size: int


@lru_cache(maxsize=1024)
def _layout(correlation: Correlation) -> _Layout:
    """Worked out once: every block of a task asks for the same."""
    masks, derived = correlation.masks, correlation.derived
    sizes = tuple((key, layout, layout.wire_bytes) for key, layout in derived.items())
    return _Layout(_drawn(masks), _drawn({**masks, **derived}), sizes, sum(size for *_, size in sizes))


def _drawn(fields: Mapping[str, Field]) -> _Drawn:
    places, start = [], 0
    for key, layout in fields.items():
        places.append((key, layout, start, start + layout.drawn_bytes))
        # Each part takes whole words of 8 bytes, so that the next one can be viewed as words of any type.
        start += -(-layout.drawn_bytes // 8) * 8
    return _Drawn(tuple(places), start)


def _draw(drawn: _Drawn, seed: Seed, label: str) -> Pieces:
    """One uniform share of every field, from consecutive parts of one stream."""
    stream = expand(seed, label, drawn.size)
    return {key: layout.draw(stream[start:stop]) for key, layout, start, stop in drawn.fields}
