"""A whole job of the laboratory: one server's side, and both servers as two threads of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.aggregation.both_servers import next_of_both
from sedml.lab.paper import three_phases
from sedml.lab.paper.check_and_label_noise import Noise, fresh_noise
from sedml.lab.paper.correlations import corrections_size, deal
from sedml.lab.paper.lab_block import PHASES, run_block
from sedml.lab.paper.onehot_ballots import cast_onehot, counts_share
from sedml.lab.paper.opened_labels import LabelShare, reveal
from sedml.lab.paper.party import Party
from sedml.lab.paper.two_noise_ideal import ideal_labels
from sedml.lab.paper.two_noise_task import Task
from sedml.lab.sharing import share
from sedml.mpc.channel import Channel, PhaseCost, memory_pair
from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.mpc.ring import Array
from sedml.protocol.task import Block
from sedml.protocol.votes import Votes

Labels: TypeAlias = npt.NDArray[np.int64]
Loader: TypeAlias = Callable[[Block], Array]
"""One server's shares of the counts of a block: uint[N, Q]."""
Seeds: TypeAlias = tuple[Seed, Seed]
"""The dealer's, for S0 and for S1."""


@dataclass
class Side:
    """One server's run of a job, and what it cost; bytes are those of both directions together, frames included."""

    shares: list[LabelShare] = field(default_factory=list, repr=False)
    deal: PhaseCost = field(default_factory=PhaseCost)
    """The dealer's time, and what it sends both servers."""
    votes: PhaseCost = field(default_factory=PhaseCost)
    """From shares of counts to shares of labels: all phases."""
    phases: dict[str, PhaseCost] = field(default_factory=lambda: {phase: PhaseCost() for phase in PHASES})


@dataclass(frozen=True, eq=False)
class Run:
    """A job that was run here: labels int64[Q], -1 for none, S0's side, and the noise, which only its runner knows."""

    task: Task
    labels: Labels = field(repr=False)
    side: Side
    noises: tuple[Noise, Noise] = field(repr=False)

    def is_ideal(self, counts: Array) -> bool:
        """Whether every label is the one that the ideal functionality gives on counts int[N, Q], for the same noise."""
        return np.array_equal(self.labels, ideal_labels(self.task, counts, self.noises))


def run(task: Task, loaders: tuple[Loader, Loader]) -> Run:
    """Aggregate with fresh noise."""
    noises = fresh_noise(task)
    return Run(task, *run_job(task, loaders, noises), noises)


def vote_loaders(task: Task, votes: Votes) -> tuple[Loader, Loader]:
    """Cast votes int[K, Q] as one-hot ballots; how S0 and S1 add up their halves."""
    halves = zip(*(cast_onehot(row, task) for row in votes), strict=True)
    s0, s1 = (partial(counts_share, role, half, task) for role, half in enumerate(halves))
    return s0, s1


def counts_loaders(task: Task, counts: Array) -> tuple[Loader, Loader]:
    """Share counts int[N, Q]; how S0 and S1 read their shares."""
    s0, s1 = (partial(_part, half) for half in share(task.counts_layout, counts, Seed.random(), "counts"))
    return s0, s1


def _part(half: Array, block: Block) -> Array:
    part: Array = half[:, block.start : block.stop]
    return part


def run_job(
    task: Task,
    loaders: tuple[Loader, Loader],
    noises: tuple[Noise, Noise],
    *,
    channels: tuple[Channel, Channel] | None = None,
) -> tuple[Labels, Side]:
    """Run every block of a task between two threads; the labels int64[Q], and S0's side."""
    channels, seeds = channels or memory_pair(task.id), (Seed.random(), Seed.random())

    def side(role: int) -> Iterator[Side]:
        yield run_server(role, task, loaders[role], noises[role], seeds, channels[role])

    with channels[0], channels[1], ThreadPoolExecutor(2) as threads:
        sides = next_of_both(threads, (side(0), side(1)), channels)
    return opened(task, *sides), sides[0]


def opened(task: Task, s0: Side, s1: Side) -> Labels:
    """The labels int64[Q] that the requester opens."""
    return np.concatenate([reveal(task, *shares) for shares in zip(s0.shares, s1.shares, strict=True)])


def run_server(role: int, task: Task, load: Loader, noise: Noise, seeds: Seeds, channel: Channel) -> Side:
    """A server: all blocks, one after the other. It plays the dealer's part for itself as well.

    `seeds` may be given again for the same task only with the same shares and the same noise: a mask that hides two
    different values reveals their difference.
    """
    found = Side()
    before, start = channel.traffic, perf_counter()

    def charge(cost: PhaseCost) -> None:
        nonlocal before, start
        now = perf_counter()
        cost.add(channel.traffic - before, now - start)
        before, start = channel.traffic, now

    for block in task.blocks:
        plan = three_phases.plan(task, block.samples)
        pieces = deal(plan, block.index, seeds)[role]
        charge(found.deal)
        found.deal.bytes += corrections_size(plan) + (0 if block.index else 2 * SEED_BYTES)
        # Both begin together: what was dealt more slowly to one is not the other's time with the votes.
        channel.exchange(block.index, "ready", [])
        before, start = channel.traffic, perf_counter()
        party = Party(role, channel, pieces, found.phases)
        found.shares.append(run_block(party, task, partial(load, block), noise))
        charge(found.votes)
    return found
