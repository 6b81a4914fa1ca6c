"""Both servers in one process: deal and run a whole job.

The correlations are dealt and the protocol is run exactly as between two machines, with S0 and S1 as two threads
joined by an in-process channel. It shows what a deployment would answer and cost; whoever runs it sees both
halves of everything, so it protects nobody by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import ChannelError, PeerGoneError
from sedml.mpc.channel import Channel, memory_pair
from sedml.mpc.ot.extension import Extension, set_up
from sedml.mpc.ot.recipe import MadeRandomness, Recipes, make
from sedml.mpc.party import OneUse, Party, PhaseCost
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.mpc.sharing import Additive, share
from sedml.protocol.ballots import cast, counts_share, index_shares
from sedml.protocol.block import PHASES, run_block
from sedml.protocol.dealing import Seeds, deal_block, dealt_correlations
from sedml.protocol.drawn_noise import DrawnNoise, Noise, fresh_noise
from sedml.protocol.ideal import NO_CONSENSUS, ideal_labels
from sedml.protocol.labels import LabelShare, reveal
from sedml.protocol.task import Block, Task
from sedml.protocol.undealt import recipes
from sedml.protocol.votes import Votes

__all__ = ["Loader", "Run", "Stats", "ballot_loaders", "counts_loaders", "run_job", "run_shares", "run_votes"]

T = TypeVar("T")

Labels: TypeAlias = npt.NDArray[np.int64]

Loader: TypeAlias = Callable[[Block], Array]
"""Reads one server's shares of a block."""


@dataclass(frozen=True, repr=False)
class Stats:
    """What a job cost. Bytes between the servers are those of both directions together, frames included."""

    ring_bits: dict[str, int]
    phases: dict[str, PhaseCost]
    deal_seconds: float
    dealer_bytes: int
    """Seeds for both servers and corrections for S1."""
    teacher_bytes: tuple[int, int]
    """What each teacher sent to S0 and to S1."""
    offline: PhaseCost = field(default_factory=PhaseCost)
    """What the servers took to make their own randomness, which needs no vote; nothing where a dealer dealt it."""

    @classmethod
    def nothing(cls) -> Stats:
        """The cost of a job that had nothing to do."""
        return cls({}, {}, 0.0, 0, (0, 0))

    @property
    def seconds(self) -> float:
        """Online time of the whole job, without what was dealt or made before it."""
        return sum(cost.seconds for cost in self.phases.values())

    @property
    def rounds(self) -> int:
        """Rounds between the servers."""
        return sum(cost.rounds for cost in self.phases.values())

    @property
    def server_bytes(self) -> int:
        """Bytes between the servers."""
        return sum(cost.bytes for cost in self.phases.values())

    def __repr__(self) -> str:
        return f"<Stats: {self.seconds:.3g} s, {self.rounds} rounds, {self.server_bytes:,} bytes between the servers>"


@dataclass(frozen=True, eq=False)
class Run:
    """A job that was run here: labels int64[Q], -1 for none, their cost, and the noise, which only its runner knows."""

    task: Task
    labels: Labels = field(repr=False)
    stats: Stats
    noises: tuple[DrawnNoise, DrawnNoise] = field(repr=False)

    def is_ideal(self, counts: Array) -> bool:
        """Whether every label is the one that the ideal functionality gives on counts int[N, Q], for the same noise."""
        return np.array_equal(self.labels, ideal_labels(self.task, counts, self.noises))


def run_votes(
    task: Task, votes: Votes, progress: Progress = silent, *, noises: tuple[DrawnNoise, DrawnNoise] | None = None
) -> Run:
    """Cast votes int[K, Q] as ballots, deal, aggregate; with fresh noise unless some is given."""
    ballots = [cast(row, task.ballot) for row in votes]
    return run_shares(task, ballot_loaders(task, ballots), progress, noises=noises)


def run_shares(
    task: Task,
    loaders: tuple[Loader, Loader],
    progress: Progress = silent,
    *,
    noises: tuple[DrawnNoise, DrawnNoise] | None = None,
) -> Run:
    """Deal and aggregate what the servers hold already."""
    noises = noises or fresh_noise(task)
    labels, stats = run_job(task, loaders, noises, progress=progress)
    return Run(task, labels, stats, noises)


def ballot_loaders(task: Task, ballots: Sequence[tuple[bytes, bytes]]) -> tuple[Loader, Loader]:
    """How S0 and S1 read their halves of the ballots."""
    read = index_shares if task.votes == "index" else counts_share

    def loader(role: int) -> Loader:
        halves = [ballot[role] for ballot in ballots]
        return lambda block: read(role, halves, task, block)

    return loader(0), loader(1)


def counts_loaders(task: Task, counts: Array) -> tuple[Loader, Loader]:
    """Share counts int[N, Q], and how S0 and S1 read their shares."""
    halves = share(Additive(counts.shape, task.widths.counts), counts, Seed.random(), "counts")

    def loader(half: Array) -> Loader:
        return lambda block: half[:, block.start : block.stop]

    return loader(halves[0]), loader(halves[1])


def run_job(
    task: Task,
    loaders: tuple[Loader, Loader],
    noises: tuple[Noise, Noise],
    *,
    channels: tuple[Channel, Channel] | None = None,
    seeds: Seeds | None = None,
    progress: Progress = silent,
) -> tuple[Labels, Stats]:
    """Deal and run every block of a task; the labels int64[Q], and what they cost.

    `seeds` may be given again for the same task only with the same shares and the same noise: a mask that hides two
    different values reveals their difference.
    """
    common = Seed.random()
    channels = channels or memory_pair(task.id)
    labels = np.full(task.samples, NO_CONSENSUS, np.int64)
    costs: tuple[dict[str, PhaseCost], ...] = ({}, {})
    source: _Source = _Dealt(task, seeds) if task.randomness == "dealer" else _Made(task, channels, common)
    with channels[0], channels[1], ThreadPoolExecutor(2) as threads:
        for block in task.blocks:
            correlations = source.next(block, threads)
            parties = [Party(role, channels[role], correlations[role], costs[role]) for role in (0, 1)]
            shares = _both(
                threads.submit(_side, party, task, partial(loaders[party.role], block), noises[party.role], common)
                for party in parties
            )
            labels[block.start : block.stop] = reveal(task, *shares)
            progress("aggregating", block.stop, task.samples)
    phases: dict[str, PhaseCost] = {phase: costs[0].get(phase, PhaseCost()) for phase in PHASES}
    widths = {"threshold": task.widths.threshold, "label": task.widths.label, "counts": task.widths.counts}
    return labels, Stats(widths, phases, source.seconds, source.dealt_bytes, task.ballot.sizes, source.offline)


class _Source(ABC):
    """Where both servers' one-use randomness comes from."""

    seconds = 0.0
    dealt_bytes = 0

    def __init__(self) -> None:
        self.offline = PhaseCost()

    @abstractmethod
    def next(self, block: Block, threads: ThreadPoolExecutor) -> tuple[OneUse, OneUse]:
        """That of S0 and of S1 for a block."""


class _Dealt(_Source):
    """A dealer in this process."""

    def __init__(self, task: Task, seeds: Seeds | None) -> None:
        super().__init__()
        self._task, self._seeds = task, seeds or Seeds.of(task)
        self.dealt_bytes = len(self._seeds.s0.key) + len(self._seeds.s1.key)

    def next(self, block: Block, threads: ThreadPoolExecutor) -> tuple[OneUse, OneUse]:
        start = perf_counter()
        corrections = deal_block(self._task, block, self._seeds)
        self.seconds += perf_counter() - start
        self.dealt_bytes += corrections.size
        return (
            dealt_correlations(self._task, block, self._seeds.s0, None).prepare(),
            dealt_correlations(self._task, block, self._seeds.s1, corrections).prepare(),
        )


class _Made(_Source):
    """The two servers themselves, over the same link."""

    def __init__(self, task: Task, channels: tuple[Channel, Channel], common: Seed) -> None:
        super().__init__()
        self._task, self._channels, self._common = task, channels, common
        self._extensions: tuple[Extension, ...] = ()

    def next(self, block: Block, threads: ThreadPoolExecutor) -> tuple[OneUse, OneUse]:
        before, start = self._channels[0].traffic, perf_counter()
        if not self._extensions:
            self._extensions = _both(
                threads.submit(_extension, role, self._channels[role], self._common) for role in (0, 1)
            )
        needs = recipes(self._task, block.samples)
        made = _both(
            threads.submit(_make, role, self._extensions[role], self._channels[role], block.index, needs)
            for role in (0, 1)
        )
        spent = self._channels[0].traffic - before
        self.offline.seconds += perf_counter() - start
        self.offline.rounds += spent.rounds
        self.offline.bytes += spent.bytes_sent + spent.bytes_received
        return made


def _extension(role: int, channel: Channel, common: Seed) -> Extension:
    with _closing_on_error(channel):
        return Extension(set_up(role, channel), common.key)


def _make(role: int, extension: Extension, channel: Channel, block: int, needs: Recipes) -> MadeRandomness:
    with _closing_on_error(channel):
        return make(role, extension, channel, block, needs)


def _side(party: Party, task: Task, load: Callable[[], Array], noise: Noise, common: Seed) -> LabelShare:
    """A server's thread."""
    with _closing_on_error(party.channel):
        return run_block(party, task, load, noise, common)


@contextmanager
def _closing_on_error(channel: Channel) -> Iterator[None]:
    """Whatever goes wrong in one server's thread, the other one must not wait for it."""
    try:
        yield
    except BaseException:
        channel.close()
        raise


def _both(sides: Iterable[Future[T]]) -> tuple[T, T]:
    """What both servers came to, or the error that came first: a broken link is only its consequence."""
    first, second = sides
    failed = sorted(
        (e for e in (first.exception(), second.exception()) if e is not None),
        key=lambda e: (isinstance(e, PeerGoneError), isinstance(e, ChannelError)),
    )
    if failed:
        raise failed[0]
    return first.result(), second.result()
