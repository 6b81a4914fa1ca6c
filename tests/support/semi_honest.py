"""Runs gadgets, blocks and jobs of the laboratory as two threads, and keeps a record of what the two servers opened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sedml.lab.semi_honest import two_noise_ideal
from sedml.lab.semi_honest.opened_labels import reveal
from sedml.lab.semi_honest.party import Party
from sedml.lab.semi_honest.recipe import MadeRandomness, Recipes, make
from sedml.lab.semi_honest.semi_honest_servers import Stats, run_job
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.mpc.ot.extension import Extension, Transfers
from sedml.mpc.prg import expand
from sedml.mpc.sharing import Field
from sedml.mpc.steps import Steps, drive
from sedml.protocol.task import Block
from sedml.protocol.votes import NO_CONSENSUS, histogram
from support.harness import Tap, fixed_seed, split_ring
from support.made import KEYS, both, taps


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
        noise = self.g_i[:, part.start : part.stop]
        if self.task.protocol != "garbled":  # whose circuit finds a label for every sample
            noise = noise[:, self.consensus[part.start : part.stop]]
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


def loaders_of(task: Task, counts: np.ndarray, key: int = 11):
    """Shares of these counts."""
    shares = split_ring(counts, task.widths.counts, key)
    return tuple(lambda block, share=share: share[:, block.start : block.stop] for share in shares)


class Job(NamedTuple):
    """A whole job, done."""

    task: Task
    labels: np.ndarray
    stats: Stats

    @property
    def answered(self) -> int:
        return int((self.labels != NO_CONSENSUS).sum())


def run_whole_job(task: Task, loaders, noises, **options) -> Job:
    """Every block of a task, both servers in this process."""
    return Job(task, *run_job(task, loaders, noises, **options))


def secure(task: Task, votes: np.ndarray, parts, *, channels=None) -> tuple[Job, np.ndarray]:
    """Run the whole job with the noise handed in; the result and what `ideal` says."""
    counts = histogram(votes, task.classes)
    noises, want = fixed_noises(task, counts, parts)
    return run_whole_job(task, loaders_of(task, counts), noises, channels=channels), want


def revealed(task: Task, run: Run) -> np.ndarray:
    return reveal(task, *run.shares)


class TrustedExtension:
    """In place of an `Extension`: transfers as a trusted party would hand them out. Nothing is sent; quick."""

    def __init__(self, role: int, key: int) -> None:
        self._role, self._seed, self._made = role, fixed_seed(key), 0

    def extend(self, count: int) -> Steps[Transfers]:
        yield from ()
        n, first = -(-count // 128) * 128, self._made
        self._made += n
        deltas = expand(self._seed, "deltas", 32).view(np.uint64).reshape(2, 2)
        rows = expand(self._seed, f"rows/{first}", 32 * n).view(np.uint64).reshape(2, n, 2)
        choices = (expand(self._seed, f"choices/{first}", 2 * n) & 1).reshape(2, n)
        mine, theirs = self._role, 1 - self._role
        received = rows[theirs] ^ choices[mine][:, np.newaxis] * deltas[theirs]
        return Transfers(first, choices[mine], received, rows[mine], deltas[mine])


@dataclass
class MadeRun(Run):
    """A run on randomness that the servers made, and the links while they made it."""

    offline: tuple[Tap, Tap]


def run_made(
    recipes: Recipes,
    side: Callable[[Party], Any],
    *,
    key: int = 100,
    block: int = 0,
    ends: tuple[Extension, Extension] | None = None,
    keys=KEYS,
    plant: Callable[[int, dict], None] | None = None,
) -> MadeRun:
    """Make what `recipes` say and run `side` on it, as S0 and as S1; `plant` may tamper with a server's pieces.

    The transfers are a trusted party's, unless `ends` are those of a real extension.
    """
    pair = ends or (TrustedExtension(0, key), TrustedExtension(1, key))
    links = taps()

    def played(role: int, link: Tap) -> tuple[AuditedParty, Any]:
        made = drive(link, block, make(role, pair[role], block, recipes))
        if plant is not None:
            pieces = {name: made.take(name) for name in recipes}
            plant(role, pieces)
            made = MadeRandomness(block, pieces)
        party = AuditedParty(role, Tap(link.channel), made)
        return party, side(party)

    (party0, share0), (party1, share1) = both(played, keys=keys, links=links)
    return MadeRun((share0, share1), (party0, party1), links)
