"""Both servers in one process: run a whole job.

The protocol is run exactly as between two machines, with S0 and S1 as two threads joined by an in-process channel. It
shows what a deployment would answer and cost; whoever runs it sees both halves of everything, so it protects nobody by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from time import perf_counter
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import BallotError, ChannelError, PeerGoneError
from sedml.mpc.channel import Channel, memory_pair
from sedml.mpc.ot.extension import Extension, set_up
from sedml.lab.semi_honest.recipe import make
from sedml.lab.semi_honest.party import Party, PhaseCost
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.protocol.ballots import PAGE, add_up, cast, examine, to_ring
from sedml.protocol.ballots.field import Words
from sedml.lab.semi_honest.block import PHASES, recipes, run_block
from sedml.protocol.drawn_noise import Noise, fresh_noise
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.labels import LabelShare, reveal
from sedml.protocol.task import Block, Task
from sedml.protocol.votes import NO_CONSENSUS, Votes

__all__ = ["Labels", "Loader", "Run", "Stats", "adding", "ballot_loaders", "cast_all", "play", "run_job", "run_votes"]

T = TypeVar("T")
S = TypeVar("S", bound="Stats")

Labels: TypeAlias = npt.NDArray[np.int64]

Loader: TypeAlias = Callable[[Block], Array]
"""One server's shares of the counts of a block: uint[N, Q]."""


@dataclass(frozen=True, repr=False)
class Stats:
    """What a job cost. Bytes between the servers are those of both directions together, frames included."""

    ring_bits: dict[str, int]
    phases: dict[str, PhaseCost]
    teacher_bytes: tuple[int, int]
    """What each teacher sent to S0 and to S1."""
    offline: PhaseCost = field(default_factory=PhaseCost)
    """What the servers took to make their own randomness, which needs no vote."""

    @classmethod
    def nothing(cls) -> Stats:
        """The cost of a job that had nothing to do."""
        return cls({}, {}, (0, 0))

    @property
    def seconds(self) -> float:
        """Online time of the whole job, without what was made before it."""
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
class Run(Generic[S]):
    """A job that was run here: labels int64[Q], -1 for none, their cost, and the noise, which only its runner knows."""

    task: Task
    labels: Labels = field(repr=False)
    stats: S
    noises: tuple[Noise, Noise] = field(repr=False)

    def is_ideal(self, counts: Array) -> bool:
        """Whether every label is the one that the ideal functionality gives on counts int[N, Q], for the same noise."""
        return np.array_equal(self.labels, ideal_labels(self.task, counts, self.noises))


def run_votes(
    task: Task, votes: Votes, progress: Progress = silent, *, noises: tuple[Noise, Noise] | None = None
) -> Run[Stats]:
    """Cast votes int[K, Q] as ballots and aggregate them; with fresh noise unless some is given."""
    noises = noises or fresh_noise(task)
    labels, stats = run_job(task, ballot_loaders(task, cast_all(task, votes)), noises, progress=progress)
    return Run(task, labels, stats, noises)


def cast_all(task: Task, votes: Votes) -> list[tuple[bytes, bytes]]:
    """The halves of a ballot for each row of votes int[K, Q]."""
    return [cast(row[np.newaxis], task.ballot, task.id, str(k), Seed.random()).halves for k, row in enumerate(votes)]


def ballot_loaders(task: Task, ballots: Sequence[tuple[bytes, bytes]]) -> tuple[Loader, Loader]:
    """How S0 and S1 count: each examines its halves and adds them up; a ballot counts if both come to the same name."""
    s0, s1 = (
        [examine(role, ballot[role], task.ballot, task.id, str(teacher)) for teacher, ballot in enumerate(ballots)]
        for role in (0, 1)
    )
    if [one.name for one in s0] != [one.name for one in s1]:
        raise BallotError("A ballot does not prove that it is right.", "Cast it again.")
    return adding(task, 0, [one.pages for one in s0]), adding(task, 1, [one.pages for one in s1])


def adding(task: Task, role: int, kept: Sequence[Sequence[bytes | memoryview]]) -> Loader:
    """How a server counts what it keeps of the pages of each ballot."""

    @cache
    def page_sums(page: int) -> Words:
        return add_up(role, (pages[page] for pages in kept), task.ballot.page(page))

    def load(block: Block) -> Array:
        pages = range(block.start // PAGE, -(-block.stop // PAGE))
        sums = np.concatenate([page_sums(page) for page in pages])[block.start - pages.start * PAGE :]
        return to_ring(role, sums[: block.samples], task.widths.counts)

    return load


def run_job(
    task: Task,
    loaders: tuple[Loader, Loader],
    noises: tuple[Noise, Noise],
    *,
    channels: tuple[Channel, Channel] | None = None,
    progress: Progress = silent,
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
            extension = extension or Extension(set_up(role, channel), common.key)
            made = make(role, extension, channel, block.index, recipes(task, block.samples))
            offline[role].add(channel.traffic - before, perf_counter() - start)
            party = Party(role, channel, made, costs[role])
            yield run_block(party, task, partial(loaders[role], block), noises[role], common)

    labels = play(task, channels, (side(0), side(1)), progress)
    phases: dict[str, PhaseCost] = {phase: costs[0].get(phase, PhaseCost()) for phase in PHASES}
    return labels, Stats(asdict(task.widths), phases, task.ballot.sizes, offline[0])


def play(
    task: Task,
    channels: tuple[Channel, Channel],
    sides: tuple[Iterator[LabelShare], Iterator[LabelShare]],
    progress: Progress = silent,
) -> Labels:
    """The labels int64[Q] that the requester opens, block after block, of two servers that run side by side."""
    labels = np.full(task.samples, NO_CONSENSUS, np.int64)
    with channels[0], channels[1], ThreadPoolExecutor(2) as threads:
        for block in task.blocks:
            shares = _both(threads.submit(_next, sides[role], channels[role]) for role in (0, 1))
            labels[block.start : block.stop] = reveal(task, *shares)
            progress("aggregating", block.stop, task.samples)
    return labels


def _next(side: Iterator[LabelShare], channel: Channel) -> LabelShare:
    """Whatever goes wrong in one server's thread, the other one must not wait for it."""
    try:
        return next(side)
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
