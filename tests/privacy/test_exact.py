"""The exact accountant against its definition: every histogram of a few teachers, fifty digits, whole sequences."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.privacy.accounting import job_report
from sedml.privacy.conversion import order_epsilon
from sedml.privacy.exact import SampleCost, argmax_divergence, check_divergence, label_costs, ledger_costs
from sedml.privacy.exact.check import yes_charge
from sedml.privacy.zcdp import CHECK, LABEL, noise_rho

repeatable = settings(derandomize=True, deadline=None, max_examples=40)


# ---- By definition: no tables of the accountant, no shortcuts ------------------------------------------------


@lru_cache
def law(part_sigma: float, parts: int) -> np.ndarray:
    """P[g = -n], ..., P[g = n]; two parts by convolution."""
    reach = math.ceil(30 * part_sigma) + 30
    z = np.arange(-reach, reach + 1)
    one = np.exp(-(z**2) / (2 * part_sigma**2))
    one /= one.sum()
    return one if parts == 1 else np.convolve(one, one)


def at_most(noise: np.ndarray, z: np.ndarray) -> np.ndarray:
    middle = noise.size // 2
    return np.concatenate([[0.0], noise.cumsum()])[np.clip(z + middle + 1, 0, noise.size)]


def argmax_law(counts: tuple[int, ...], noise: np.ndarray) -> np.ndarray:
    """P[label = i], ties to the smallest class."""
    middle = noise.size // 2
    x = np.arange(-middle, middle + max(counts) + 1)
    chances = []
    for i, own in enumerate(counts):
        place = x - own + middle
        term = np.where((place >= 0) & (place < noise.size), noise[np.clip(place, 0, noise.size - 1)], 0.0)
        for k, other in enumerate(counts):
            if k != i:
                term = term * at_most(noise, x - other - (k < i))
        chances.append(term.sum())
    return np.array(chances)


def passes(highest: int, threshold: int, noise: np.ndarray) -> float:
    return float(at_most(noise, np.array(highest - threshold)))  # P[g >= T - n*], by symmetry


def terms_of(p: np.ndarray, q: np.ndarray, order: float) -> np.ndarray:
    """p^α q^(1-α)."""
    return np.exp(order * np.log(p) + (1 - order) * np.log(q))


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return math.log(float(terms_of(p, q, order).sum())) / (order - 1)


def neighbours(counts: tuple[int, ...]):
    """Votes moved, added and withdrawn."""
    for j in range(len(counts)):
        more = list(counts)
        more[j] += 1
        yield tuple(more)
        for i in range(len(counts)):
            if i != j and counts[i]:
                moved = list(more)
                moved[i] -= 1
                yield tuple(moved)


def histograms(classes: int, teachers: int):
    for counts in itertools.product(range(teachers + 1), repeat=classes):
        if sum(counts) <= teachers:
            yield counts


SMALL = [(1.0, 1, 2.0), (2.0, 1, 1.25), (0.8, 2, 3.0), (1.5, 2, 5.0)]


@pytest.mark.parametrize(("part_sigma", "parts", "order"), SMALL)
@pytest.mark.parametrize(("classes", "teachers"), [(2, 10), (3, 7), (4, 4)])
def test_no_histogram_of_a_few_teachers_is_above_the_bounds(part_sigma, parts, order, classes, teachers):
    noise = law(part_sigma, parts)
    laws = {counts: argmax_law(counts, noise) for counts in histograms(classes, teachers)}
    bound = argmax_divergence(part_sigma, parts, order)
    worst = 0.0
    for counts, p in laws.items():
        for other in neighbours(counts):
            if (q := laws.get(other)) is not None:
                worst = max(worst, divergence(p, q, order), divergence(q, p, order))
    assert worst <= bound
    if (classes, teachers) == (3, 7):
        assert worst > 0.93 * bound  # three outcomes and a few teachers come close


@pytest.mark.parametrize(("part_sigma", "parts", "order"), SMALL)
def test_charges_bound_every_sample_of_a_few_teachers(part_sigma, parts, order):
    sigma1, sigma2 = 1.4 * part_sigma * math.sqrt(parts), part_sigma * math.sqrt(parts)
    first, second = law(1.4 * part_sigma, parts), law(part_sigma, parts)
    laws = {counts: argmax_law(counts, second) for counts in histograms(3, 5)}
    costs = [*label_costs(sigma1, sigma2, parts, order), *(ledger_costs(sigma1, sigma2, order) if parts == 2 else ())]
    worst = [0.0] * len(costs)
    for counts, p in laws.items():
        for other in neighbours(counts):
            if (q := laws.get(other)) is None:
                continue
            for threshold in range(-4, 10):
                yes, no = passes(max(counts), threshold, first), passes(max(other), threshold, first)
                seen = np.append(yes * p, 1 - yes), np.append(no * q, 1 - no)
                for one, two in (seen, seen[::-1]):
                    terms = terms_of(one, two, order)
                    for i, cost in enumerate(costs):
                        paid = np.append(np.full(3, cost.answered), cost.unanswered)
                        worst[i] = max(worst[i], float(terms @ np.exp((1 - order) * paid)))
    assert max(worst) <= 1 + 1e-12
    assert worst[0] > 0.9  # and the plain ones are not far above what is needed


@pytest.mark.parametrize(("part_sigma", "order"), [(1.0, 2.0), (1.5, 5.0), (20.0, 9.0)])
def test_what_a_ledger_charges_covers_a_server_too(part_sigma, order):
    by_answer, joint = ledger_costs(1.4 * part_sigma, part_sigma, order)
    own = check_divergence(1.4 * part_sigma / math.sqrt(2), 1, order)
    for cost in (by_answer, joint):
        assert min(cost.unanswered, cost.answered) >= own


@repeatable
@given(
    part_sigma=st.floats(0.6, 12.0),
    parts=st.sampled_from([1, 2]),
    excess=st.floats(0.05, 20.0),
    counts=st.lists(st.integers(0, 60), min_size=2, max_size=5),
    move=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    abstained=st.booleans(),
)
def test_no_histogram_is_above_the_bounds(part_sigma, parts, excess, counts, move, abstained):
    order, noise = 1 + excess, law(part_sigma, parts)
    i, j = (place % len(counts) for place in move)
    other = list(counts)
    other[j] += 1
    if not abstained:
        other[i] -= 1
    p, q = argmax_law(tuple(counts), noise), argmax_law(tuple(other), noise)
    seen = (p > 1e-250) & (q > 1e-250)
    for one, two in ((p, q), (q, p)):
        found = divergence(one[seen], two[seen], order)
        assert found <= argmax_divergence(part_sigma, parts, order) + 1e-9


@repeatable
@given(
    part_sigma=st.floats(0.6, 30.0),
    parts=st.sampled_from([1, 2]),
    excess=st.floats(0.05, 20.0),
    k=st.integers(-60, 60),
    share=st.floats(1.0, 6.0),
)
def test_no_threshold_is_above_the_bounds(part_sigma, parts, excess, k, share):
    order, noise = 1 + excess, law(part_sigma, parts)
    worst = check_divergence(part_sigma, parts, order)
    unanswered = share * worst
    answered = yes_charge(part_sigma, parts, order, unanswered)
    yes, no = (np.array([passes(place, 0, noise), float(at_most(noise, np.array(-place - 1)))]) for place in (k, k + 1))
    if min(*yes, *no) < 1e-250:
        return
    for p, q in ((yes, no), (no, yes)):
        terms = terms_of(p, q, order)
        assert math.log(terms.sum()) / (order - 1) <= worst + 1e-9
        assert terms @ np.exp((1 - order) * np.array([answered, unanswered])) <= 1 + 1e-9


# ---- High precision -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("part_sigma", "parts", "order"), [(3.0, 1, 5.0), (2.0, 2, 3.0), (6.0, 2, 8.0)])
def test_the_bounds_are_the_maximum_to_nine_digits(part_sigma, parts, order):
    mp = pytest.importorskip("mpmath", reason="mpmath is not installed").mp
    with mp.workdps(50):
        reach = int(18 * part_sigma * math.sqrt(parts))
        weight = {z: mp.exp(-mp.mpf(z * z) / (2 * mp.mpf(part_sigma) ** 2)) for z in range(-reach, reach + 1)}
        total = sum(weight.values())
        if parts == 1:
            mass = [weight[z] / total for z in range(-reach, reach + 1)]
        else:
            window = [range(max(-reach, z - reach), min(reach, z + reach) + 1) for z in range(-reach, reach + 1)]
            mass = [
                sum(weight[x] * weight[z - x] for x in window[z + reach]) / total**2 for z in range(-reach, reach + 1)
            ]
        below = [mp.mpf(0)]
        for one in mass:
            below.append(below[-1] + one)

        def up_to(z: int):
            return below[min(max(z + reach + 1, 0), len(mass))]

        @lru_cache
        def outcomes(a: int, b: int):
            first = sum(mass[z + reach] * up_to(z + a - b) for z in range(-a, reach + 1))
            second = sum(mass[z + reach] * up_to(z + b - a - 1) for z in range(-b, reach + 1))
            return first, second, up_to(-a - 1) * up_to(-b - 1)

        def exact(a: int, b: int):
            p, q = outcomes(a, b), outcomes(a + 1, b - 1)
            both = [sum(x**order * y ** (1 - order) for x, y in zip(*pair, strict=True)) for pair in ((p, q), (q, p))]
            return mp.log(max(both)) / (order - 1)

        # Uphill from where the maximum is about, over whole numbers.
        sigma = part_sigma * math.sqrt(parts)
        here = round(0.72 * sigma + 0.6 * (order - 1)), round(0.72 * sigma - 0.6 * (order - 1))
        found = exact(*here)
        while True:
            near = {(here[0] + i, here[1] + j) for i in (-1, 0, 1) for j in (-1, 0, 1)}
            best, place = max((exact(*one), one) for one in near)
            if best <= found:
                break
            found, here = best, place
        bound = argmax_divergence(part_sigma, parts, order)
        assert float(found) <= bound <= float(found) * (1 + 1e-7)


# ---- Sequences ------------------------------------------------------------------------------------------------


@repeatable
@given(data=st.data(), order=st.floats(1.2, 8.0), depth=st.integers(1, 4))
def test_a_sequence_costs_at_most_what_it_is_charged(data, order, depth):
    """Positions and ways to charge are chosen by what came before, and some sequences stop early."""
    sigma1, sigma2 = 3.0, 2.0
    first, second = law(3.0 / math.sqrt(2), 2), law(2.0 / math.sqrt(2), 2)
    ways = [*label_costs(sigma1, sigma2, 2, order), *ledger_costs(sigma1, sigma2, order)]

    def play(p: float, q: float, left: int) -> tuple[float, float]:
        """Σ p^α q^(1-α) over all histories from here on, and the most that they are charged."""
        if not left or data.draw(st.integers(0, 4)) == 0:
            return p**order * q ** (1 - order), 0.0
        counts = data.draw(st.tuples(*[st.integers(0, 6)] * 3))
        other = data.draw(st.sampled_from(list(neighbours(counts))))
        threshold, cost = data.draw(st.integers(0, 8)), data.draw(st.sampled_from(ways))
        yes, no = passes(max(counts), threshold, first), passes(max(other), threshold, first)
        refused, most = play(p * (1 - yes), q * (1 - no), left - 1)
        total, most = refused, most + cost.unanswered
        for one, two in zip(argmax_law(counts, second), argmax_law(other, second), strict=True):
            more, charged = play(p * yes * one, q * no * two, left - 1 if left < 3 else 0)
            total, most = total + more, max(most, charged + cost.answered)
        return total, most

    total, most = play(1.0, 1.0, depth)
    assert total <= math.exp((order - 1) * most) * (1 + 1e-9)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize(("counts", "other", "threshold"), [((9, 8, 7), (8, 9, 7), 8), ((6, 6, 0), (7, 5, 0), 7)])
def test_the_claim_of_a_whole_job_holds_for_the_real_noise(counts, other, threshold):
    samples, sigma1, sigma2 = 6, 4.0, 3.0
    first, second = law(sigma1 / math.sqrt(2), 2), law(sigma2 / math.sqrt(2), 2)
    one, two = (
        np.append(yes * argmax_law(votes, second), 1 - yes)
        for votes in (counts, other)
        for yes in [passes(max(votes), threshold, first)]
    )
    p, q = np.ones(1), np.ones(1)
    for _ in range(samples):
        p, q = np.outer(p, one).ravel(), np.outer(q, two).ravel()
    for delta in (1e-2, 1e-4, 1e-6):
        claimed = job_report(samples, samples, sigma1, sigma2, delta).requester.epsilon
        assert max(hockey_stick(p, q, claimed), hockey_stick(q, p, claimed)) <= delta


# ---- Figures --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "before", "now"),
    [
        ((80, 120.0, 54.0), (0.994, 1.451, 0.397), (0.744, 1.085, 0.312)),
        ((40, 130.0, 58.0), (0.631, 0.919, 0.251), (0.475, 0.692, 0.198)),
        ((640, 150.0, 40.0), (4.245, 6.336, 0.962), (3.234, 4.796, 0.753)),
        ((1000, 83.0, 53.0), (4.329, 6.464, 2.353), (3.071, 4.551, 1.833)),
        ((1000, 40.0, 40.0), (6.813, 10.311, 5.378), (4.619, 6.912, 4.151)),
    ],
    ids=str,
)
def test_what_jobs_cost_before_and_now(job, before, now):
    samples, sigma1, sigma2 = job
    report = job_report(samples, samples, sigma1, sigma2, 1e-5, classes=10)
    assert [view.epsilon_zcdp for view in report.views] == pytest.approx(before, abs=6e-4)
    assert [view.epsilon for view in report.views] == pytest.approx(now, abs=6e-4)
    for view in report.views:
        assert view.order > 1


def test_the_order_is_nearly_the_best_one():
    claimed = job_report(80, 80, 120.0, 54.0, 1e-5, classes=10).requester
    orders = [claimed.order * factor for factor in (0.9, 0.95, 1.05, 1.1)]
    for order in orders:
        [_, joint] = label_costs(120.0, 54.0, 2, order)
        assert claimed.epsilon < order_epsilon(order, joint.job(80, 80), 1e-5) * (1 + 1e-3)


@pytest.mark.parametrize(("part_sigma", "parts"), [(0.3, 1), (0.4, 2), (150.0, 2), (1e5, 1)])
@pytest.mark.parametrize("order", [1.001, 7.0, 500.0])
def test_beyond_the_tables_zcdp_stands_in(part_sigma, parts, order):
    sigma = part_sigma * math.sqrt(parts)
    label, check = (order * noise_rho(moved, sigma, parts) for moved in (LABEL, CHECK))
    assert 0 < check_divergence(part_sigma, parts, order) <= check
    if sigma > 200:
        assert argmax_divergence(part_sigma, parts, order) == label
    for cost in (*label_costs(sigma, sigma, parts, order), *ledger_costs(sigma, sigma, order)):
        assert 0 < cost.unanswered <= cost.answered < math.inf


def test_a_job_is_charged_sample_by_sample():
    assert SampleCost(1.0, 3.0).job(10, 4) == 18.0
