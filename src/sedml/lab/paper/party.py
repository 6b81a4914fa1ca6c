"""One server in the middle of the protocol: its role, its link to the other, its one-use randomness.

Gadgets are functions of a `Party`. `swap` is the only way a value leaves a server in a block: whoever audits the
protocol looks at its callers. These are `open_`, which adds the two servers' shares and returns what both
now know (so what it is given must be masked), and the gadget `leaf_and`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from sedml.errors import CorrelationError, CorrelationReusedError
from sedml.lab.sharing import Field
from sedml.mpc.channel import Channel, PhaseCost
from sedml.mpc.ring import Array

Pieces: TypeAlias = dict[str, Array]
"""One server's share of a piece of one-use randomness, by the names of its parts."""


@dataclass
class DealtRandomness:
    """One server's pieces for one block, each to be taken once."""

    block: int
    _pieces: dict[str, Pieces] = field(repr=False)
    _taken: set[str] = field(default_factory=set, repr=False)

    def take(self, name: str) -> Pieces:
        """This server's share of the named piece, once."""
        if name in self._taken:
            raise CorrelationReusedError(
                f"Randomness '{name}' of block {self.block} was used before.",
                "Deal fresh randomness: using a mask twice would reveal shares.",
            )
        if name not in self._pieces:
            raise CorrelationError(
                f"No randomness '{name}' was dealt for block {self.block}.", "Deal it for the task the servers run."
            )
        self._taken.add(name)
        return self._pieces.pop(name)


@dataclass
class Party:
    """Server S0 (role 0) or S1 (role 1) working on one block."""

    role: int
    channel: Channel
    correlations: DealtRandomness
    costs: dict[str, PhaseCost] = field(default_factory=dict)

    def take(self, name: str) -> Pieces:
        """This server's share of a piece of one-use randomness; each can be taken once."""
        return self.correlations.take(name)

    def constant(self, value: Array) -> Array:
        """A share of a public value: S0 holds it, S1 holds zero."""
        return value if self.role == 0 else np.zeros_like(value)

    def swap(self, step: str, arrays: Sequence[Array]) -> list[Array]:
        """One round: send these arrays, get the peer's of the same shapes."""
        return self.channel.exchange(self.correlations.block, step, arrays)

    def open_(self, step: str, shared: Sequence[tuple[Field, Array]]) -> list[Array]:
        """Reveal shared values to both servers, all in one round."""
        theirs = self.swap(step, [layout.to_wire(mine) for layout, mine in shared])
        return [
            layout.combine(mine, layout.from_wire(packed))
            for (layout, mine), packed in zip(shared, theirs, strict=True)
        ]

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge what happens inside to a phase of the protocol."""
        cost = self.costs.setdefault(name, PhaseCost())
        before, start = self.channel.traffic, time.perf_counter()
        try:
            yield
        finally:
            cost.add(self.channel.traffic - before, time.perf_counter() - start)
