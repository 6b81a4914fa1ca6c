"""An empirical lower bound on epsilon: the mechanism itself, run millions of times on neighbouring votes.

A claim of (epsilon, delta) says P[E] <= e^epsilon P'[E] + delta for every event E of the output and neighbours' laws
P and P', either way round. So log((p - delta)/q) is a lower bound on epsilon if p <= P[E] and q >= P'[E]: the test of
Kairouz, Oh & Viswanath (ICML 2015), as an audit in Ding et al. (CCS 2018) and Jagielski, Ullman & Oprea (NeurIPS
2020). A bound above the claim disproves it; one below proves nothing. It comes near the true epsilon with worst-case
neighbours and an observer that has all the claim grants it (Nasr et al., S&P 2021 and USENIX Security 2023; for PATE,
Chadha et al., ICML 2024).

1. The noise is drawn by the servers' own code (`sedml.privacy.noise`), the decision is that of `ideal`. Two claims are
   tested: that of a job as the requester and one server see it together, who know that server's noise, and that of a
   job as the requester alone sees it.
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
from sedml.lab.worst_votes import BINS, Event, Votes, best_event, worst_votes
from sedml.mpc.prg import Seed
from sedml.privacy.accounting import job_report
from sedml.privacy.conversion import check_delta
from sedml.privacy.noise import NoiseTable, noise_table, sample, server_sigma
from sedml.protocol.ideal import labels
from sedml.protocol.votes import NO_CONSENSUS

View: TypeAlias = Literal["collusion", "requester"]
Fault: TypeAlias = Literal["half-width", "narrow", "one-server", "repeated"]
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

RUNS = 20_000_000
CONFIDENCE = 0.99

_RANGES = {"samples": (1, 1000), "classes": (2, 1000), "threshold": (2, 10**6), "runs": (10**4, 10**10)}
_MOST_SIGMA = 256.0  # the laws are sums over pairs of noise values
_CHUNK = 1 << 19  # draws of a server at a time
_MOST_THREADS = 8  # each holds a chunk
_CHOOSING = 10  # one run in so many
_CAUTION = 2.6  # standard errors off each frequency, in what is promised
_WHILE_CHOOSING = 1.5  # and in what was seen, by a tenth of the runs
_TELLING = 1.5  # times what is promised: noise that is far from honest
_WIDTHS: dict[Fault | None, float] = {"half-width": 0.5, "narrow": 0.85}


@dataclass(frozen=True)
class Mechanism:
    """A small job whose claim is put to the test; its default terms give away every fault that can be planted.

    The views: "collusion" is what the requester and S0 see together, with S0's noise left out: the claim holds whatever
    that noise is. "requester" is what the requester sees, with the noise of both.

    The faults: "half-width" halves the sigma of all noise, "narrow" makes it 15% smaller, "one-server" leaves out S1's
    noise, and "repeated" uses the noise of one sample for all of a job.
    """

    samples: int = 20
    sigma: float = 9.0
    delta: float = 1e-3
    classes: int = 3
    threshold: int = 100
    view: View = "collusion"
    fault: Fault | None = None

    @property
    def tables(self) -> list[NoiseTable]:
        """What those servers draw from whose noise hides something."""
        servers = (self.view == "requester") + (self.fault != "one-server")
        return [noise_table(_WIDTHS.get(self.fault, 1.0) * server_sigma(self.sigma))] * servers


@dataclass(frozen=True)
class AuditReport:
    """What was found: `epsilon_lower` is at most the true epsilon, except with probability 1 - `confidence`.

    `reached` is its share of the `claim`; `passed` says that the claim stands. Of the `runs` jobs drawn, the bound
    rests on `trials` of each neighbour, with so many `hits` of the event.
    """

    view: View
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
    """Put the claim for a mechanism to the test; `progress` counts runs."""
    _check(drawn, confidence, runs)
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
                progress(f"auditing, {drawn.view}", done, runs)
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
        view=drawn.view,
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
        event=_describe(votes, event),
    )


def claimed(job: Mechanism) -> float:
    """What is claimed for a view of a job: `job_report`'s epsilon."""
    report = job_report(job.samples, job.sigma, job.delta, classes=job.classes)
    return report.epsilon if job.view == "collusion" else report.epsilon_apart


def _ratios(job: Mechanism, votes: Votes, side: int, seed: Seed, runs: int) -> Floats:
    """The log-likelihood ratios of so many runs of the mechanism, on the votes (0) or on the moved ones (1)."""
    shape = job.classes, 1 if job.fault == "repeated" else job.samples, runs
    noise = np.zeros(shape, np.int32)
    for server, table in enumerate(job.tables):
        noise += sample(table, seed.child(f"S{server}"), "g", shape)
    whole = np.broadcast_to(noise, (job.classes, job.samples, runs))
    sums, start = np.zeros(runs), 0
    for kind in votes.kinds:
        rows = slice(start, start := start + kind.samples)
        counts = (kind.votes, kind.moved)[side]
        outcomes = labels(counts, job.threshold, whole[:, rows].reshape(job.classes, -1)) - NO_CONSENSUS
        sums += kind.ratios[outcomes].reshape(kind.samples, runs).sum(axis=0)
    return sums


def _hidden(job: Mechanism) -> Floats:
    """The law of the noise that the observer does not know."""
    law = np.ones(1)
    for table in job.tables:
        law = np.convolve(law, _pmf(table))
    return law


def _pmf(table: NoiseTable) -> Floats:
    """P(x) for x = -bound, ..., bound."""
    weights = np.exp(-0.5 * (np.arange(-table.bound, table.bound + 1) / table.sigma) ** 2)
    return np.asarray(weights / weights.sum(), np.float64)


def _describe(votes: Votes, event: Event) -> str:
    sign, edge = (">=", event.bins.start) if event.above else ("<", event.bins.stop)
    counts = " and ".join(
        f"{kind.votes[:, 0].tolist()[:3]} against {kind.moved[:, 0].tolist()[:3]}" for kind in votes.kinds
    )
    return f"log-likelihood ratio of all labels and missing ones {sign} {votes.edge(edge):.3f}; counts {counts}"


def _check(job: Mechanism, confidence: float, runs: int) -> None:
    for value, allowed in ((job.view, get_args(View)), (job.fault, (None, *get_args(Fault)))):
        if value not in allowed:
            raise TaskError(f"{value!r} cannot be audited.", f"Use one of {', '.join(map(repr, allowed))}.")
    check_delta(job.delta)
    if not 0.5 <= confidence < 1.0:
        raise TaskError(f"The confidence is {confidence}.", "Use at least 0.5 and less than 1, such as 0.99.")
    for name, (low, high) in _RANGES.items():
        count = runs if name == "runs" else getattr(job, name)
        if isinstance(count, bool) or not isinstance(count, int) or not low <= count <= high:
            raise TaskError(f"{name} is {count!r}.", f"Use a whole number from {low:,} to {high:,}.")
    if server_sigma(job.sigma) > _MOST_SIGMA:
        raise TaskError(f"A sigma of {job.sigma} is too large to audit.", f"Use at most {_MOST_SIGMA:.0f}.")
