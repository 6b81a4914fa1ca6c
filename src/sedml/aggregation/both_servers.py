"""Both servers in one process: run a whole job.

The protocol is run exactly as between two machines, with S0 and S1 as two threads joined by an in-process channel. It
shows what a deployment would answer and cost; whoever runs it sees both halves of everything, so it protects nobody by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache
from time import perf_counter
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import BallotError
from sedml.mpc.channel import Channel, PhaseCost, memory_pair
from sedml.mpc.channel.base import first_cause
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.mpc.steps import Steps, drive
from sedml.protocol.ballots import PAGE, add_up, cast, examine, to_ring
from sedml.protocol.ballots.field import Words
from sedml.protocol.block import answer
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.labels import LabelShare, reveal
from sedml.protocol.preparation import prepare
from sedml.protocol.server_session import open_session
from sedml.protocol.task import Block, Task
from sedml.protocol.votes import NO_CONSENSUS, Votes

T = TypeVar("T")

Labels: TypeAlias = npt.NDArray[np.int64]
Phase: TypeAlias = Literal["set-up", "preparation", "votes"]
PHASES: tuple[Phase, ...] = ("set-up", "preparation", "votes")

Loader: TypeAlias = Callable[[Block], Array]
"""One server's shares of the counts of a block: uint[N, Q]."""


@dataclass(frozen=True, repr=False)
class Stats:
    """What a job cost. Bytes between the servers are those of both directions together, frames included."""

    ring_bits: dict[str, int]
    phases: dict[Phase, PhaseCost]
    """The set-up, the preparation, which needs no vote either, and what is done with the votes."""
    teacher_bytes: tuple[int, int]
    """What each teacher sent to S0 and to S1."""

    @classmethod
    def nothing(cls) -> Stats:
        """The cost of a job that had nothing to do."""
        return cls({}, {}, (0, 0))

    @property
    def seconds(self) -> float:
        """Time of the whole job."""
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
    noises: tuple[Array, Array] = field(repr=False)

    def is_ideal(self, counts: Array) -> bool:
        """Whether every label is the one that the ideal functionality gives on counts int[N, Q], for the same noise."""
        return np.array_equal(self.labels, ideal_labels(self.task, counts, self.noises))


def run_votes(
    task: Task, votes: Votes, progress: Progress = silent, *, noises: tuple[Array, Array] | None = None
) -> Run:
    """Cast votes int[K m, Q], m rows a teacher, and aggregate them; with fresh noise unless some is given."""
    if noises is None:
        noises = draw_noise(task, task.samples), draw_noise(task, task.samples)
    labels, stats = run_job(task, ballot_loaders(task, cast_all(task, votes)), noises, progress=progress)
    return Run(task, labels, stats, noises)


def cast_all(task: Task, votes: Votes) -> list[tuple[bytes, bytes]]:
    """The halves of a ballot for each teacher, which has m rows of votes int[K m, Q]."""
    each = votes.reshape(task.teachers, task.votes, task.samples)
    return [cast(rows, task.ballot, task.id, str(k), Seed.random()).halves for k, rows in enumerate(each)]


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
    noises: tuple[Array, Array],
    *,
    channels: tuple[Channel, Channel] | None = None,
    progress: Progress = silent,
) -> tuple[Labels, Stats]:
    """Run every block of a task; the labels int64[Q], and what they cost."""
    channels = channels or memory_pair(task.id)
    costs = {phase: PhaseCost() for phase in PHASES}

    def side(role: int) -> Iterator[LabelShare]:
        """A server."""
        channel = channels[role]

        def run(phase: Phase, block: int, steps: Steps[T]) -> T:
            before, start = channel.traffic, perf_counter()
            found = drive(channel, block, steps)
            if role == 0:
                costs[phase].add(channel.traffic - before, perf_counter() - start)
            return found

        session = run("set-up", 0, open_session(role, range(task.block_count)))
        for block in task.blocks:
            noise = noises[role][:, block.start : block.stop]
            prepared = run("preparation", block.index, prepare(session, task, block, noise))
            yield run("votes", block.index, answer(prepared, task, loaders[role](block)))

    sides = side(0), side(1)
    labels = np.full(task.samples, NO_CONSENSUS, np.int64)
    with channels[0], channels[1], ThreadPoolExecutor(2) as threads:
        for block in task.blocks:
            shares = next_of_both(threads, sides, channels)
            labels[block.start : block.stop] = reveal(task, block.samples, *shares)
            progress("aggregating", block.stop, task.samples)
    return labels, Stats(asdict(task.widths), costs, task.ballot.sizes)


def next_of_both(
    threads: ThreadPoolExecutor, sides: tuple[Iterator[T], Iterator[T]], channels: tuple[Channel, Channel]
) -> tuple[T, T]:
    """What both servers come to next, or the error that came first: a broken link is only its consequence."""
    first, second = (threads.submit(_next, sides[role], channels[role]) for role in (0, 1))
    if failed := [error for error in (first.exception(), second.exception()) if error is not None]:
        raise first_cause(failed)
    return first.result(), second.result()


def _next(side: Iterator[T], channel: Channel) -> T:
    """Whatever goes wrong in one server's thread, the other one must not wait for it."""
    try:
        return next(side)
    except BaseException:
        channel.close()
        raise
