"""Before a job: which noise and threshold a budget allows, and how many samples are worth asking.

**What is maximised.** The expected number of right labels, with epsilon (`PrivacyReport.epsilon`, the claim, for each
unit) within the budget and an expected share of right ones among the labels of at least `min_accuracy`. Of plans that
come within about 1% of it, the one that asks the fewest samples; the budget is not used up where that would bring
nothing. The threshold is above the votes of any one organisation: a consensus takes several.

**What for.** "labels" wants many: nine of ten right. "student" wants clean ones, 97 of 100: a student that also learns
from samples without a label spreads each label over all samples of its kind, a wrong one too
(docs/explanation/learning.md has what was measured). Either is a rule fixed beforehand: a plan looks at nothing
private.

**What is assumed about the teachers** is in `sedml.privacy.utility`.

**The search** itself is in `sedml.privacy.plan_search`; what other numbers of organisations and of their votes would
bring, in `sedml.privacy.plan_alternatives`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import numpy as np

from sedml import Progress, silent
from sedml.errors import PrivacyError, TaskError
from sedml.privacy.accounting import PrivacyReport, job_epsilon, job_report
from sedml.privacy.charging import MOST_EPSILON
from sedml.privacy.noise import MAX_SIGMA
from sedml.privacy.plan_alternatives import Alternative, alternatives, what_would_do
from sedml.privacy.plan_search import (
    COSTS,
    LEAST_RIGHT,
    MARGINS,
    Budget,
    Candidate,
    Search,
    accuracy_floor,
    affordable,
    best_terms,
    bought,
    buy,
    costs,
    make_search,
    refine,
    scaled,
)
from sedml.privacy.terms_checks import check_asked_terms
from sedml.privacy.unit import ORGANISATION, Unit
from sedml.privacy.utility import Utility, VoteSample, check_range, utility

Objective: TypeAlias = Literal["labels", "student"]

MIN_ACCURACY: Mapping[Objective, float] = MappingProxyType({"labels": 0.9, "student": 0.97})
"""The share of the labels that must be right, by what they are for."""

_CURVE = 20  # budgets on the curve
_STEPS = COSTS + _CURVE
_MULTIPLES = (0.125, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0)
_MOST = 10**12


@dataclass(frozen=True)
class Plan:
    """The terms to use, what they bring and cost, and what other budgets and numbers of samples would bring."""

    source: str
    epsilon: float
    delta: float
    samples: int
    teachers: int
    """Organisations; `privacy.unit` says how many votes each has, and whom epsilon protects."""
    classes: int
    min_accuracy: float
    chosen: Utility
    privacy: PrivacyReport = field(repr=False)
    """What it costs."""
    by_epsilon: tuple[Utility, ...] = field(repr=False)
    """What budgets up to twice the one that the plan uses would bring, where they buy any labels."""
    by_asked: tuple[Utility, ...] = field(repr=False)
    """The alternatives at the same budget, the plan among them; none answered where accuracy cannot be had."""
    by_votes: tuple[Alternative, ...] = field(default=(), repr=False)
    """What other numbers of organisations and votes would bring, if that was asked for."""
    least_threshold: int = 2
    """The lowest threshold that more than one organisation must reach."""

    @property
    def most_votes(self) -> int:
        """The votes of all organisations on a sample."""
        return self.teachers * self.privacy.unit.votes


def plan_job(
    votes: VoteSample,
    *,
    epsilon: float,
    delta: float,
    samples: int,
    unit: str = ORGANISATION,
    spread: int = 1,
    objective: Objective = "labels",
    min_accuracy: float | None = None,
    more: bool = False,
    progress: Progress = silent,
) -> Plan:
    """The terms that label most samples right within the budget; if it buys none, the error says what would do.

    unit: whom epsilon protects, an "organisation" with all its votes, or one of those whose data it holds, such as a
    "patient", which is in at most `spread` of its parts. Without a `min_accuracy` it is that of the objective. more:
    say too what more votes or more organisations would bring.
    """
    if objective not in get_args(Objective):
        raise TaskError(f'"{objective}" is not something to plan for.', 'Use "labels" or "student".')
    min_accuracy = MIN_ACCURACY[objective] if min_accuracy is None else min_accuracy
    protected = Unit(unit, votes.votes, spread)
    check_asked_terms(teachers=votes.teachers, samples=samples, epsilon=epsilon, delta=delta)
    check_range(samples=(samples, 1, _MOST))
    if epsilon > MOST_EPSILON:
        raise TaskError(f"A budget of epsilon {epsilon:g} was given.", f"Use a number up to {MOST_EPSILON:g}.")
    if not 0.0 < min_accuracy < 1.0:
        raise TaskError(f"A minimum accuracy of {min_accuracy} was given.", "Use a number above 0 and below 1.")
    budget = Budget(epsilon, delta, votes.classes, protected.moves)
    rho, search = budget.rho, make_search(votes, protected.moves, min_accuracy)
    frontier: list[Candidate] = []
    for done, x in enumerate(costs(search), 1):
        candidate = best_terms(search, x)
        frontier += [candidate] if candidate.right else []
        progress("planning", done, _STEPS)
    if not frontier:
        raise _unreachable(search, min_accuracy)
    off, first = affordable(search, frontier, budget, samples)
    for margin in MARGINS if bought(first) >= LEAST_RIGHT else ():
        stricter = replace(search, floor=accuracy_floor(min_accuracy, margin))
        asked, candidate = refine(stricter, rho / off, 1, samples, first)
        chosen, privacy = _settle(votes, protected, asked, candidate, budget, off, min_accuracy)
        if chosen.accuracy >= min_accuracy:
            break
    else:
        raise PrivacyError(
            f"{_counted(votes)} buy not one correct label at epsilon {epsilon:g} and delta {delta:g}, "
            f"where {min_accuracy:.1%} of the labels must be correct.",
            what_would_do(votes, protected, budget, samples, min_accuracy, progress),
        )

    by_epsilon: list[Utility] = []
    for done, other in enumerate((2.0 * chosen.epsilon * np.arange(1, _CURVE + 1) / _CURVE).tolist(), 1):
        at = replace(budget, epsilon=other).rho / off
        by_epsilon.append(scaled(other, *refine(search, at, 1, samples, buy(search, frontier, at, samples))))
        progress("planning", COSTS + done, _STEPS)
    multiples = (round(asked * factor) for factor in _MULTIPLES)
    numbers = sorted({samples, *(q for q in multiples if 1 <= q <= samples)} - {asked})
    by_asked = [
        scaled(epsilon, *refine(search, rho / off, q, q, (q, best_terms(search, q * off / rho)))) for q in numbers
    ]
    by_votes = alternatives(votes, protected, budget, samples, min_accuracy, progress) if more else ()
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
        by_votes=tuple(by_votes),
        least_threshold=votes.least_threshold,
    )


def _settle(
    votes: VoteSample,
    unit: Unit,
    asked: int,
    candidate: Candidate,
    budget: Budget,
    off: float,
    min_accuracy: float,
) -> tuple[Utility, PrivacyReport]:
    """A sigma of four digits at which a ledger accepts the job, and its epsilon is within the budget."""
    rho = min(budget.rho, off * asked / candidate.x)
    sigma = candidate.sigma * math.sqrt(off * asked / (candidate.x * rho))
    for step in range(100):
        sigma = min(MAX_SIGMA, _four_digits(sigma))
        charged = budget.charged(asked, sigma)
        if charged > budget.rho or (not step and charged < 0.999 * rho):
            sigma *= math.sqrt(charged / rho)
            continue
        epsilon = job_epsilon(asked, sigma, budget.delta, classes=votes.classes, moves=unit.moves)
        if epsilon <= budget.epsilon:
            privacy = job_report(asked, sigma, budget.delta, classes=votes.classes, unit=unit)
            return _lowest(votes, asked, candidate.threshold, sigma, epsilon, min_accuracy), privacy
        if epsilon == math.inf:
            break
        sigma *= 1.0005 * epsilon / budget.epsilon
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
    least = votes.least_threshold
    low, high = (least - 1, threshold) if enough else (threshold, threshold + max(2, votes.most_votes // 4))
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


def _unreachable(search: Search, min_accuracy: float) -> TaskError:
    often = search.answered >= 0.01
    most = float((search.right[often] / search.answered[often]).max()) if often.any() else 0.0
    return TaskError(
        f"No threshold makes {min_accuracy:.1%} of these teachers' labels correct, even with hardly any noise.",
        f"Ask for less than {most:.1%}, for more votes, or for better ones.",
    )


def _counted(votes: VoteSample) -> str:
    if votes.votes == 1:
        return f"{votes.teachers:,} votes" if votes.teachers > 1 else "The one vote"
    return f"{votes.most_votes:,} votes of {votes.teachers:,} organisation{'s' if votes.teachers > 1 else ''}"
