"""An empirical lower bound on epsilon: the mechanism itself, run millions of times on neighbouring votes.

A claim of (epsilon, delta) says P[E] <= e^epsilon P'[E] + delta for every event E of the output and neighbours' laws
P and P', either way round. So log((p - delta)/q) is a lower bound on epsilon if p <= P[E] and q >= P'[E]: the test of
Kairouz, Oh & Viswanath (ICML 2015), as an audit in Ding et al. (CCS 2018) and Jagielski, Ullman & Oprea (NeurIPS
2020). A bound above the claim disproves it; one below proves nothing. It comes near the true epsilon with worst-case
neighbours and an observer that has all the claim grants it (Nasr et al., S&P 2021 and USENIX Security 2023; for PATE,
Chadha et al., ICML 2024).

1. The noise is drawn by the servers' own code (`sedml.privacy.noise`), the decision is that of `ideal`. Three claims
   are tested: that of the checks as a server sees them, that of the labels alone, and that of the whole job.
2. One teacher moves its vote on every sample. Which votes are worst is computed beforehand (`worst_votes`).
3. The events are {log-likelihood ratio of all outcomes >= t}, by Neyman and Pearson the most telling ones. The ratio
   is computed for honest noise: a fault costs the test power, never validity.
4. So is the best t, and which way round; a tenth of the runs choose another where they show a gross fault. Fresh runs
   of that one choice are counted. The exact bounds of Clopper & Pearson (Biometrika 1934) on p and on q, at half the
   allowed error each, hold whatever the choice was.

Nothing is assumed about the law of the noise, nor about the shape of the trade-off between the two errors: only that
runs are independent of each other.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import TaskError
from sedml.lab.binomial_bounds import epsilon_lower
from sedml.lab.semi_honest import ideal
from sedml.lab.worst_votes import BINS, Event, Hidden, Votes, best_event, worst_votes
from sedml.mpc.prg import Seed
from sedml.privacy.accounting import job_report
from sedml.privacy.conversion import check_delta, order_epsilon, zcdp_order
from sedml.privacy.exact import argmax_divergence
from sedml.privacy.noise import NoiseTable, noise_table, sample, server_sigma
from sedml.protocol.votes import NO_CONSENSUS

__all__ = [
    "CONFIDENCE",
    "RUNS",
    "AuditReport",
    "Fault",
    "Mechanism",
    "Part",
    "audit",
    "claimed",
]

Part: TypeAlias = Literal["checks", "labels", "job"]
Fault: TypeAlias = Literal["half-width", "narrow", "one-server", "repeated", "unpaid-threshold"]
Tables: TypeAlias = tuple[NoiseTable | None, NoiseTable | None]  # S0's and S1's
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

RUNS = 20_000_000
CONFIDENCE = 0.99

_RANGES = {"samples": (1, 1000), "classes": (2, 1000), "threshold": (2, 10**6), "runs": (10**4, 10**10)}
_MOST_SIGMA = 256.0  # the laws are sums over pairs of noise values
_CHUNK = 1 << 19  # draws of a server at a time
_MOST_THREADS = 8  # each holds a chunk
_MORE_CHECKS = 4
_CHOOSING = 10  # one run in so many
_CAUTION = 2.6  # standard errors off each frequency, in what is promised
_WHILE_CHOOSING = 1.0  # and in what was seen, by a tenth of the runs
_TELLING = 1.5  # times what is promised: noise that is far from honest
_WIDTHS: dict[Fault | None, float] = {"half-width": 0.5, "narrow": 0.85}


@dataclass(frozen=True)
class Mechanism:
    """A small job whose claim is put to the test; its default terms give away every fault that can be planted.

    The parts: "checks" is what S0 sees, the consensus bits, where it leaves out its own noise: its claim holds
    whatever that noise is. "labels" is what the requester sees where every check says yes, "job" what it sees of all.

    The faults: "half-width" halves the sigma of all noise, "narrow" makes it 15 % smaller, "one-server" leaves out S1's
    noise, "repeated" uses the noise of one sample for all of a job, and "unpaid-threshold"
    claims the epsilon of the labels alone.
    """

    samples: int = 20
    sigma1: float = 4.0
    sigma2: float = 9.0
    delta: float = 1e-3
    classes: int = 3
    threshold: int = 100
    part: Part = "job"
    fault: Fault | None = None

    def tables(self, sigma: float) -> Tables:
        """What S0 and S1 draw from, None where a server adds no noise."""
        each = noise_table(_WIDTHS.get(self.fault, 1.0) * server_sigma(sigma))
        return each, None if self.fault == "one-server" else each

    @property
    def check_tables(self) -> Tables | None:
        """Where the checks' noise comes from, but for the observer's own; None where no check is seen."""
        if self.part == "labels":
            return None
        first, second = self.tables(self.sigma1)
        return (None if self.part == "checks" else first), second

    @property
    def label_tables(self) -> Tables | None:
        """Where the labels' noise comes from; None where no label is seen."""
        return None if self.part == "checks" else self.tables(self.sigma2)


@dataclass(frozen=True)
class AuditReport:
    """What was found: `epsilon_lower` is at most the true epsilon, except with probability 1 - `confidence`.

    `reached` is its share of the `claim`; `passed` says that the claim stands. Of the `runs` jobs drawn, the bound
    rests on `trials` of each neighbour, with so many `hits` of the event.
    """

    part: Part
    fault: Fault | None
    epsilon_lower: float
    claim: float
    reached: float
    passed: bool
    delta: float
    confidence: float
    runs: int
    trials: int
    hits: tuple[int, int]
    event: str


def audit(
    drawn: Mechanism,
    *,
    runs: int = RUNS,
    confidence: float = CONFIDENCE,
    seed: Seed | None = None,
    progress: Progress = silent,
) -> AuditReport:
    """Put the claim for a mechanism to the test; `progress` counts runs.

    Checks alone cost little: they are run four times as often.
    """
    _check(drawn, confidence, runs)
    runs *= _MORE_CHECKS if drawn.part == "checks" else 1
    claim = claimed(drawn)
    source = seed or Seed.random()
    choosing = runs // (2 * _CHOOSING)
    trials = runs // 2 - choosing
    honest = _hidden(replace(drawn, fault=None))
    terms = drawn.samples, drawn.classes, drawn.threshold, drawn.delta
    votes, event = worst_votes(honest, *terms, trials, _CAUTION)
    done = 0

    def count(purpose: str, each: int) -> tuple[Ints, Ints]:
        nonlocal done
        found = np.zeros((2, BINS), np.int64)
        size = max(1, _CHUNK // (drawn.samples * drawn.classes))
        chunks = [(side, start, min(size, each - start)) for side in (0, 1) for start in range(0, each, size)]

        def run(chunk: tuple[int, int, int]) -> tuple[int, int, Ints]:
            side, start, part = chunk
            sums = _ratios(drawn, votes, side, source.child(f"{purpose}/{side}/{start}"), part)
            return side, part, np.bincount(votes.bins(sums), minlength=BINS)

        with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as pool:
            for side, part, bins in pool.map(run, chunks):
                found[side] += bins
                done += part
                progress(f"auditing, {drawn.part}", done, runs)
        return found[0], found[1]

    first, second = (bins / choosing for bins in count("choosing", choosing))
    seen = best_event((first, second), choosing, drawn.delta, _WHILE_CHOOSING)
    if seen.score > _TELLING * event.score:
        event = seen
    found = count("final", trials)
    likelier, other = found if event.above else found[::-1]
    hits = int(likelier[event.bins].sum()), int(other[event.bins].sum())
    lower = epsilon_lower(*hits, trials, drawn.delta, confidence)
    return AuditReport(
        part=drawn.part,
        fault=drawn.fault,
        epsilon_lower=lower,
        claim=claim,
        reached=lower / claim if claim > 0.0 else math.inf,
        passed=lower <= claim,
        delta=drawn.delta,
        confidence=confidence,
        runs=done,
        trials=trials,
        hits=hits,
        event=_describe(drawn, votes, event),
    )


def claimed(job: Mechanism) -> float:
    """What is claimed for a part of a job, all samples answered: `job_report`'s epsilon; for labels alone, likewise."""
    if job.part == "labels" or (job.fault == "unpaid-threshold" and job.part == "job"):
        own = server_sigma(job.sigma2)
        # The order only has to be near the best one: every order gives a bound. A label costs about 0.65 α/σ².
        excess = zcdp_order(0.65 * job.samples / job.sigma2**2, job.delta) - 1.0
        orders = [1.0 + excess * 2.0 ** (i / 4) for i in range(-2, 3)]
        divergences = [job.samples * argmax_divergence(own, 2, order) for order in orders]
        return min(order_epsilon(a, d, job.delta) for a, d in zip(orders, divergences, strict=True))
    if job.fault == "unpaid-threshold":
        return 0.0
    report = job_report(job.samples, job.samples, job.sigma1, job.sigma2, job.delta, classes=job.classes)
    return report.requester.epsilon if job.part == "job" else report.server.epsilon


def _ratios(job: Mechanism, votes: Votes, side: int, seed: Seed, runs: int) -> Floats:
    """The log-likelihood ratios of so many runs of the mechanism, on the votes (0) or on the moved ones (1)."""
    samples = 1 if job.fault == "repeated" else job.samples

    def draw(tables: Tables | None, label: str, *before: int) -> npt.NDArray[np.int32]:
        shape = *before, samples, runs
        own = [sample(t, seed.child(f"S{i}"), label, shape) for i, t in enumerate(tables or ()) if t is not None]
        noise = own[0] if own else np.zeros(shape, np.int32)
        for other in own[1:]:
            noise += other
        return np.broadcast_to(noise, (*before, job.samples, runs))

    g = draw(job.check_tables, "g") if job.check_tables else None
    g_i = draw(job.label_tables, "g_i", job.classes) if job.label_tables else None
    sums, start = np.zeros(runs), 0
    for kind in votes.kinds:
        rows = slice(start, start := start + kind.samples)
        counts = (kind.votes, kind.moved)[side]
        check = np.zeros(1, np.int32) if g is None else g[rows].reshape(-1)
        threshold = 0 if g is None else job.threshold
        if g_i is None:
            outcomes = ideal.consensus(counts, threshold, check).astype(np.int64)
        else:
            flat = g_i[:, rows].reshape(job.classes, -1)
            outcomes = ideal.labels(counts, threshold, check, flat) - NO_CONSENSUS
        sums += kind.ratios[outcomes].reshape(kind.samples, runs).sum(axis=0)
    return sums


def _hidden(job: Mechanism) -> Hidden:
    """The law of the noise that the observer does not know."""

    def law(tables: Tables | None) -> Floats | None:
        return None if tables is None else np.convolve(_pmf(tables[0]), _pmf(tables[1]))

    return Hidden(law(job.check_tables), law(job.label_tables))


def _pmf(table: NoiseTable | None) -> Floats:
    """P(x) for x = -bound, ..., bound."""
    bound, sigma = (0, 1.0) if table is None else (table.bound, table.sigma)
    weights = np.exp(-0.5 * (np.arange(-bound, bound + 1) / sigma) ** 2)
    return np.asarray(weights / weights.sum(), np.float64)


def _describe(job: Mechanism, votes: Votes, event: Event) -> str:
    seen = {"checks": "consensus bits", "labels": "labels", "job": "labels and missing ones"}[job.part]
    sign, edge = (">=", event.bins.start) if event.above else ("<", event.bins.stop)
    counts = " and ".join(
        f"{kind.votes[:, 0].tolist()[:3]} against {kind.moved[:, 0].tolist()[:3]}" for kind in votes.kinds
    )
    return f"log-likelihood ratio of all {seen} {sign} {votes.edge(edge):.3f}; counts {counts}"


def _check(job: Mechanism, confidence: float, runs: int) -> None:
    for value, allowed in ((job.part, get_args(Part)), (job.fault, (None, *get_args(Fault)))):
        if value not in allowed:
            raise TaskError(f"{value!r} cannot be audited.", f"Use one of {', '.join(map(repr, allowed))}.")
    check_delta(job.delta)
    if not 0.5 <= confidence < 1.0:
        raise TaskError(f"The confidence is {confidence}.", "Use at least 0.5 and less than 1, such as 0.99.")
    for name, (low, high) in _RANGES.items():
        count = runs if name == "runs" else getattr(job, name)
        if isinstance(count, bool) or not isinstance(count, int) or not low <= count <= high:
            raise TaskError(f"{name} is {count!r}.", f"Use a whole number from {low:,} to {high:,}.")
    for sigma in (job.sigma1, job.sigma2):
        if server_sigma(sigma) > _MOST_SIGMA:
            raise TaskError(f"A sigma of {sigma} is too large to audit.", f"Use at most {_MOST_SIGMA:.0f}.")
