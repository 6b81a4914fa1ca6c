"""Before a job: which noise and threshold a budget allows, and how many samples are worth asking.

**What is maximised.** The expected number of right labels, with the requester's epsilon (`View.epsilon`, the
claim) within the budget and an expected share of right ones among the labels of at least `min_accuracy`. Of
plans that come within about 1 % of it, the one that asks the fewest samples; the budget is not used up
where that would bring nothing.

**What is charged.** "reserved": every sample asked is answered, as a ledger reserves before the job; true
whatever happens. "expected": the expected number of answers, as a ledger charges once jobs settle; the
reservation is then above the budget, so ask in several jobs that each fit into what is left.

**What is assumed of the teachers** stands in `sedml.privacy.utility`.

**The search.** A budget of rho over q samples leaves each one rho/q = 1/x. With a part s of that for the check,
sigma1 = √(x/2s) and sigma2 = √(x·a/(1-s)), a the share charged as answered. So a plan is (x, s, T), and what
x brings per sample is found once for all budgets and numbers of samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import numpy as np

from sedml import Progress, silent
from sedml.errors import PrivacyError, TaskError
from sedml.privacy.accounting import PrivacyReport, job_report
from sedml.privacy.conversion import check_delta, zcdp_epsilon
from sedml.privacy.noise import MAX_SIGMA, NoiseSource, server_sigma
from sedml.privacy.utility import Floats, Utility, VoteSample, check_range, labelled_right, ndtr, utility

__all__ = [
    "MIN_ACCURACY",
    "STEPS",
    "Charged",
    "Plan",
    "plan_job",
]

Charged: TypeAlias = Literal["reserved", "expected"]

MIN_ACCURACY = 0.9

_SPLITS = 1.0 / (1.0 + np.exp(np.linspace(5.0, -1.0, 16)))
_LEVELS = 1024  # of highest counts that are told apart
_COSTS = 72
_SIGMAS = 80
_THRESHOLDS = 48
_CURVE = 20
STEPS = _COSTS + _CURVE
"""How often `plan_job` calls `progress`."""
_MULTIPLES = (0.125, 0.25, 0.5, 0.75, 1.25, 1.5, 2.0, 4.0)
_MARGINS = (1e-3, 2e-3, 4e-3, 8e-3)  # above the accuracy asked for, so that rounding does not end below it
_MOST_EPSILON = 1000.0
_MOST = 10**12
_LEAST_SIGMA = 1.0  # less noise would hardly be any
_KEPT = 63 / 64  # of delta; a ledger sets the rest aside for the sampler
_WORTH = 0.99  # of the most right labels that can be had, for fewer samples asked
_ENOUGH = 0.999  # of the same, for less of the budget
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
    noise: NoiseSource
    charged: Charged
    min_accuracy: float
    chosen: Utility
    reserved: PrivacyReport
    """Every sample asked is answered: the most the job can cost."""
    expected: PrivacyReport
    """As many are answered as expected, rounded up."""
    by_epsilon: tuple[Utility, ...]
    """Of budgets up to twice what the plan uses, those that buy any labels."""
    by_asked: tuple[Utility, ...]
    """At the same budget, the plan among them; nothing answered where the accuracy cannot be had."""


@dataclass(frozen=True)
class _Choice:
    """Terms at a cost of 1/x of rho a sample; `answered` and `right` are shares of the samples."""

    x: float
    split: float
    threshold: int
    sigma1: float
    sigma2: float
    answered: float
    right: float


_Option: TypeAlias = tuple[int, _Choice]
"""How many samples to ask, and at which terms."""


@dataclass(frozen=True, eq=False)
class _Search:
    """The votes by their highest count; `right[i, j]` is the weight of level i that sigma j labels right."""

    teachers: int
    highest: Floats
    weights: Floats
    log_sigmas: Floats
    right: Floats
    floor: float
    charged: Charged


def plan_job(
    votes: VoteSample,
    *,
    epsilon: float,
    delta: float,
    samples: int,
    min_accuracy: float = MIN_ACCURACY,
    noise: NoiseSource = "both",
    charged: Charged = "reserved",
    progress: Progress = silent,
) -> Plan:
    """The terms that label most samples right within the budget; raises if it buys no label at all."""
    check_delta(delta)
    server_sigma(1.0, noise)
    check_range(samples=(samples, 1, _MOST))
    if not 0.0 < epsilon <= _MOST_EPSILON:
        raise TaskError(f"A budget of epsilon {epsilon} was given.", f"Use a number above 0, up to {_MOST_EPSILON:g}.")
    if not 0.0 < min_accuracy < 1.0:
        raise TaskError(f"A least accuracy of {min_accuracy} was given.", "Use a number above 0 and below 1.")
    if charged not in get_args(Charged):
        raise TaskError(f'A plan that charges what is "{charged}" was asked for.', 'Use "reserved" or "expected".')
    K, search = votes.teachers, _search(votes, min_accuracy, charged)
    frontier: list[_Choice] = []
    for done, x in enumerate(np.geomspace(max(0.5, 1e-4 * K**2), 16.0 * K**2, _COSTS).tolist(), 1):
        choice = _best(search, x)
        frontier += [choice] if choice.right else []
        progress("planning", done, STEPS)
    if not frontier:
        raise _unreachable(search, min_accuracy)

    rho = _rho(epsilon, delta)
    first = _buy(search, frontier, rho, samples)
    if _bought(first) < _LEAST:
        raise _too_small(search, frontier, epsilon, delta, samples)
    for margin in _MARGINS:
        stricter = replace(search, floor=_floor(min_accuracy, margin))
        asked, choice = _refine(stricter, rho, 1, samples, first)
        chosen, reserved, expected = _settle(votes, asked, choice, epsilon, delta, noise, charged)
        if chosen.accuracy >= min_accuracy:
            break

    by_epsilon: list[Utility] = []
    for done, budget in enumerate((2.0 * chosen.epsilon * np.arange(1, _CURVE + 1) / _CURVE).tolist(), 1):
        at = _rho(budget, delta)
        by_epsilon.append(_scaled(budget, *_refine(search, at, 1, samples, _buy(search, frontier, at, samples))))
        progress("planning", _COSTS + done, STEPS)
    multiples = (round(asked * factor) for factor in _MULTIPLES)
    numbers = sorted({samples, *(q for q in multiples if 1 <= q <= samples)} - {asked})
    by_asked = [_scaled(epsilon, *_refine(search, rho, q, q, (q, _best(search, q / rho)))) for q in numbers]
    return Plan(
        source=votes.source,
        epsilon=epsilon,
        delta=delta,
        samples=samples,
        teachers=votes.teachers,
        classes=votes.classes,
        noise=noise,
        charged=charged,
        min_accuracy=min_accuracy,
        chosen=chosen,
        reserved=reserved,
        expected=expected,
        by_epsilon=tuple(point for point in by_epsilon if point.right),
        by_asked=tuple(sorted([chosen, *by_asked], key=lambda point: point.asked)),
    )


def _search(votes: VoteSample, min_accuracy: float, charged: Charged) -> _Search:
    _, index = np.unique(np.rint(votes.highest * min(1.0, _LEVELS / votes.teachers)), return_inverse=True)
    weights: Floats = np.bincount(index, votes.weights).astype(np.float64)
    highest = np.bincount(index, votes.weights * votes.highest) / weights
    sigmas = np.geomspace(_LEAST_SIGMA, 16.0 * votes.teachers, _SIGMAS)
    right = [np.bincount(index, votes.weights * labelled_right(votes, sigma)) for sigma in sigmas.tolist()]
    floor = _floor(min_accuracy, _MARGINS[0])
    return _Search(votes.teachers, highest, weights, np.log(sigmas), np.column_stack(right), floor, charged)


def _floor(min_accuracy: float, margin: float) -> float:
    return min_accuracy + min(margin, 0.1 * (1.0 - min_accuracy))


def _best(search: _Search, x: float, splits: Floats = _SPLITS, thresholds: Floats | None = None) -> _Choice:
    """The best terms at a rho of 1/x a sample, with `right` 0 if none reach the floor."""
    best = _Choice(x, 0.0, 0, 0.0, 0.0, 0.0, 0.0)
    for split in splits.tolist():
        sigma1 = max(_LEAST_SIGMA, math.sqrt(x / (2.0 * split)))
        T = _grid(search.teachers, sigma1) if thresholds is None else thresholds
        passed = ndtr((search.highest[:, np.newaxis] - T + 0.5) / sigma1)
        answered = search.weights @ passed
        paid = answered if search.charged == "expected" else np.ones(T.size)
        sigma2 = np.maximum(_LEAST_SIGMA, np.sqrt(x * paid / (1.0 - split)))
        right = (_right_at(search, sigma2) * passed).sum(axis=0)
        within = (right >= search.floor * answered) & (np.maximum(sigma1, sigma2) <= MAX_SIGMA)
        allowed = np.where(within, right, 0.0)
        if allowed.max() > best.right:
            i = int(allowed.argmax())
            best = _Choice(x, split, int(T[i]), sigma1, float(sigma2[i]), float(answered[i]), float(right[i]))
    return best


def _grid(teachers: int, sigma1: float) -> Floats:
    """Thresholds to try: up to and beyond all votes, as noise may lift a count above them."""
    return np.unique(np.rint(np.linspace(1.0, min(4.0 * teachers, teachers + 1.5 * sigma1), _THRESHOLDS)))


def _right_at(search: _Search, sigma2: Floats) -> Floats:
    """Shape (levels, sigmas), by interpolation."""
    at = np.interp(np.log(sigma2), search.log_sigmas, np.arange(_SIGMAS))
    low = np.minimum(at.astype(np.int64), _SIGMAS - 2)
    part = at - low
    between: Floats = search.right[:, low] * (1.0 - part) + search.right[:, low + 1] * part
    return between


def _bought(option: _Option) -> float:
    return option[0] * option[1].right


def _buy(search: _Search, frontier: Sequence[_Choice], rho: float, samples: int) -> _Option:
    """How many of the samples are worth asking, and at which terms."""
    options = [(min(samples, int(rho * choice.x)), choice) for choice in frontier if rho * choice.x >= 1.0]
    options.append((samples, _best(search, samples / rho)))
    worth = _WORTH * max(map(_bought, options))
    fewest = min(asked for asked, choice in options if asked * choice.right >= worth)
    alike = [option for option in options if option[0] == fewest]
    enough = _ENOUGH * max(map(_bought, alike))
    return max((option for option in alike if _bought(option) >= enough), key=lambda option: option[1].x)


def _refine(search: _Search, rho: float, least: int, most: int, start: _Option) -> _Option:
    """Better terms close by, asking `least` to `most` samples."""
    best = start
    if start[0] == most:
        rho = min(rho, most / start[1].x)  # what all samples together have a use for
    for width in (0.12, 0.06, 0.03):
        asked, choice = best
        if not choice.right:
            break
        near = np.linspace(-1.0, 1.0, 5)
        splits = 1.0 / (1.0 + (1.0 / choice.split - 1.0) * np.exp(3.0 * width * near))
        votes = choice.threshold + 0.5 * width * search.teachers * np.linspace(-1.0, 1.0, 17)
        thresholds = np.unique(np.rint(votes.clip(1.0, 4.0 * search.teachers)))
        numbers = np.unique(np.rint(asked * np.exp(width * near)).clip(least, most).astype(np.int64)).tolist()
        options = [(q, _best(search, q / rho, splits, thresholds)) for q in numbers]
        best = max([best, *options] if _allowed(search, choice) else options, key=_bought)
    return best if best[1].right else start


def _allowed(search: _Search, choice: _Choice) -> bool:
    return choice.right >= search.floor * choice.answered


def _settle(
    votes: VoteSample, asked: int, choice: _Choice, epsilon: float, delta: float, noise: NoiseSource, charged: Charged
) -> tuple[Utility, PrivacyReport, PrivacyReport]:
    """Sigmas of four digits, raised until the full account of the job is within the budget."""
    for step in range(100):
        raised = 1.0 + 0.001 * step**1.5
        sigma1, sigma2 = (min(MAX_SIGMA, _four_digits(s * raised)) for s in (choice.sigma1, choice.sigma2))
        brought = utility(votes, asked, choice.threshold, sigma1, sigma2, epsilon)
        reserved, expected = (
            job_report(asked, answered, sigma1, sigma2, delta, noise, votes.classes)
            for answered in (asked, min(asked, math.ceil(brought.answered)))
        )
        cost = (reserved if charged == "reserved" else expected).requester
        if cost.epsilon <= epsilon and cost.rho <= _rho(epsilon, delta):
            return replace(brought, epsilon=cost.epsilon), reserved, expected
        if cost.epsilon == math.inf:
            break
    raise PrivacyError(
        f"No noise keeps {asked} samples within epsilon {epsilon:g} at a delta of {delta:g}.",
        "Use a larger delta: the sampler's own part of it does not shrink with more noise.",
    )


def _four_digits(value: float) -> float:
    """Rounded up."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 3)
    return float(f"{math.ceil(value / unit) * unit:.6g}")


def _scaled(epsilon: float, asked: int, choice: _Choice) -> Utility:
    brought = asked * choice.answered, asked * choice.right
    return Utility(epsilon, asked, choice.threshold, choice.sigma1, choice.sigma2, *brought)


@lru_cache(maxsize=256)
def _rho(epsilon: float, delta: float) -> float:
    """The rho that a ledger with a budget of (epsilon, delta) allows, less what it loses by rounding."""
    low, high = 0.0, 1.0
    while zcdp_epsilon(high, _KEPT * delta) < epsilon:
        high *= 2.0
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if zcdp_epsilon(middle, _KEPT * delta) <= epsilon else (low, middle)
    return low * (1.0 - 1e-9)


def _unreachable(search: _Search, min_accuracy: float) -> TaskError:
    answered, right = (np.cumsum(part[::-1]) for part in (search.weights, search.right[:, 0]))
    most = float((right / answered)[answered >= 0.01].max())
    return TaskError(
        f"No threshold makes {min_accuracy:.1%} of these teachers' labels right, even with hardly any noise.",
        f"Ask for less than {most:.1%}, or for better teachers.",
    )


def _too_small(
    search: _Search, frontier: Sequence[_Choice], epsilon: float, delta: float, samples: int
) -> PrivacyError:
    def short(budget: float) -> bool:
        return _bought(_buy(search, frontier, _rho(budget, delta), samples)) < _LEAST

    low, high = epsilon, 2.0 * epsilon
    while short(high) and high < _MOST_EPSILON:
        low, high = high, 2.0 * high
    if short(high):
        more = "Offer more samples or more teachers, or ask for a lower accuracy."
        return PrivacyError(f"No budget buys a single right label of {samples:,} samples.", more)
    for _ in range(10):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if short(middle) else (low, middle)
    return PrivacyError(
        f"A budget of epsilon {epsilon:g} at delta {delta:g} does not buy a single right label.",
        f"It takes an epsilon of about {_four_digits(1.02 * high):.2g}, more teachers, or a lower accuracy.",
    )
