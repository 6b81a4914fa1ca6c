"""Both servers in one process: `aggregate`, the whole product in one call.

Teachers' ballots are cast, the correlations dealt and the protocol run exactly as between two machines, with S0
and S1 as two threads joined by an in-process channel. It shows what a deployment would answer and cost; whoever
runs it sees all votes, so it protects nobody by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

import numpy as np
import numpy.typing as npt

from sedml.ballots import ballot_sizes, cast, counts_share, index_shares
from sedml.channel import Channel, memory_pair
from sedml.correlations import Correlations, corrections_size, deal
from sedml.errors import ChannelError, TaskError
from sedml.ideal import NO_CONSENSUS
from sedml.party import Party, PhaseCost
from sedml.prg import Seed
from sedml.privacy.noise import NoiseSource
from sedml.protocol import PHASES, DrawnNoise, Noise, Outcome, label_ring, plan_block, run_block
from sedml.ring import Array
from sedml.task import Block, Protocol, Task, VoteForm
from sedml.votes import as_votes, threshold_count

__all__ = [
    "Loader",
    "Progress",
    "Result",
    "Seeds",
    "Stats",
    "aggregate",
    "ballot_loaders",
    "reveal",
    "run_job",
]

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
class Result:
    """labels: int64[Q], -1 where there was no consensus."""

    task: Task
    labels: npt.NDArray[np.int64]
    stats: Stats

    @property
    def answered(self) -> int:
        """How many samples got a label."""
        return int((self.labels != NO_CONSENSUS).sum())


@dataclass(frozen=True)
class Seeds:
    """The dealer's seeds for the two servers, bound to a task by `Seeds.of`."""

    s0: Seed = field(repr=False)
    s1: Seed = field(repr=False)

    @classmethod
    def of(cls, task: Task, s0: Seed | None = None, s1: Seed | None = None) -> Seeds:
        """Fresh seeds, or given ones, for this task only."""
        label = "correlations/" + task.id.hex()
        return cls((s0 or Seed.random()).child(label), (s1 or Seed.random()).child(label))


def aggregate(
    predictions: object,
    *,
    classes: int,
    threshold: float,
    sigma1: float,
    sigma2: float,
    protocol: Protocol = "fused",
    votes: VoteForm = "index",
    noise: NoiseSource = "both",
    ring_bits: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Aggregate teachers' predictions into differentially private consensus labels.

    predictions: (K, Q) class ids, negative where a teacher abstains, or (K, Q, N) scores.
    threshold: a fraction of the teachers (0.6) or a count of votes (150).
    sigma1, sigma2: standard deviations of the noise on the threshold check and on the counts.
    protocol: "fused", or "paper" for its three phases in a ring of `ring_bits` (32) bits.
    votes: "index", at most one vote a teacher and sample whatever is submitted, or "onehot" as in the paper.
    noise: "both" servers add their part, or "s0" alone as in the paper.

    >>> result = aggregate([[0, 1], [0, 1], [0, 0]], classes=2, threshold=2, sigma1=0.1, sigma2=0.1)
    >>> result.labels.tolist()
    [0, 1]
    """
    if votes == "counts":
        raise TaskError("Predictions cannot be given as counts.", "Use votes='index' or votes='onehot'.")
    cast_votes = as_votes(predictions, classes)
    task = Task(
        classes=classes,
        samples=cast_votes.shape[1],
        teachers=cast_votes.shape[0],
        threshold=threshold_count(threshold, cast_votes.shape[0]),
        sigma1=sigma1,
        sigma2=sigma2,
        protocol=protocol,
        votes=votes,
        noise=noise,
        ring_bits=ring_bits,
    )
    ballots = [cast(row, task) for row in cast_votes]
    noises = DrawnNoise(task, 0, Seed.random()), DrawnNoise(task, 1, Seed.random())
    return run_job(task, ballot_loaders(task, ballots), noises, progress=progress)


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
) -> Result:
    """Deal and run every block of a task, both servers in this process."""
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
                Correlations(plan, block.index, seeds.s0, None),
                Correlations(plan, block.index, seeds.s1, corrections),
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
    return Result(task, labels, Stats(widths, phases, deal_seconds, dealer_bytes, ballot_sizes(task)))


def reveal(task: Task, outcome0: Outcome, outcome1: Outcome) -> npt.NDArray[np.int64]:
    """What the requester does with the two servers' outcomes: i* = [i*]_0 + [i*]_1 (Alg. 1 line 33)."""
    labels = np.full(outcome0.consensus.size, NO_CONSENSUS, np.int64)
    labels[outcome0.consensus] = (outcome0.labels + outcome1.labels) & label_ring(task).mask
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
    failed = sorted((e for e in errors if e is not None), key=lambda e: isinstance(e, ChannelError))
    if failed:
        raise failed[0]
    return results[0](), results[1]()
