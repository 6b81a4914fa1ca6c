"""What other numbers of organisations, of their votes, or another epsilon would bring: a rough search for each.

Votes of one organisation are as many votes for the requester and as little noise, where it is a patient that is
protected, who moves one of them; where it is the organisation, whose votes all move, more votes of it take as much
more noise and bring nothing. More organisations always help.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import count

from sedml import Progress, silent
from sedml.privacy.conversion import zcdp_epsilon
from sedml.privacy.plan_search import (
    LEAST_RIGHT,
    Budget,
    Candidate,
    Option,
    Search,
    affordable,
    best_terms,
    bought,
    costs,
    make_search,
    refine,
    scaled,
)
from sedml.privacy.unit import MAX_VOTES, NO_PROTECTION, ORGANISATION, Unit
from sedml.privacy.utility import Utility, VoteSample

ALTERNATIVES = 4
"""How many numbers of organisations and votes are looked at beside a plan's, at most."""

_FEW = 50
"""Right labels that somebody would want at least."""

_SIGMAS = 24
_MOST_VOTES = 65_536  # of all organisations, where somebody wants to know how many would do
_CLOSE = 1.1  # near enough to the least number that would do
_TRIED = 20  # numbers of votes, at most, as far as anybody sees
_ROUNDED = 1.03  # what a rough search may be off
_NOTHING = Candidate(1.0, 0, 1.0, 0.0, 0.0)


@dataclass(frozen=True)
class Alternative:
    """What so many organisations with so many votes each would bring, at the same epsilon; about."""

    teachers: int
    votes: int
    expected: Utility
    epsilon_organisation: float
    """For an organisation with all its votes."""


def alternatives(
    votes: VoteSample,
    unit: Unit,
    budget: Budget,
    samples: int,
    min_accuracy: float,
    progress: Progress = silent,
) -> Iterator[Alternative]:
    """Twice the votes of each, half as many organisations more, twice as many, and one vote of each."""
    teachers, each = votes.teachers, votes.votes
    numbers = [
        (teachers, 1),
        (teachers, min(2 * each, MAX_VOTES)),
        (math.ceil(1.5 * teachers), each),
        (2 * teachers, each),
    ]
    for done, (many, own) in enumerate(numbers, 1):
        if (many, own) != (teachers, each):
            moved = replace(budget, moves=replace(unit, votes=own).moves)
            asked, terms = _roughly(votes.again(many, own), moved, samples, min_accuracy)
            whole = asked / terms.x * (own / moved.moves) ** 2
            spent = zcdp_epsilon(whole, budget.delta) if asked else 0.0
            yield Alternative(many, own, scaled(budget.epsilon, asked, terms), spent)
        progress("what more would bring", done, ALTERNATIVES)


def what_would_do(
    votes: VoteSample, unit: Unit, budget: Budget, samples: int, min_accuracy: float, progress: Progress = silent
) -> str:
    """How many organisations, how many votes of each, or which epsilon would buy right labels, in sentences."""
    # Whoever protects organisations gains nothing by more votes of each.
    each = votes.votes if unit.name != ORGANISATION else 1
    budget = replace(budget, moves=unit.spread)
    teachers, several, tried = votes.teachers, 0, count(1)

    @cache
    def right(number: int) -> float:
        progress("what would do", min(next(tried), _TRIED), _TRIED)
        return bought(_roughly(votes.again(number, 1), budget, samples, min_accuracy))

    told = []
    wanted = [("A first correct label takes", LEAST_RIGHT), (f"{_FEW} correct labels take", float(_FEW))]
    for what, target in wanted if samples > 2 * _FEW else wanted[:1]:
        found = []
        number = _least(right, target, teachers * each, _MOST_VOTES)
        if number is not None:
            own = "one vote" if each == 1 else f"{each} votes"
            found.append(f"about {-(-number // each):,} organisations with {own} each")
        if number is not None and each < -(-number // teachers) <= MAX_VOTES:
            several = -(-number // teachers)
            found.append(f"{teachers:,} with about {several} votes each")
        epsilon = _epsilon(votes.again(teachers, each), budget, samples, min_accuracy, target)
        found += [] if epsilon is None else [f"an epsilon of about {epsilon:.3g}"]
        told += [f"{what} {', or '.join(found)}."] if found else []
    if several:
        more = "An organisation has several votes if it trains a model on each of several disjoint parts of its data"
        whom = f"; epsilon then protects each patient or customer (unit patient, {several} votes)"
        told.append(f"{more}{whom if unit.name == ORGANISATION else ''}.")
    return " ".join(told) or "Offer more samples, ask for a lower accuracy, or for better votes."


def _roughly(votes: VoteSample, budget: Budget, samples: int, min_accuracy: float) -> Option:
    """What the budget buys, within a few percent."""
    search = make_search(votes, budget.moves, min_accuracy, _SIGMAS)
    frontier = _frontier(search)
    if not frontier:
        return 0, _NOTHING
    off, first = affordable(search, frontier, budget, samples)
    best = refine(search, budget.rho / off, 1, samples, first)
    return best if bought(best) >= LEAST_RIGHT else (0, _NOTHING)


def _frontier(search: Search) -> list[Candidate]:
    return [found for found in (best_terms(search, x) for x in costs(search)) if found.right]


def _epsilon(votes: VoteSample, budget: Budget, samples: int, min_accuracy: float, target: float) -> float | None:
    search = make_search(votes, budget.moves, min_accuracy, _SIGMAS)
    frontier = _frontier(search)

    def right(percent: int) -> float:
        at = replace(budget, epsilon=budget.epsilon * percent / 100)
        return bought(affordable(search, frontier, at, samples)[1])

    most = int(100 * NO_PROTECTION / budget.epsilon)
    percent = _least(right, target, 100, most) if frontier and most > 100 else None
    return None if percent is None else budget.epsilon * percent / 100


def _least(right: Callable[[int], float], target: float, known: int, most: int) -> int | None:
    """About the first number above `known` that brings as much, of two digits; None if even `most` does not."""
    low, high = known, min(2 * known, most)
    while right(high) < target:
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high > max(low + 1, _CLOSE * low):
        middle = max(low + 1, math.isqrt(low * high))
        low, high = (low, middle) if right(middle) >= target else (middle, high)
    return min(most, int(_up(_ROUNDED * high))) if high > low else None


def _up(value: float) -> float:
    """Two digits, rounded up."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{max(unit, 1e-9) * math.ceil(value / unit * (1.0 - 1e-12)):.6g}")
