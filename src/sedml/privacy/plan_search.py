"""The search of a plan: what each amount of noise, each threshold and each number of samples would bring.

A budget of rho over q samples leaves each of them rho/q = 1/x, and a sample costs about 1.28/σ² (`sedml.privacy.exact`
at small orders). So a plan is (x, T), and what x brings per sample is found once for all budgets and numbers of
samples. How far that cost is off, a full account tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sedml.privacy.noise import MAX_SIGMA
from sedml.privacy.utility import Floats, Utility, VoteSample, labelled, wins_with

__all__ = [
    "COSTS",
    "LEAST_THRESHOLD",
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
LEAST_THRESHOLD = 2
"""One vote is no consensus."""
MARGINS = (1e-3, 2e-3, 4e-3, 8e-3)
"""Above the accuracy asked for, so that rounding does not end below it."""

_SAMPLE = 1.2804
_SIGMAS = 40
_PLACES = 64  # of thresholds that are tabulated, from the lowest one to as many sigmas above all votes
_ABOVE = 3.0
_THRESHOLDS = 400  # that are tried
_STEP = 0.25
_PARTS = np.array([0.125, 0.375, 0.625, 0.875])
_LEAST_SIGMA = 1.0  # less noise would hardly be any
_WORTH = 0.99  # of the most right labels that can be had, for fewer samples asked
_ENOUGH = 0.999  # of the same, for less of the budget


@dataclass(frozen=True)
class Candidate:
    """Terms that cost about 1/x of rho per sample; `answered` and `right` are shares of the samples."""

    x: float
    threshold: int
    sigma: float
    answered: float
    right: float


Option: TypeAlias = tuple[int, Candidate]
"""How many samples to ask, and at which terms."""


@dataclass(frozen=True, eq=False)
class Search:
    """The shares of samples that get a label, and the right one, by sigma and threshold.

    log_sigmas (sigmas,); answered and right (sigmas, places): a place is a part of the way from the lowest threshold to
    the highest one, which depends on sigma.
    """

    teachers: int
    log_sigmas: Floats
    answered: Floats
    right: Floats
    floor: float


def make_search(votes: VoteSample, min_accuracy: float) -> Search:
    """Tabulate what every sigma and threshold brings."""
    sigmas = np.geomspace(_LEAST_SIGMA, 16.0 * votes.teachers, _SIGMAS)
    tables = [_tabulate(votes, sigma) for sigma in sigmas.tolist()]
    answered, right = (np.array(table) for table in zip(*tables, strict=True))
    return Search(votes.teachers, np.log(sigmas), answered, right, accuracy_floor(min_accuracy, MARGINS[0]))


def _tabulate(votes: VoteSample, sigma: float) -> tuple[Floats, Floats]:
    """The shares of samples with a label and with the right one, for every place."""
    thresholds = _thresholds(votes.teachers, sigma, _PLACES)
    answered = np.array([votes.weights @ labelled(votes, sigma, T) for T in thresholds.tolist()])
    # Where the noisy count of the right class is, if it wins: all of that from a threshold on are right labels. The
    # chance to win hardly changes between two nodes, the density of the noise does.
    nodes = np.arange(-6.0, 6.01, _STEP)
    wins = np.array([wins_with(votes, sigma, z) for z in nodes.tolist()])
    z = nodes[:-1, np.newaxis] + _STEP * _PARTS
    between = wins[:-1, np.newaxis] + _PARTS[:, np.newaxis] * np.diff(wins, axis=0)[:, np.newaxis]
    mass = between * (np.exp(-0.5 * z * z) * (_STEP / _PARTS.size / math.sqrt(2.0 * math.pi)))[..., np.newaxis]
    place = (votes.right + z[..., np.newaxis] * sigma - thresholds[0] + 0.5) / (thresholds[1] - thresholds[0])
    index = np.floor(place + 1.0).clip(0, _PLACES).astype(np.int64)
    counted = np.bincount(index.ravel(), (mass * votes.weights).ravel(), minlength=_PLACES + 1)
    return answered, np.minimum(answered, np.cumsum(counted[::-1])[::-1][1:])


def _thresholds(teachers: int, sigma: float, number: int) -> Floats:
    """From the lowest to beyond all votes, as noise may lift a count above them."""
    return np.linspace(LEAST_THRESHOLD, max(LEAST_THRESHOLD, teachers) + _ABOVE * sigma, number)


def accuracy_floor(min_accuracy: float, margin: float) -> float:
    """The accuracy to search for: a margin above the one asked for, but no more than a tenth of the way to 1."""
    return min_accuracy + min(margin, 0.1 * (1.0 - min_accuracy))


def best_terms(search: Search, x: float) -> Candidate:
    """The best terms at a rho of 1/x per sample; `right` is 0 where none reach the floor."""
    sigma = max(_LEAST_SIGMA, math.sqrt(_SAMPLE * x))
    grid = _thresholds(search.teachers, sigma, _PLACES)
    T = np.unique(np.rint(np.linspace(grid[0], grid[-1], _THRESHOLDS)))
    answered, right = (np.interp(T, grid, _at(search, table, sigma)) for table in (search.answered, search.right))
    within = (right >= search.floor * answered) & (sigma <= MAX_SIGMA)
    best = int(np.where(within, right, 0.0).argmax())
    if not within[best]:
        return Candidate(x, 0, 0.0, 0.0, 0.0)
    return Candidate(x, int(T[best]), sigma, float(answered[best]), float(right[best]))


def _at(search: Search, table: Floats, sigma: float) -> Floats:
    """Shape (places,), by interpolation."""
    at = float(np.interp(math.log(sigma), search.log_sigmas, np.arange(_SIGMAS)))
    low = min(int(at), _SIGMAS - 2)
    between: Floats = table[low] * (1.0 - (at - low)) + table[low + 1] * (at - low)
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
        near = np.exp(width * np.linspace(-1.0, 1.0, 5))
        numbers = np.unique(np.rint(asked * near).clip(least, most).astype(np.int64)).tolist()
        options = [(q, best_terms(search, q / rho)) for q in numbers]
        allowed = candidate.right >= search.floor * candidate.answered
        best = max([best, *options] if allowed else options, key=bought)
    return best if best[1].right else start


def scaled(epsilon: float, asked: int, candidate: Candidate) -> Utility:
    """What the terms bring for so many samples."""
    brought = asked * candidate.answered, asked * candidate.right
    return Utility(epsilon, asked, candidate.threshold, candidate.sigma, *brought)
