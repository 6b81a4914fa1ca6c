"""The votes that give one teacher away most, and the event that tells: found by computing, before anything is drawn.

The exact accountant (`sedml.privacy.exact`) takes a maximum over positions: how far the two counts between which a vote
moves are from each other, from the rest and from the threshold. Here such positions are tried as whole jobs. The
log-likelihood ratio of a job is the sum of those of its samples, so its law is a convolution, and with it the lower
bound is known that so many runs can be expected to give at each of them.

Half of these samples are mirrored: the teacher moves its vote the other way. Two samples more, one the reverse of the
other, are where a single vote decides: that costs honest noise little, and noise that is missing or used twice gives
itself away there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Counts: TypeAlias = tuple[Ints, Ints]
"""Neighbours, each int[N, 1]."""

BINS = 1 << 12
_WITH_EDGES = 8  # samples: in a smaller job two are too many
_WIDEST = 40.0  # ratios beyond e^40 count as that: no number of runs could tell


@dataclass(frozen=True, eq=False)
class Kind:
    """So many samples with the same neighbouring counts, and the laws of their outcomes for honest noise."""

    samples: int
    votes: Ints
    moved: Ints
    laws: tuple[Floats, Floats]

    @property
    def ratios(self) -> Floats:
        """log(P/P') of every outcome."""
        p, q = (np.log(np.maximum(law, 1e-300)) for law in self.laws)
        return np.asarray(np.clip(p - q, -_WIDEST, _WIDEST), np.float64)


@dataclass(frozen=True, eq=False)
class Votes:
    """A job's votes and those of its neighbour, and up to where the bins of its log-likelihood ratio go."""

    kinds: tuple[Kind, ...]
    scale: float
    laws: tuple[Floats, Floats]
    """P of each bin, for honest noise."""

    def bins(self, sums: Floats) -> Ints:
        """The bin of each log-likelihood ratio."""
        return np.clip(BINS // 2 * (1.0 + sums / self.scale), 0, BINS - 1).astype(np.int64)

    def edge(self, number: int) -> float:
        """Where a bin begins."""
        return self.scale * (2.0 * number / BINS - 1.0)


@dataclass(frozen=True)
class Event:
    """The log-likelihood ratio is in these bins; `above`: likelier for the votes than for the moved ones."""

    score: float
    above: bool
    bins: slice


def worst_votes(
    hidden: Floats, samples: int, classes: int, threshold: int, delta: float, trials: int, caution: float
) -> tuple[Votes, Event]:
    """Those that promise the highest lower bound on epsilon from so many runs of either neighbour, and by which event.

    `hidden` is the law of the noise that the observer does not know: P(x) for x = -bound, ..., bound. `caution` is that
    of `best_event`.
    """
    tried = _positions(hidden, classes, threshold)
    edge = 1 if samples >= _WITH_EDGES else 0
    main = samples - 2 * edge
    one, other = _edge(classes, threshold)
    edges = _kinds(hidden, threshold, (edge, one, other), (edge, other, one))
    found = []
    for counts, mirrored in tried:
        kinds = _kinds(hidden, threshold, (main - main // 2, *counts), (main // 2, *mirrored)) + edges
        reach = sum(kind.samples * float(np.abs(kind.ratios).max()) for kind in kinds)
        scale = min(max(1.01 * reach, 1e-9), _WIDEST)
        laws = _convolved(kinds, 0, scale), _convolved(kinds, 1, scale)
        found.append((Votes(kinds, scale, laws), best_event(laws, trials, delta, caution)))
    return max(found, key=lambda entry: entry[1].score)


def best_event(shares: tuple[Floats, Floats], trials: int, delta: float, caution: float) -> Event:
    """The most telling event, by each bin's share of the runs on the votes and on the moved ones.

    Its score is the lower bound on epsilon where so many trials are so many standard errors off. By Wilson's score
    bounds: near the exact ones, and quick.
    """
    votes, moved = shares
    p, q = np.clip(np.cumsum([[votes[::-1], moved], [moved[::-1], votes]], axis=2), 0.0, 1.0)
    w = caution**2 / trials
    low = (p + 0.5 * w - np.sqrt(w * (p * (1.0 - p) + 0.25 * w))) / (1.0 + w)
    high = (q + 0.5 * w + np.sqrt(w * (q * (1.0 - q) + 0.25 * w))) / (1.0 + w)
    scores = np.log(np.maximum(low - delta, 1e-300) / high)
    below, last = divmod(int(scores.argmax()), BINS)
    bins = slice(0, last + 1) if below else slice(BINS - 1 - last, BINS)
    return Event(float(scores.max()), not below, bins)


def outcome_law(hidden: Floats, threshold: int, counts: Ints) -> Floats:
    """P of each outcome of a sample: none, then the labels 0, ..., N-1.

    P[i first of the highest] = Σ_{v >= T} P[n_i + g_i = v] Π_{j<i} P[n_j + g_j < v] Π_{j>i} P[n_j + g_j <= v].
    """
    numbers = counts[:, 0].tolist()
    low = min(numbers) - hidden.size // 2
    equal = np.zeros((len(numbers), hidden.size + max(numbers) - min(numbers)))
    for row, shift in zip(equal, numbers, strict=True):
        row[shift - min(numbers) : shift - min(numbers) + hidden.size] = hidden
    most, ones = equal.cumsum(axis=1), np.ones((1, equal.shape[1]))
    before = np.vstack([ones, (most - equal)[:-1]]).cumprod(axis=0)
    after = np.vstack([ones, most[:0:-1]]).cumprod(axis=0)[::-1]
    cut = min(max(threshold - low, 0), equal.shape[1])
    labels = (equal * before * after)[:, cut:].sum(axis=1)
    none = float(most[:, cut - 1].prod()) if cut else 0.0
    return np.append(none, labels)


def _kinds(hidden: Floats, threshold: int, *made: tuple[int, Ints, Ints]) -> tuple[Kind, ...]:
    def law(counts: Ints) -> Floats:
        return outcome_law(hidden, threshold, counts)

    return tuple(Kind(size, one, other, (law(one), law(other))) for size, one, other in made if size)


def _convolved(kinds: tuple[Kind, ...], side: int, scale: float) -> Floats:
    """P of each bin of a job's log-likelihood ratio, for the votes (0) or the moved ones (1)."""
    step = 2.0 * scale / BINS
    transform = np.ones(BINS // 2 + 1, np.complex128)
    for kind in kinds:
        # Each ratio is split between the two nearest bins, so that its mean is right.
        places = kind.ratios / step
        first = np.floor(places).astype(np.int64)
        law, after = kind.laws[side], places - first
        one = np.bincount(first % BINS, weights=law * (1.0 - after), minlength=BINS)
        one += np.bincount((first + 1) % BINS, weights=law * after, minlength=BINS)
        transform *= np.fft.rfft(one) ** kind.samples
    return np.maximum(np.roll(np.fft.irfft(transform, BINS), BINS // 2), 0.0)


def _positions(hidden: Floats, classes: int, threshold: int) -> Iterator[tuple[Counts, Counts]]:
    """Two counts close to each other and to the threshold, or one of them alone there. Mirrored, they are exchanged.

    The others are so far behind that one of them wins now and then: about where all outcomes tell most.
    """
    counts, sigma = _columns(classes), _width(hidden)
    behind = 1.5 + math.sqrt(2.0 * math.log(max(classes - 2, 1)))
    for need in _steps(sigma, -3.0, 1.5):
        for margin in {0, 1, 2, *_steps(sigma, 0.0, 1.6), threshold - need}:
            one, other = threshold - need, threshold - need - margin
            rest = max(0, other - round(behind * sigma))
            if min(one - 1, other) >= 0:
                pair = counts(one, other, rest), counts(one - 1, other + 1, rest)
                yield pair, (counts(other, one, rest), counts(other + 1, one - 1, rest))


def _edge(classes: int, threshold: int) -> Counts:
    """Where the moved vote decides, were there no noise, whether there is a label."""
    counts = _columns(classes)
    return counts(threshold, threshold - 2), counts(threshold - 1, threshold - 1)


def _columns(classes: int) -> Callable[..., Ints]:
    return lambda one, other, rest=0: np.array([[one], [other], *[[rest]] * (classes - 2)], np.int64)


def _width(law: Floats) -> float:
    """The standard deviation of noise."""
    x = np.arange(law.size) - law.size // 2
    return math.sqrt(float(law @ (x * x)))


def _steps(sigma: float, low: float, high: float) -> list[int]:
    """Whole numbers from low to high sigmas, three to a sigma."""
    return sorted({0, *(round(sigma * i / 3) for i in range(round(low * 3), round(high * 3) + 1))})
