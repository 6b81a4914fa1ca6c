"""Both servers of a task in one process, as two threads, block after block; and what that cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sedml.aggregation.both_servers import next_of_both
from sedml.lab.semi_honest.check_and_label_noise import Noise
from sedml.lab.semi_honest.opened_labels import LabelShare, reveal
from sedml.lab.semi_honest.party import Party
from sedml.lab.semi_honest.recipe import make
from sedml.lab.semi_honest.semi_honest_block import recipes, run_block
from sedml.lab.semi_honest.two_noise_ideal import ideal_labels
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.mpc.channel import Channel, PhaseCost, memory_pair
from sedml.mpc.ot.extension import Extension, set_up
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.mpc.steps import drive
from sedml.protocol.task import Block
from sedml.protocol.votes import NO_CONSENSUS

__all__ = ["Labels", "Loader", "Run", "Stats", "play", "run_job"]

T = TypeVar("T")
S = TypeVar("S", bound="Stats")

Labels: TypeAlias = npt.NDArray[np.int64]

Loader: TypeAlias = Callable[[Block], Array]
"""One server's shares of the counts of a block: uint[N, Q]."""


@dataclass(frozen=True)
class Stats:
    """What a job cost. Bytes between the servers are those of both directions together, frames included."""

    phases: dict[str, PhaseCost]
    offline: PhaseCost = field(default_factory=PhaseCost)
    """What the servers took to make their own randomness, which needs no vote."""

    @property
    def rounds(self) -> int:
        """Rounds between the servers."""
        return sum(cost.rounds for cost in self.phases.values())

    @property
    def server_bytes(self) -> int:
        """Bytes between the servers."""
        return sum(cost.bytes for cost in self.phases.values())


@dataclass(frozen=True, eq=False)
class Run(Generic[S]):
    """A job that was run here: labels int64[Q], -1 for none, their cost, and the noise, which only its runner knows."""

    task: Task
    labels: Labels = field(repr=False)
    stats: S
    noises: tuple[Noise, Noise] = field(repr=False)

    def is_ideal(self, counts: Array) -> bool:
        """Whether every label is the one that the ideal functionality gives on counts int[N, Q], for the same noise."""
        return np.array_equal(self.labels, ideal_labels(self.task, counts, self.noises))


def run_job(
    task: Task,
    loaders: tuple[Loader, Loader],
    noises: tuple[Noise, Noise],
    *,
    channels: tuple[Channel, Channel] | None = None,
) -> tuple[Labels, Stats]:
    """Run every block of a task; the labels int64[Q], and what they cost."""
    common, channels = Seed.random(), channels or memory_pair(task.id)
    costs: tuple[dict[str, PhaseCost], ...] = ({}, {})
    offline = PhaseCost(), PhaseCost()

    def side(role: int) -> Iterator[LabelShare]:
        """A server."""
        channel, extension = channels[role], None
        for block in task.blocks:
            before, start = channel.traffic, perf_counter()
            extension = extension or Extension(drive(channel, 0, set_up(role)), common.key)
            made = drive(channel, block.index, make(role, extension, block.index, recipes(task, block.samples)))
            offline[role].add(channel.traffic - before, perf_counter() - start)
            party = Party(role, channel, made, costs[role])
            yield run_block(party, task, partial(loaders[role], block), noises[role], common)

    return play(task, channels, (side(0), side(1))), Stats(costs[0], offline[0])


def play(
    task: Task, channels: tuple[Channel, Channel], sides: tuple[Iterator[LabelShare], Iterator[LabelShare]]
) -> Labels:
    """The labels int64[Q] that the requester opens, block after block, of two servers that run side by side."""
    labels = np.full(task.samples, NO_CONSENSUS, np.int64)
    with channels[0], channels[1], ThreadPoolExecutor(2) as threads:
        for block in task.blocks:
            shares = next_of_both(threads, sides, channels)
            labels[block.start : block.stop] = reveal(task, *shares)
    return labels
