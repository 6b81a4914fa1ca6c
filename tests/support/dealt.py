"""Two servers in two threads on randomness that a dealer dealt them; and what each saw.

Nothing here is random: seeds are made of fixed bytes, so a failure comes back on the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sedml.lab.paper import two_noise_ideal
from sedml.lab.paper.correlations import deal
from sedml.lab.paper.lab_run import Side, run_job, vote_loaders
from sedml.lab.paper.party import Party
from sedml.lab.paper.two_noise_task import RING_BITS, Task
from sedml.lab.sharing import Field, from_planes
from sedml.mpc.channel import memory_pair
from sedml.mpc.prg import Seed
from sedml.protocol.task import Block
from sedml.protocol.votes import histogram
from support.harness import TASK_ID, TIMEOUT, Tap, fixed_seed, split_ring


@dataclass
class AuditedParty(Party):
    """A server that notes every value it opened, as (step, field, value)."""

    opened: list[tuple[str, Field, np.ndarray]] = field(default_factory=list)

    def open_(self, step: str, shared: Sequence[tuple[Field, np.ndarray]]) -> list[np.ndarray]:
        values = super().open_(step, shared)
        self.opened += [(step, layout, value.copy()) for (layout, _), value in zip(shared, values, strict=True)]
        return values


@dataclass
class Run:
    """Both servers' results of one run, and their records."""

    shares: tuple[Any, Any]
    parties: tuple[AuditedParty, AuditedParty]

    @property
    def taps(self) -> tuple[Tap, Tap]:
        return self.parties[0].channel, self.parties[1].channel

    @property
    def rounds(self) -> int:
        assert self.taps[0].steps == self.taps[1].steps
        return self.taps[0].rounds

    @property
    def payload(self) -> int:
        """Bytes each way; both servers always send the same amount."""
        assert self.taps[0].payload == self.taps[1].payload
        return self.taps[0].payload


@dataclass(frozen=True)
class FixedNoise:
    """Noise of one server that a test hands in: g int[Q] and g_i int[N, Q] for all samples of the job.

    The label noise of the samples that passed is asked for without saying which they are, so `consensus`
    must be the right answer; the job is then checked against it.
    """

    task: Task
    g: np.ndarray
    g_i: np.ndarray
    consensus: np.ndarray

    def threshold(self, block: int, samples: int) -> np.ndarray:
        part = self._block(block)
        assert samples == part.samples
        return self.g[part.start : part.stop]

    def label(self, block: int, classes: int, samples: int) -> np.ndarray:
        part = self._block(block)
        noise = self.g_i[:, part.start : part.stop][:, self.consensus[part.start : part.stop]]
        assert noise.shape == (classes, samples)
        return noise

    def _block(self, index: int) -> Block:
        return next(block for block in self.task.blocks if block.index == index)


def fixed_noises(task: Task, counts: np.ndarray, parts) -> tuple[tuple[FixedNoise, FixedNoise], np.ndarray]:
    """parts: ((g, g_i) of S0, (g, g_i) of S1) -> both noise sources and the ideal labels."""
    (g0, h0), (g1, h1) = parts
    consensus = two_noise_ideal.consensus(counts, task.threshold, g0 + g1)
    noises = FixedNoise(task, g0, h0, consensus), FixedNoise(task, g1, h1, consensus)
    return noises, two_noise_ideal.labels(counts, task.threshold, g0 + g1, h0 + h1)


def zero_parts(classes: int, samples: int):
    """No noise at all."""
    g, g_i = np.zeros(samples, np.int64), np.zeros((classes, samples), np.int64)
    return (g, g_i), (g, g_i)


class Job(NamedTuple):
    """A whole job, done."""

    task: Task
    labels: np.ndarray
    side: Side


def run_pair(plan, side: Callable[[Party], Any], *, seeds: tuple[Seed, Seed] | None = None, block: int = 0) -> Run:
    """Deal `plan` and run `side` as S0 and as S1 in two threads."""
    pieces = deal(plan, block, seeds or (fixed_seed(100), fixed_seed(101)))
    links = memory_pair(TASK_ID, timeout=TIMEOUT)
    parties = tuple(AuditedParty(role, Tap(links[role]), pieces[role]) for role in (0, 1))

    def guarded(party: Party) -> Any:
        try:
            return side(party)
        except BaseException:
            party.channel.close()
            raise

    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(guarded, party) for party in parties]
    for error in [future.exception() for future in futures]:
        if error is not None:
            raise error
    return Run((futures[0].result(), futures[1].result()), parties)


def join_bits(run: Run, samples: int) -> np.ndarray:
    return from_planes(run.shares[0] ^ run.shares[1], samples)


def counts_loaders(task: Task, counts: np.ndarray, key: int = 11):
    """Shares of given counts."""
    shares = split_ring(counts, RING_BITS, key)
    return tuple(lambda block, share=share: share[:, block.start : block.stop] for share in shares)


def loaders_of(task: Task, votes: np.ndarray):
    """However the task wants its votes: ballots, or shares of the counts."""
    if task.votes == "counts":
        return counts_loaders(task, histogram(votes, task.classes))
    return vote_loaders(task, votes)


def secure(task: Task, votes: np.ndarray, parts, **options) -> tuple[Job, np.ndarray]:
    """Run the whole job with the noise handed in; the result and what `ideal` says."""
    noises, want = fixed_noises(task, histogram(votes, task.classes), parts)
    return Job(task, *run_job(task, loaders_of(task, votes), noises, **options)), want
