"""An empirical lower bound on epsilon: the mechanism itself, run millions of times on neighbouring votes.

A claim of (epsilon, delta) says P[E] <= e^epsilon P'[E] + delta for every event E of the output and neighbours' laws
P and P', either way round. So log((p - delta)/q) is a lower bound on epsilon if p <= P[E] and q >= P'[E]: the test of
Kairouz, Oh & Viswanath (ICML 2015), as an audit in Ding et al. (CCS 2018) and Jagielski, Ullman & Oprea (NeurIPS
2020). A bound above the claim disproves it; one below proves nothing. It comes near the true epsilon with worst-case
neighbours and an observer that has all the claim grants it (Nasr et al., S&P 2021 and USENIX Security 2023; for PATE,
Chadha et al., ICML 2024).

1. The noise is drawn by the servers' own code (`sedml.privacy.noise`), the decision is that of `ideal`. One teacher
   moves its vote from the first class to the second on every sample of a small job.
2. The events are {log-likelihood ratio of all outcomes >= t}, by Neyman and Pearson the most telling ones. The ratio
   is computed for honest noise: a fault costs the test power, never validity.
3. Which votes, which way round, which t? A third of the runs choose, in rounds, each with the best quarter of the last.
4. Fresh runs of that one choice are counted. The exact bounds of Clopper & Pearson (Biometrika 1934) on p and on q, at
   half the allowed error each, hold whatever the choice was: having chosen costs nothing more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import TaskError
from sedml.lab.binomial_bounds import epsilon_lower
from sedml.mpc.prg import Seed
from sedml.privacy.accounting import NoisyMaximum, job_report, job_rho
from sedml.privacy.conversion import zcdp_epsilon
from sedml.privacy.noise import NoiseSource, NoiseTable, noise_table, sample, server_sigma, server_table
from sedml.protocol import ideal

__all__ = [
    "CONFIDENCE",
    "RUNS",
    "AuditReport",
    "Fault",
    "Mechanism",
    "Observer",
    "audit",
]

Observer: TypeAlias = Literal["requester", "server"]
Fault: TypeAlias = Literal["half-width", "one-server", "unpaid-threshold"]
Tables: TypeAlias = tuple[NoiseTable | None, NoiseTable | None]  # S0's and S1's
Event: TypeAlias = tuple[float, bool, slice]  # score, likelier for the votes and not the moved ones, bins
Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

RUNS = 5_000_000
CONFIDENCE = 0.999

_RANGES = {"samples": (1, 1000), "classes": (2, 1000), "threshold": (2, 10**6), "runs": (10**4, 10**10)}
_MOST_SIGMA = 256.0  # the laws are sums over pairs of noise values
_CHUNK = 1 << 18  # draws of a server at a time
_BINS = 1 << 12
_WIDEST = 20.0  # ratios beyond e^20 count as that: they are out of reach of 10^8 runs
_CAUTION = 0.7  # standard errors off each frequency, while choosing


@dataclass(frozen=True)
class Mechanism:
    """A small job whose claim is put to the test; its default terms give away every fault that can be planted.

    The faults: "half-width" halves the sigma of all noise, "one-server" leaves out S1's noise (S0's, if only S0 adds
    any), and "unpaid-threshold" claims the epsilon of the noisy maxima alone. The observer "server" is S0: it sees the
    consensus bits and knows its own noise.
    """

    samples: int = 2
    sigma1: float = 1.5
    sigma2: float = 9.0
    delta: float = 1e-3
    classes: int = 2
    threshold: int = 100
    noise: NoiseSource = "both"
    view: Observer = "requester"
    fault: Fault | None = None

    def tables(self, sigma: float) -> Tables:
        """What S0 and S1 draw from, None where a server adds no noise."""
        first, second = server_table(sigma, self.noise, 0), server_table(sigma, self.noise, 1)
        if self.fault == "half-width":
            half = noise_table(0.5 * server_sigma(sigma, self.noise))
            return half, None if second is None else half
        return (None if second is None else first, None) if self.fault == "one-server" else (first, second)


@dataclass(frozen=True)
class AuditReport:
    """What was found: `epsilon_lower` is at most the true epsilon, except with probability 1 - `confidence`.

    `claim` is `job_report(...)`'s epsilon for this view and the same terms, all samples answered; `passed` says that it
    stands. Of the `runs` jobs drawn, the bound rests on `trials` of each neighbour, with so many `hits` of the event.
    """

    view: Observer
    fault: Fault | None
    epsilon_lower: float
    claim: float
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
    pairs = _pairs(replace(drawn, fault=None))
    delta = drawn.delta
    claim = _claim(drawn)
    source = seed or Seed.random()
    done = 0

    def count(pair: _Pair, purpose: str, trials: int) -> tuple[Ints, Ints]:
        nonlocal done
        found = np.zeros(_BINS, np.int64), np.zeros(_BINS, np.int64)
        size = max(1, _CHUNK // (drawn.samples * (1 + drawn.classes)))
        for counts, bins, name in zip((pair.votes, pair.moved), found, ("votes", "moved"), strict=True):
            for start in range(0, trials, size):
                part = min(size, trials - start)
                bins += _histogram(drawn, pair, counts, source.child(f"{purpose}/{name}/{start}"), part)
                done += part
                progress(f"auditing, {drawn.view}", done, runs)
        return found

    rounds = 1 + math.ceil(math.log(len(pairs), 4))
    for turn in range(rounds):
        trials = runs // (6 * rounds * len(pairs))
        scored = [(_choose(*count(p, f"{turn}/{i}", trials), delta), p) for i, p in enumerate(pairs)]
        scored.sort(key=lambda entry: -entry[0][0])
        pairs = [pair for _, pair in scored[: math.ceil(len(scored) / 4)]]
    (_, above, bins), pair = scored[0]
    trials = (runs - done) // 2
    found = count(pair, "final", trials)
    likelier, other = found if above else found[::-1]
    hits = int(likelier[bins].sum()), int(other[bins].sum())
    lower = epsilon_lower(*hits, trials, delta, confidence)
    return AuditReport(
        view=drawn.view,
        fault=drawn.fault,
        epsilon_lower=lower,
        claim=claim,
        passed=lower <= claim,
        delta=delta,
        confidence=confidence,
        runs=done,
        trials=trials,
        hits=hits,
        event=_describe(drawn, pair, above, bins),
    )


@dataclass(frozen=True, eq=False)
class _Pair:
    """Neighbouring counts int[N, 1], of every sample, and log(P/P') of `_law`'s outcomes; bins go to ±scale."""

    votes: Ints
    moved: Ints
    ratios: Floats
    scale: float


def _pairs(job: Mechanism) -> list[_Pair]:
    """Highest counts about the threshold, second ones from close by on: a few standard deviations either way."""
    tops = {job.threshold + round(0.5 * k * job.sigma1) for k in range(-5, 6)}
    margins = {2 + round(k * math.sqrt(2.0) * job.sigma2) for k in range(3)} if job.view == "requester" else {2}
    pairs, rest = [], [[0]] * (job.classes - 2)
    for top, margin in sorted((top, margin) for top in tops for margin in margins if margin <= top):
        votes, moved = (np.array([[top - x], [top - margin + x], *rest]) for x in (0, 1))
        p, q = (np.log(np.maximum(_law(job, counts), 1e-300)) for counts in (votes, moved))
        ratios = np.clip(p - q, -_WIDEST, _WIDEST)
        pairs.append(_Pair(votes, moved, ratios, min(max(job.samples * np.abs(ratios).max(), 1e-9), _WIDEST)))
    return pairs


def _histogram(job: Mechanism, pair: _Pair, counts: Ints, seed: Seed, runs: int) -> Ints:
    """Runs on these counts: how many have their log-likelihood ratio in each bin."""

    def draw(tables: Tables, label: str, shape: tuple[int, ...]) -> list[npt.NDArray[np.int32]]:
        none = np.zeros(shape, np.int32)
        return [none if t is None else sample(t, seed.child(f"S{i}"), label, shape) for i, t in enumerate(tables)]

    own, other = draw(job.tables(job.sigma1), "g", (runs * job.samples,))
    if job.view == "server":
        zero = pair.ratios.size // 4  # where _law has own noise 0, of each of which it has two outcomes
        outcomes = 2 * (zero + own.astype(np.int64)) + ideal.consensus(counts, job.threshold, own + other)
    else:
        g_i = np.add(*draw(job.tables(job.sigma2), "g_i", (job.classes, runs * job.samples)))
        outcomes = ideal.labels(counts, job.threshold, own + other, g_i) - ideal.NO_CONSENSUS
    sums = pair.ratios[outcomes].reshape(runs, job.samples).sum(axis=1)
    bins = np.clip(_BINS // 2 * (1.0 + sums / pair.scale), 0, _BINS - 1).astype(np.int64)
    return np.bincount(bins, minlength=_BINS)


def _law(job: Mechanism, counts: Ints) -> Floats:
    """P of each outcome of a sample: -1, 0, ..., N-1; or, given each own noise, of no consensus and consensus."""
    (own, other), (first, second) = (map(_pmf, job.tables(sigma)) for sigma in (job.sigma1, job.sigma2))
    need = job.threshold - int(counts.max())  # consensus from this noise on
    if job.view == "server":
        sums = np.append(0.0, other).cumsum()  # the noise is symmetric: also its upper tails
        at = np.clip(need + other.size // 2 + own.size // 2 - np.arange(own.size), 0, other.size)
        return np.stack([sums[at], sums[::-1][at]], axis=1).ravel()
    g, g_i = np.convolve(own, other), np.convolve(first, second)
    cut = min(max(need + g.size // 2, 0), g.size)
    # P[i first of the highest] = Σ_v P[n_i + g_i = v] Π_{j<i} P[n_j + g_j < v] Π_{j>i} P[n_j + g_j <= v].
    equal = np.zeros((job.classes, g_i.size + int(np.ptp(counts))))
    for row, shift in zip(equal, (counts - counts.min())[:, 0], strict=True):
        row[shift : shift + g_i.size] = g_i
    most, ones = equal.cumsum(axis=1), np.ones((1, equal.shape[1]))
    before = np.vstack([ones, (most - equal)[:-1]]).cumprod(axis=0)
    after = np.vstack([ones, most[:0:-1]]).cumprod(axis=0)[::-1]
    return np.append(g[:cut].sum(), g[cut:].sum() * (equal * before * after).sum(axis=1))


def _pmf(table: NoiseTable | None) -> Floats:
    """P(x) for x = -bound, ..., bound."""
    bound, sigma = (0, 1.0) if table is None else (table.bound, table.sigma)
    weights = np.exp(-0.5 * (np.arange(-bound, bound + 1) / sigma) ** 2)
    return np.asarray(weights / weights.sum(), np.float64)


def _claim(job: Mechanism) -> float:
    if job.fault == "unpaid-threshold":
        maxima = NoisyMaximum(job.sigma2, 2 if job.noise == "both" else 1), job.samples
        return zcdp_epsilon(job_rho([maxima] if job.view == "requester" else []), job.delta)
    terms = job.samples, job.samples, job.sigma1, job.sigma2, job.delta
    report = job_report(*terms, noise=job.noise, classes=job.classes)
    return report.requester.epsilon if job.view == "requester" else report.server.epsilon


def _choose(votes: Ints, moved: Ints, delta: float) -> Event:
    """The most telling event of these runs, by Wilson's score bounds: near the exact ones, and quick."""
    trials = int(votes.sum())
    p, q = np.cumsum([[votes[::-1], moved], [moved[::-1], votes]], axis=2) / trials
    w = _CAUTION**2 / trials
    low = (p + 0.5 * w - np.sqrt(w * (p * (1.0 - p) + 0.25 * w))) / (1.0 + w)
    high = (q + 0.5 * w + np.sqrt(w * (q * (1.0 - q) + 0.25 * w))) / (1.0 + w)
    scores = np.log(np.maximum(low - delta, 1e-300) / high)
    below, last = divmod(int(scores.argmax()), _BINS)
    bins = slice(0, last + 1) if below else slice(_BINS - 1 - last, _BINS)
    return float(scores.max()), not below, bins


def _describe(job: Mechanism, pair: _Pair, above: bool, bins: slice) -> str:
    seen = "labels" if job.view == "requester" else "consensus bits (own noise known)"
    sign, edge = (">=", bins.start) if above else ("<", bins.stop)
    at = f"{sign} {pair.scale * (2.0 * edge / _BINS - 1.0):.3f}"
    votes, moved = pair.votes[:2, 0].tolist(), pair.moved[:2, 0].tolist()
    return f"log-likelihood ratio of all {seen} {at}; counts {votes} against {moved}, threshold {job.threshold}"


def _check(job: Mechanism, confidence: float, runs: int) -> None:
    for value, allowed in ((job.view, get_args(Observer)), (job.fault, (None, *get_args(Fault)))):
        if value not in allowed:
            raise TaskError(f"{value!r} cannot be audited.", f"Use one of {', '.join(map(repr, allowed))}.")
    if not 0.5 <= confidence < 1.0:
        raise TaskError(f"The confidence is {confidence}.", "Use at least 0.5 and less than 1, such as 0.999.")
    for name, (low, high) in _RANGES.items():
        count = runs if name == "runs" else getattr(job, name)
        if isinstance(count, bool) or not isinstance(count, int) or not low <= count <= high:
            raise TaskError(f"{name} is {count!r}.", f"Use a whole number from {low:,} to {high:,}.")
    for sigma in (job.sigma1, job.sigma2):
        if server_sigma(sigma, job.noise) > _MOST_SIGMA:
            raise TaskError(f"A sigma of {sigma} is too large to audit.", f"Use at most {_MOST_SIGMA:.0f}.")
