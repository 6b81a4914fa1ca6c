"""Both servers in one process: deal and run a whole job.

The correlations are dealt and the protocol is run exactly as between two machines, with S0 and S1 as two threads
joined by an in-process channel. It shows what a deployment would answer and cost; whoever runs it sees both
halves of everything, so it protects nobody by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import numpy as np
import numpy.typing as npt

from sedml import ideal
from sedml.ballots import ballot_sizes, counts_share, index_shares
from sedml.channel import Channel, memory_pair
from sedml.correlations import Correlations, corrections_size, deal
from sedml.errors import ChannelError, CorrelationError, PeerGoneError, ShareError
from sedml.ideal import NO_CONSENSUS
from sedml.party import Party, PhaseCost
from sedml.prg import Seed
from sedml.protocol import PHASES, Noise, Outcome, label_ring, plan_block, run_block
from sedml.ring import Array
from sedml.task import Block, Task

__all__ = ["Loader", "Progress", "Seeds", "Stats", "ballot_loaders", "ideal_labels", "reveal", "run_job"]

Loader = Callable[[Block], Array]
"""Reads one server's shares of a block."""

Progress = Callable[[int, int], None]
"""Called with (samples done, samples in all) after every block."""


@dataclass(frozen=True)
class Stats:
    """What a job cost. Bytes between the servers are those of both directions together, frames included."""

    ring_bits: dict[str, int]
    phases: dict[str, PhaseCost]
    deal_seconds: float
    dealer_bytes: int
    """Seeds for both servers and corrections for S1."""
    teacher_bytes: tuple[int, int]
    """What each teacher sent to S0 and to S1."""

    @classmethod
    def nothing(cls) -> Stats:
        """The cost of a job that had nothing to do."""
        return cls({}, {}, 0.0, 0, (0, 0))

    @property
    def seconds(self) -> float:
        """Online time of the whole job, the dealing not counted."""
        return sum(cost.seconds for cost in self.phases.values())

    @property
    def rounds(self) -> int:
        """Rounds between the servers."""
        return sum(cost.rounds for cost in self.phases.values())

    @property
    def server_bytes(self) -> int:
        """Bytes between the servers."""
        return sum(cost.bytes for cost in self.phases.values())


@dataclass(frozen=True)
class Seeds:
    """The dealer's seeds for the two servers, bound to a task by `Seeds.of`."""

    s0: Seed = field(repr=False)
    s1: Seed = field(repr=False)

    def __post_init__(self) -> None:
        if self.s0 == self.s1:
            raise CorrelationError("Both servers would get the same seed.", "Draw a seed for each of them.")

    @classmethod
    def of(cls, task: Task, s0: Seed | None = None, s1: Seed | None = None) -> Seeds:
        """Fresh seeds, or given ones, for this task only."""
        label = "correlations/" + task.id.hex()
        return cls((s0 or Seed.random()).child(label), (s1 or Seed.random()).child(label))


def ballot_loaders(task: Task, ballots: Sequence[tuple[bytes, bytes]]) -> tuple[Loader, Loader]:
    """How S0 and S1 read their halves of the ballots."""
    read = index_shares if task.votes == "index" else counts_share

    def loader(role: int) -> Loader:
        halves = [ballot[role] for ballot in ballots]
        return lambda block: read(role, halves, task, block)

    return loader(0), loader(1)


def run_job(
    task: Task,
    loaders: tuple[Loader, Loader],
    noises: tuple[Noise, Noise],
    *,
    channels: tuple[Channel, Channel] | None = None,
    seeds: Seeds | None = None,
    progress: Progress | None = None,
) -> tuple[npt.NDArray[np.int64], Stats]:
    """Deal and run every block of a task; the labels int64[Q], and what they cost.

    `seeds` may be given again for the same task only with the same shares and the same noise: a mask that hides two
    different values reveals their difference.
    """
    seeds = seeds or Seeds.of(task)
    common = Seed.random()
    channels = channels or memory_pair(task.id)
    labels = np.full(task.samples, NO_CONSENSUS, np.int64)
    costs: tuple[dict[str, PhaseCost], ...] = ({}, {})
    deal_seconds, dealer_bytes = 0.0, len(seeds.s0.key) + len(seeds.s1.key)
    with channels[0], channels[1], ThreadPoolExecutor(2) as threads:
        for block in task.blocks:
            plan = plan_block(task, block.samples)
            start = perf_counter()
            corrections = deal(plan, block.index, seeds.s0, seeds.s1)
            deal_seconds += perf_counter() - start
            dealer_bytes += corrections_size(plan)
            correlations = (
                Correlations(plan, block.index, seeds.s0, None).prepare(),
                Correlations(plan, block.index, seeds.s1, corrections).prepare(),
            )
            parties = [Party(role, channels[role], correlations[role], costs[role]) for role in (0, 1)]
            sides = [
                threads.submit(_side, party, task, partial(loaders[party.role], block), noises[party.role], common)
                for party in parties
            ]
            outcomes = _both([side.exception() for side in sides], [side.result for side in sides])
            labels[block.start : block.stop] = reveal(task, *outcomes)
            if progress is not None:
                progress(block.stop, task.samples)
    phases: dict[str, PhaseCost] = {phase: costs[0].get(phase, PhaseCost()) for phase in PHASES}
    widths = {"threshold": task.widths.threshold, "label": task.widths.label, "counts": task.widths.counts}
    return labels, Stats(widths, phases, deal_seconds, dealer_bytes, ballot_sizes(task))


def reveal(task: Task, outcome0: Outcome, outcome1: Outcome) -> npt.NDArray[np.int64]:
    """What the requester does with the two servers' outcomes: i* = [i*]_0 + [i*]_1 (Alg. 1 line 33)."""
    if not np.array_equal(outcome0.consensus, outcome1.consensus):
        raise ShareError(
            "The two servers do not agree on which samples have a consensus.",
            "Do not use these labels; run the job again, and look at the servers.",
        )
    labels = np.full(outcome0.consensus.size, NO_CONSENSUS, np.int64)
    labels[outcome0.consensus] = (outcome0.labels + outcome1.labels) & label_ring(task).mask
    return labels


def ideal_labels(task: Task, counts: Array, noises: tuple[Noise, Noise]) -> npt.NDArray[np.int64]:
    """What the ideal functionality answers on plain counts int[N, Q] for the very noise that the servers draw."""
    labels = np.empty(task.samples, np.int64)
    for block in task.blocks:
        part = counts[:, block.start : block.stop]
        g: Array = np.add(*(noise.threshold(block.index, block.samples) for noise in noises))
        passed = ideal.consensus(part, task.threshold, g)
        answered = int(passed.sum())
        g_i = np.zeros(part.shape, np.int64)
        if answered:
            g_i[:, passed] = np.add(*(noise.label(block.index, task.classes, answered) for noise in noises))
        labels[block.start : block.stop] = ideal.labels(part, task.threshold, g, g_i)
    return labels


def _side(party: Party, task: Task, load: Callable[[], Array], noise: Noise, common: Seed) -> Outcome:
    """A server's thread; whatever goes wrong, the other one must not wait for it."""
    try:
        return run_block(party, task, load, noise, common)
    except BaseException:
        party.channel.close()
        raise


def _both(errors: Sequence[BaseException | None], results: Sequence[Callable[[], Outcome]]) -> tuple[Outcome, Outcome]:
    """Both outcomes, or the error that came first: a broken link is only its consequence."""
    failed = sorted(
        (e for e in errors if e is not None),
        key=lambda e: (isinstance(e, PeerGoneError), isinstance(e, ChannelError)),
    )
    if failed:
        raise failed[0]
    return results[0](), results[1]()
