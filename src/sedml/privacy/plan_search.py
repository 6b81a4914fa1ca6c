"""The search of a plan: what each threshold, each division of the budget and each number of samples would bring.

A budget of rho over q samples leaves each of them rho/q = 1/x. A check costs about 1/(π sigma1²) and a label
0.64/sigma2² (`sedml.privacy.exact` at small orders). With a part s of a sample's charge for the check, and h(s) <= 1
what check and label together cost of their sum, sigma1 = √(h x/(π s)) and sigma2 = √(0.64 h x/(1-s)): all samples are
charged as answered. So a plan is (x, s, T), and what x brings per sample is found once for all budgets and numbers of
samples. How far these costs are off, a full account tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from sedml.privacy.noise import MAX_SIGMA
from sedml.privacy.utility import Floats, Utility, VoteSample, labelled_right, ndtr

__all__ = [
    "COSTS",
    "MARGINS",
    "Candidate",
    "Option",
    "Search",
    "accuracy_floor",
    "best_terms",
    "bought",
    "buy",
    "make_search",
    "refine",
    "scaled",
]

COSTS = 72
"""How many values of x are tried."""
MARGINS = (1e-3, 2e-3, 4e-3, 8e-3)
"""Above the accuracy asked for, so that rounding does not end below it."""

_SPLITS = 1.0 / (1.0 + np.exp(np.linspace(5.0, -1.0, 16)))
_LEVELS = 1024  # of highest counts that are told apart
_SIGMAS = 80
_THRESHOLDS = 48
_LABEL = 0.6402
_LEAST_THRESHOLD = 2.0  # one vote is no consensus
_LEAST_SIGMA = 1.0  # less noise would hardly be any
_WORTH = 0.99  # of the most right labels that can be had, for fewer samples asked
_ENOUGH = 0.999  # of the same, for less of the budget


@dataclass(frozen=True)
class Candidate:
    """Terms that cost about 1/x of rho per sample; `answered` and `right` are shares of the samples."""

    x: float
    split: float
    threshold: int
    sigma1: float
    sigma2: float
    answered: float
    right: float


Option: TypeAlias = tuple[int, Candidate]
"""How many samples to ask, and at which terms."""


@dataclass(frozen=True, eq=False)
class Search:
    """The votes by level of their highest count; `right[i, j]` is the part of level i that sigma j labels right.

    Levels (levels,), log_sigmas (sigmas,), right (levels, sigmas).
    """

    teachers: int
    highest: Floats
    weights: Floats
    log_sigmas: Floats
    right: Floats
    floor: float


def make_search(votes: VoteSample, min_accuracy: float) -> Search:
    """Tabulate what every sigma labels right at every level."""
    _, index = np.unique(np.rint(votes.highest * min(1.0, _LEVELS / votes.teachers)), return_inverse=True)
    weights: Floats = np.bincount(index, votes.weights).astype(np.float64)
    highest = np.bincount(index, votes.weights * votes.highest) / weights
    sigmas = np.geomspace(_LEAST_SIGMA, 16.0 * votes.teachers, _SIGMAS)
    right = [np.bincount(index, votes.weights * labelled_right(votes, sigma)) for sigma in sigmas.tolist()]
    least = accuracy_floor(min_accuracy, MARGINS[0])
    return Search(votes.teachers, highest, weights, np.log(sigmas), np.column_stack(right), least)


def accuracy_floor(min_accuracy: float, margin: float) -> float:
    """The accuracy to search for: a margin above the one asked for, but no more than a tenth of the way to 1."""
    return min_accuracy + min(margin, 0.1 * (1.0 - min_accuracy))


def best_terms(search: Search, x: float, splits: Floats = _SPLITS, thresholds: Floats | None = None) -> Candidate:
    """The best terms at a rho of 1/x per sample; `right` is 0 where none reach the floor."""
    best = Candidate(x, 0.0, 0, 0.0, 0.0, 0.0, 0.0)
    for split in splits.tolist():
        room = x * _together(split)
        sigma1 = max(_LEAST_SIGMA, math.sqrt(room / (math.pi * split)))
        T = _grid(search.teachers, sigma1) if thresholds is None else thresholds
        passed = ndtr((search.highest[:, np.newaxis] - T + 0.5) / sigma1)
        answered = search.weights @ passed
        sigma2 = max(_LEAST_SIGMA, math.sqrt(_LABEL * room / (1.0 - split)))
        right = (_right_at(search, sigma2)[:, np.newaxis] * passed).sum(axis=0)
        within = (right >= search.floor * answered) & (max(sigma1, sigma2) <= MAX_SIGMA)
        allowed = np.where(within, right, 0.0)
        if allowed.max() > best.right:
            i = int(allowed.argmax())
            best = Candidate(x, split, int(T[i]), sigma1, sigma2, float(answered[i]), float(right[i]))
    return best


@lru_cache(maxsize=4096)
def _together(split: float) -> float:
    """What a check and its label cost together, of the sum of what each costs at its worst: h(s).

    At a place k the check costs φ²/(Φ(1-Φ)) of noise 1, the most at k = 0, and the label is given with probability Φ.
    """
    k = np.linspace(-5.0, 5.0, 401)
    passed, density = ndtr(k), np.exp(-0.5 * k * k) / math.sqrt(2.0 * math.pi)
    check = density**2 / (passed * ndtr(-k)) * (0.5 * math.pi)
    return float((split * check + (1.0 - split) * passed).max())


def _grid(teachers: int, sigma1: float) -> Floats:
    """Thresholds to try: up to and beyond all votes, as noise may lift a count above them."""
    return np.unique(np.rint(np.linspace(_LEAST_THRESHOLD, min(4.0 * teachers, teachers + 1.5 * sigma1), _THRESHOLDS)))


def _right_at(search: Search, sigma2: float) -> Floats:
    """Shape (levels,), by interpolation."""
    at = float(np.interp(math.log(sigma2), search.log_sigmas, np.arange(_SIGMAS)))
    low = min(int(at), _SIGMAS - 2)
    between: Floats = search.right[:, low] * (1.0 - (at - low)) + search.right[:, low + 1] * (at - low)
    return between


def bought(option: Option) -> float:
    """The expected number of right labels."""
    return option[0] * option[1].right


def buy(search: Search, frontier: Sequence[Candidate], rho: float, samples: int) -> Option:
    """How many of the samples are worth asking, and at which terms."""
    options = [(min(samples, int(rho * candidate.x)), candidate) for candidate in frontier if rho * candidate.x >= 1.0]
    options.append((samples, best_terms(search, samples / rho)))
    worth = _WORTH * max(map(bought, options))
    fewest = min(asked for asked, candidate in options if asked * candidate.right >= worth)
    alike = [option for option in options if option[0] == fewest]
    enough = _ENOUGH * max(map(bought, alike))
    return max((option for option in alike if bought(option) >= enough), key=lambda option: option[1].x)


def refine(search: Search, rho: float, least: int, most: int, start: Option) -> Option:
    """Better terms close by, asking `least` to `most` samples."""
    best = start
    if start[0] == most:
        rho = min(rho, most / start[1].x)  # what all samples together have a use for
    for width in (0.12, 0.06, 0.03):
        asked, candidate = best
        if not candidate.right:
            break
        near = np.linspace(-1.0, 1.0, 5)
        splits = 1.0 / (1.0 + (1.0 / candidate.split - 1.0) * np.exp(3.0 * width * near))
        votes = candidate.threshold + 0.5 * width * search.teachers * np.linspace(-1.0, 1.0, 17)
        thresholds = np.unique(np.rint(votes.clip(_LEAST_THRESHOLD, 4.0 * search.teachers)))
        numbers = np.unique(np.rint(asked * np.exp(width * near)).clip(least, most).astype(np.int64)).tolist()
        options = [(q, best_terms(search, q / rho, splits, thresholds)) for q in numbers]
        allowed = candidate.right >= search.floor * candidate.answered
        best = max([best, *options] if allowed else options, key=bought)
    return best if best[1].right else start


def scaled(epsilon: float, asked: int, candidate: Candidate) -> Utility:
    """What the terms bring for so many samples."""
    brought = asked * candidate.answered, asked * candidate.right
    return Utility(epsilon, asked, candidate.threshold, candidate.sigma1, candidate.sigma2, *brought)
