"""The search of a plan: what each amount of noise, each threshold and each number of samples would bring.

A budget of rho over q samples leaves each of them rho/q = 1/x, and a sample costs a unit that moves g votes about
1.28 g²/σ² (`sedml.privacy.exact` at small orders; 2 g²/σ² where only zCDP is known). So a plan is (x, T), and what x
brings per sample is found once for all budgets and numbers of samples. How far that cost is off, a full account tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from sedml.privacy.charging import SAMPLER_SHARE, best_order, job_charge
from sedml.privacy.conversion import zcdp_rho
from sedml.privacy.exact.argmax import LARGEST_SIGMA
from sedml.privacy.noise import MAX_SIGMA, server_sigma
from sedml.privacy.utility import Floats, Utility, VoteSample, labelled, wins_with

COSTS = 72
"""How many values of x are tried."""
LEAST_RIGHT = 0.5
"""Right labels; a budget that buys fewer is too small for anything."""
MARGINS = (0.03, 0.06, 0.12, 0.25, 0.5)
"""Parts of the way from the accuracy asked for to 1, to search for so much more: rounding must not end below it."""

_SAMPLE, _BY_ZCDP = 1.2804, 2.0
_LARGEST = math.sqrt(2.0) * LARGEST_SIGMA
_SMALL = 10.0  # up to this sigma, a full account takes no time
# Beyond, that cost rises with g α / one server's σ, at order α, from the figure above to zCDP's.
_RATIOS = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0])
_RISES = np.array([1.0, 1.008, 1.035, 1.086, 1.164, 1.316, 1.444, _BY_ZCDP / _SAMPLE])
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

    most_votes: int
    least_threshold: int
    moves: int
    """Votes on a sample that one unit moves."""
    log_sigmas: Floats
    answered: Floats
    right: Floats
    floor: float


@dataclass(frozen=True)
class Budget:
    """What a plan must stay within: an epsilon for a unit that moves so many votes on a sample."""

    epsilon: float
    delta: float
    classes: int
    moves: int

    @property
    def rho(self) -> float:
        """What a ledger with this budget allows, less what it loses by rounding."""
        return _rho(self.epsilon, self.delta)

    @property
    def order(self) -> float:
        """At which it charges."""
        return best_order(self.epsilon, self.delta, SAMPLER_SHARE)

    def charged(self, asked: int, sigma: float) -> float:
        """What it charges a job, as rho."""
        return job_charge(asked, self.classes, sigma, self.order, self.moves).rho


@lru_cache(maxsize=256)
def _rho(epsilon: float, delta: float) -> float:
    return zcdp_rho(epsilon, (1.0 - SAMPLER_SHARE) * delta) * (1.0 - 1e-9)


def make_search(votes: VoteSample, moves: int, min_accuracy: float, sigmas: int = _SIGMAS) -> Search:
    """Tabulate what every sigma, of so many, and every threshold brings."""
    tried = np.geomspace(max(_LEAST_SIGMA, 0.01 * votes.most_votes), 8.0 * votes.most_votes, sigmas)
    tables = [_tabulate(votes, sigma) for sigma in tried.tolist()]
    answered, right = (np.array(table) for table in zip(*tables, strict=True))
    floor = accuracy_floor(min_accuracy, MARGINS[0])
    return Search(votes.most_votes, votes.least_threshold, moves, np.log(tried), answered, right, floor)


def _tabulate(votes: VoteSample, sigma: float) -> tuple[Floats, Floats]:
    """The shares of samples with a label and with the right one, for every place."""
    thresholds = _thresholds(votes.least_threshold, votes.most_votes, sigma, _PLACES)
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


def _thresholds(least: int, most: int, sigma: float, number: int) -> Floats:
    """From the lowest to beyond all votes, as noise may lift a count above them."""
    return np.linspace(least, max(least, most) + _ABOVE * sigma, number)


def accuracy_floor(min_accuracy: float, margin: float) -> float:
    """The accuracy to search for: so much of the way to 1 above the one asked for."""
    return min_accuracy + margin * (1.0 - min_accuracy)


def costs(search: Search) -> list[float]:
    """The values of x to try."""
    K, g = search.most_votes, search.moves
    tried: list[float] = np.geomspace(max(0.5, 1e-4 * K**2) / g**2, 16.0 * K**2 / g**2, COSTS).tolist()
    return tried


def best_terms(search: Search, x: float) -> Candidate:
    """The best terms at a rho of 1/x per sample; `right` is 0 where none reach the floor."""
    sigma = max(_LEAST_SIGMA, search.moves * math.sqrt(_SAMPLE * x))
    if sigma > _LARGEST:
        sigma = search.moves * math.sqrt(_BY_ZCDP * x)
    grid = _thresholds(search.least_threshold, search.most_votes, sigma, _PLACES)
    T = np.unique(np.rint(np.linspace(grid[0], grid[-1], _THRESHOLDS)))
    answered, right = (np.interp(T, grid, _at(search, table, sigma)) for table in (search.answered, search.right))
    within = (right >= search.floor * answered) & (sigma <= MAX_SIGMA)
    best = int(np.where(within, right, 0.0).argmax())
    if not within[best]:
        return Candidate(x, 0, 0.0, 0.0, 0.0)
    return Candidate(x, int(T[best]), sigma, float(answered[best]), float(right[best]))


def _at(search: Search, table: Floats, sigma: float) -> Floats:
    """Shape (places,), by interpolation."""
    number = search.log_sigmas.size
    at = float(np.interp(math.log(sigma), search.log_sigmas, np.arange(number)))
    low = min(int(at), number - 2)
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


def affordable(search: Search, frontier: Sequence[Candidate], budget: Budget, samples: int) -> tuple[float, Option]:
    """How far the costs of the search are off at this budget, and what it buys."""
    asked, candidate = first = buy(search, frontier, budget.rho, samples)
    if not candidate.right or candidate.sigma > _LARGEST:
        return 1.0, first
    if candidate.sigma > _SMALL:
        off = float(np.interp(budget.moves * budget.order / server_sigma(candidate.sigma), _RATIOS, _RISES))
    else:
        off = budget.charged(asked, candidate.sigma) * candidate.x / asked
    return off, buy(search, frontier, budget.rho / off, samples)


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
