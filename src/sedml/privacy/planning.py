"""Before a job: which noise and threshold a budget allows, and how many samples are worth asking.

**What is maximised.** The expected number of right labels, with epsilon (`PrivacyReport.epsilon`, the
claim) within the budget and an expected share of right ones among the labels of at least `min_accuracy`. Of
plans that come within about 1 % of it, the one that asks the fewest samples; the budget is not used up
where that would bring nothing.

**What for.** "labels" wants many: nine of ten right. "student" wants clean ones, 97 of 100: a student that also learns
from samples without a label spreads each label over all samples of its kind, a wrong one too (docs/learning.md has what
was measured). Either is a rule fixed beforehand: a plan looks at nothing private.

**What is assumed about the teachers** is in `sedml.privacy.utility`.

**The search** itself is in `sedml.privacy.plan_search`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import numpy as np

from sedml import Progress, silent
from sedml.errors import PrivacyError, TaskError
from sedml.privacy.accounting import PrivacyReport, job_report
from sedml.privacy.charging import SAMPLER_SHARE, best_order, job_charge
from sedml.privacy.conversion import zcdp_rho
from sedml.privacy.noise import MAX_SIGMA
from sedml.privacy.plan_search import (
    COSTS,
    LEAST_THRESHOLD,
    MARGINS,
    Candidate,
    Option,
    Search,
    accuracy_floor,
    best_terms,
    bought,
    buy,
    make_search,
    refine,
    scaled,
)
from sedml.privacy.terms_checks import check_asked_terms
from sedml.privacy.utility import Utility, VoteSample, check_range, utility

__all__ = ["MIN_ACCURACY", "Objective", "Plan", "plan_job"]

Objective: TypeAlias = Literal["labels", "student"]

MIN_ACCURACY: Mapping[Objective, float] = MappingProxyType({"labels": 0.9, "student": 0.97})
"""The share of the labels that must be right, by what they are for."""

_CURVE = 20  # budgets on the curve
_STEPS = COSTS + _CURVE
_MULTIPLES = (0.125, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0)
_MOST_EPSILON = 1000.0
_MOST = 10**12
_LEAST = 0.5  # right labels; a budget that buys fewer is too small for anything


@dataclass(frozen=True)
class Plan:
    """The terms to use, what they bring and cost, and what other budgets and numbers of samples would bring."""

    source: str
    epsilon: float
    delta: float
    samples: int
    teachers: int
    classes: int
    min_accuracy: float
    chosen: Utility
    privacy: PrivacyReport = field(repr=False)
    """What it costs."""
    by_epsilon: tuple[Utility, ...] = field(repr=False)
    """What budgets up to twice the one that the plan uses would bring, where they buy any labels."""
    by_asked: tuple[Utility, ...] = field(repr=False)
    """The alternatives at the same budget, the plan among them; none answered where accuracy cannot be had."""


@dataclass(frozen=True)
class _Budget:
    """What a plan must stay within."""

    epsilon: float
    delta: float
    classes: int


def plan_job(
    votes: VoteSample,
    *,
    epsilon: float,
    delta: float,
    samples: int,
    objective: Objective = "labels",
    min_accuracy: float | None = None,
    progress: Progress = silent,
) -> Plan:
    """The terms that label most samples right within the budget; raises if it buys no label at all.

    Without a `min_accuracy` it is that of the objective.
    """
    if objective not in get_args(Objective):
        raise TaskError(f'"{objective}" is not something to plan for.', 'Use "labels" or "student".')
    min_accuracy = MIN_ACCURACY[objective] if min_accuracy is None else min_accuracy
    check_asked_terms(teachers=votes.teachers, samples=samples, epsilon=epsilon, delta=delta)
    check_range(samples=(samples, 1, _MOST))
    if epsilon > _MOST_EPSILON:
        raise TaskError(f"A budget of epsilon {epsilon:g} was given.", f"Use a number up to {_MOST_EPSILON:g}.")
    if not 0.0 < min_accuracy < 1.0:
        raise TaskError(f"A minimum accuracy of {min_accuracy} was given.", "Use a number above 0 and below 1.")
    K, search = votes.teachers, make_search(votes, min_accuracy)
    frontier: list[Candidate] = []
    for done, x in enumerate(np.geomspace(max(0.5, 1e-4 * K**2), 16.0 * K**2, COSTS).tolist(), 1):
        candidate = best_terms(search, x)
        frontier += [candidate] if candidate.right else []
        progress("planning", done, _STEPS)
    if not frontier:
        raise _unreachable(search, min_accuracy)

    budget = _Budget(epsilon, delta, votes.classes)
    rho = _rho(epsilon, delta)
    off, first = _first(search, frontier, budget, samples)
    if bought(first) < _LEAST:
        raise _too_small(search, frontier, budget, samples)
    for margin in MARGINS:
        stricter = replace(search, floor=accuracy_floor(min_accuracy, margin))
        asked, candidate = refine(stricter, rho / off, 1, samples, first)
        chosen, privacy = _settle(votes, asked, candidate, budget, min(rho, off * asked / candidate.x), min_accuracy)
        if chosen.accuracy >= min_accuracy:
            break

    by_epsilon: list[Utility] = []
    for done, other in enumerate((2.0 * chosen.epsilon * np.arange(1, _CURVE + 1) / _CURVE).tolist(), 1):
        at = _rho(other, delta) / off
        by_epsilon.append(scaled(other, *refine(search, at, 1, samples, buy(search, frontier, at, samples))))
        progress("planning", COSTS + done, _STEPS)
    multiples = (round(asked * factor) for factor in _MULTIPLES)
    numbers = sorted({samples, *(q for q in multiples if 1 <= q <= samples)} - {asked})
    by_asked = [
        scaled(epsilon, *refine(search, rho / off, q, q, (q, best_terms(search, q * off / rho)))) for q in numbers
    ]
    return Plan(
        source=votes.source,
        epsilon=epsilon,
        delta=delta,
        samples=samples,
        teachers=votes.teachers,
        classes=votes.classes,
        min_accuracy=min_accuracy,
        chosen=chosen,
        privacy=privacy,
        by_epsilon=tuple(point for point in by_epsilon if point.right),
        by_asked=tuple(sorted([chosen, *by_asked], key=lambda point: point.asked)),
    )


def _first(search: Search, frontier: Sequence[Candidate], budget: _Budget, samples: int) -> tuple[float, Option]:
    """How far the costs of the search are off at this budget, and what it buys."""
    rho = _rho(budget.epsilon, budget.delta)
    asked, candidate = buy(search, frontier, rho, samples)
    off = _charged(asked, candidate, budget) * candidate.x / asked if candidate.right else 1.0
    return off, buy(search, frontier, rho / off, samples)


def _charged(asked: int, candidate: Candidate, budget: _Budget) -> float:
    """What a ledger with this budget charges a job, as rho."""
    order = best_order(budget.epsilon, budget.delta, SAMPLER_SHARE)
    return job_charge(asked, budget.classes, candidate.sigma, order).rho


def _settle(
    votes: VoteSample, asked: int, candidate: Candidate, budget: _Budget, rho: float, min_accuracy: float
) -> tuple[Utility, PrivacyReport]:
    """A sigma of four digits, so scaled that the job is charged at most rho, and its epsilon is within the budget."""
    scale = math.sqrt(_charged(asked, candidate, budget) / rho)
    for step in range(100):
        raised = scale * (1.0 + 0.0005 * step**1.5)
        sigma = min(MAX_SIGMA, _four_digits(candidate.sigma * raised))
        if _charged(asked, replace(candidate, sigma=sigma), budget) > _rho(budget.epsilon, budget.delta):
            continue
        privacy = job_report(asked, sigma, budget.delta, classes=votes.classes)
        if privacy.epsilon <= budget.epsilon:
            return _lowest(votes, asked, candidate.threshold, sigma, privacy.epsilon, min_accuracy), privacy
        if privacy.epsilon == math.inf:
            break
    raise PrivacyError(
        f"No noise keeps {asked} samples within epsilon {budget.epsilon:g} at delta {budget.delta:g}.",
        "Use a larger delta: the sampler's own part of it does not shrink with more noise.",
    )


def _lowest(
    votes: VoteSample, asked: int, threshold: int, sigma: float, epsilon: float, min_accuracy: float
) -> Utility:
    """At the lowest threshold close by that makes enough labels right; at this one if none does."""

    def at(T: int) -> Utility:
        return utility(votes, asked, T, sigma, epsilon)

    first, stride = at(threshold), 1
    enough = first.accuracy >= min_accuracy
    low, high = (LEAST_THRESHOLD - 1, threshold) if enough else (threshold, threshold + max(2, votes.teachers // 4))
    if not enough and at(high).accuracy < min_accuracy:
        return first
    while enough and high - stride > low:
        if at(high - stride).accuracy < min_accuracy:
            low = high - stride
            break
        high, stride = high - stride, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if at(middle).accuracy >= min_accuracy else (middle, high)
    return at(high)


def _four_digits(value: float) -> float:
    """Rounded up."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / unit) * unit:.6g}")


@lru_cache(maxsize=256)
def _rho(epsilon: float, delta: float) -> float:
    """The rho that a ledger with a budget of (epsilon, delta) allows, less what it loses by rounding."""
    return zcdp_rho(epsilon, (1.0 - SAMPLER_SHARE) * delta) * (1.0 - 1e-9)


def _unreachable(search: Search, min_accuracy: float) -> TaskError:
    often = search.answered >= 0.01
    most = float((search.right[often] / search.answered[often]).max()) if often.any() else 0.0
    return TaskError(
        f"No threshold makes {min_accuracy:.1%} of these teachers' labels right, even with hardly any noise.",
        f"Ask for less than {most:.1%}, or for better teachers.",
    )


def _too_small(search: Search, frontier: Sequence[Candidate], budget: _Budget, samples: int) -> PrivacyError:
    def short(epsilon: float) -> bool:
        return bought(_first(search, frontier, replace(budget, epsilon=epsilon), samples)[1]) < _LEAST

    low, high = budget.epsilon, 2.0 * budget.epsilon
    while short(high) and high < _MOST_EPSILON:
        low, high = high, 2.0 * high
    if short(high):
        more = "Offer more samples or more teachers, or ask for a lower accuracy."
        return PrivacyError(f"No budget buys a single right label of {samples:,} samples.", more)
    for _ in range(10):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if short(middle) else (low, middle)
    return PrivacyError(
        f"A budget of epsilon {budget.epsilon:g} at delta {budget.delta:g} does not buy a single right label.",
        f"It takes an epsilon of about {_four_digits(1.02 * high):.2g}, more teachers, or a lower accuracy.",
    )
