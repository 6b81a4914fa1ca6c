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
from sedml.privacy.exact import argmax_divergence, check_divergence, folded_divergence
from sedml.privacy.exact.check import bit_divergence
from sedml.privacy.zcdp import CHECK, LABEL, noise_rho
from support.outcome_laws import (
    at_most,
    divergence,
    fold,
    histograms,
    hockey_stick,
    law,
    neighbours,
    outcome_law,
    passes,
)

repeatable = settings(derandomize=True, deadline=None, max_examples=40)


SMALL = [(1.0, 1, 2.0), (2.0, 1, 1.25), (0.8, 2, 3.0), (1.5, 2, 5.0)]


@pytest.mark.parametrize(("part_sigma", "parts", "order"), SMALL)
@pytest.mark.parametrize(("classes", "teachers"), [(2, 10), (3, 7), (4, 4)])
def test_no_histogram_of_a_few_teachers_is_above_the_bounds(part_sigma, parts, order, classes, teachers):
    noise, bound = law(part_sigma, parts), argmax_divergence(part_sigma, parts, order)
    worst = 0.0
    for threshold in (None, *range(-2, teachers + 4)):
        laws = {counts: outcome_law(counts, noise, threshold) for counts in histograms(classes, teachers)}
        for counts, p in laws.items():
            for other in neighbours(counts):
                if (q := laws.get(other)) is not None:
                    worst = max(worst, divergence(p, q, order), divergence(q, p, order))
    assert worst <= bound
    if (classes, teachers) == (3, 7):
        assert worst > 0.93 * bound  # three outcomes and a few teachers come close


@repeatable
@given(
    part_sigma=st.floats(0.6, 12.0),
    parts=st.sampled_from([1, 2]),
    excess=st.floats(0.05, 20.0),
    counts=st.lists(st.integers(0, 60), min_size=2, max_size=5),
    threshold=st.none() | st.integers(-20, 90),
    move=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    abstained=st.booleans(),
)
def test_no_histogram_is_above_the_bounds(part_sigma, parts, excess, counts, threshold, move, abstained):
    order, noise = 1 + excess, law(part_sigma, parts)
    i, j = (place % len(counts) for place in move)
    other = list(counts)
    other[j] += 1
    if not abstained:
        other[i] -= 1
    p, q = (outcome_law(tuple(votes), noise, threshold) for votes in (counts, other))
    bound = argmax_divergence(part_sigma, parts, order)
    assert max(divergence(p, q, order), divergence(q, p, order)) <= bound + 1e-9


@repeatable
@given(
    part_sigma=st.floats(0.6, 30.0),
    parts=st.sampled_from([1, 2]),
    excess=st.floats(0.05, 20.0),
    k=st.integers(-60, 60),
)
def test_no_threshold_is_above_the_bounds(part_sigma, parts, excess, k):
    order, noise = 1 + excess, law(part_sigma, parts)
    yes, no = (np.array([passes(place, 0, noise), float(at_most(noise, np.array(-place - 1)))]) for place in (k, k + 1))
    bound = check_divergence(part_sigma, parts, order)
    assert max(divergence(yes, no, order), divergence(no, yes, order)) <= bound + 1e-9


# ---- A server that shifts its shares: folded counts -----------------------------------------------------------


def test_one_vote_moves_a_folded_count_by_at_most_one_whatever_the_shift():
    for bits in (1, 2, 3, 5):
        moves = {fold(n + 1, bits) - fold(n, bits) for n in range(1 << bits)}
        assert moves <= {-1, 0, 1}
        assert all(fold(n, bits) == n for n in range(1 << (bits - 1)))  # honest counts stay


@pytest.mark.parametrize(("sigma", "order"), [(0.7, 2.0), (1.3, 4.0), (2.0, 1.25), (2.0, 8.0)])
@pytest.mark.parametrize(("classes", "teachers", "bits"), [(2, 3, 3), (3, 2, 3)])
def test_no_shift_and_no_threshold_is_above_what_is_charged(sigma, order, classes, teachers, bits):
    """Every share of a lying server on the ring and noise of its own, every histogram, neighbour and threshold."""
    noise, charged = law(sigma, 1), folded_divergence(sigma, order)
    pairs = set()
    own = range(-4, 5) if classes == 2 else (0,)
    for shifts in itertools.product(range(1 << bits), repeat=classes):
        for counts in histograms(classes, teachers):
            for other in neighbours(counts):
                one, two = (
                    tuple(fold(n + s, bits) for n, s in zip(votes, shifts, strict=True)) for votes in (counts, other)
                )
                for added in own:
                    lied = sorted([(one[0] + added, *one[1:]), (two[0] + added, *two[1:])])
                    pairs.add((lied[0], lied[1]))
    kinds, worst = set(), 0.0
    for threshold in range(-2, (1 << (bits - 1)) + 3):
        laws = {counts: outcome_law(counts, noise, threshold) for pair in pairs for counts in pair}
        for one, two in pairs:
            kinds.add(tuple(sorted(b - a for a, b in zip(one, two, strict=True) if a != b)))
            p, q = laws[one], laws[two]
            worst = max(worst, divergence(p, q, order), divergence(q, p, order))
    assert kinds == {(), (1,), (-1, 1), (1, 1)}  # in whichever order
    assert worst <= charged
    assert worst > 0.6 * charged


@repeatable
@given(
    sigma=st.floats(0.5, 8.0),
    excess=st.floats(0.05, 20.0),
    counts=st.lists(st.integers(-30, 30), min_size=2, max_size=5),
    moves=st.tuples(*[st.integers(-1, 1)] * 2),
    threshold=st.integers(-40, 40),
)
def test_two_counts_that_move_anyhow_cost_no_more_than_is_charged(sigma, excess, counts, moves, threshold):
    order, noise = 1 + excess, law(sigma, 1)
    other = [counts[0] + moves[0], counts[1] + moves[1], *counts[2:]]
    p, q = (outcome_law(tuple(votes), noise, threshold) for votes in (counts, other))
    assert max(divergence(p, q, order), divergence(q, p, order)) <= folded_divergence(sigma, order) + 1e-9


@repeatable
@given(sigma=st.floats(0.6, 20.0), excess=st.floats(0.05, 20.0), d=st.integers(-6, 6), k=st.integers(-30, 30))
def test_given_their_difference_two_counts_that_move_alike_cost_no_more_than_is_charged(sigma, excess, d, k):
    """The law of g given g - g' = d, one bit of it: by definition."""
    order, noise = 1 + excess, law(sigma, 1)
    z = np.arange(noise.size)
    other = z - d
    both = noise * np.where((other >= 0) & (other < noise.size), noise[np.clip(other, 0, noise.size - 1)], 0.0)
    both /= both.sum()
    place = k + noise.size // 2
    p, q = (np.array([both[at:].sum(), both[:at].sum()]) for at in (place, place - 1))
    bound = max(bit_divergence(sigma / math.sqrt(2), 1, order, centre) for centre in (0.0, 0.5))
    assert max(divergence(p, q, order), divergence(q, p, order)) <= bound + 1e-9


@pytest.mark.parametrize(("sigma", "order", "above"), [(3.0, 8.0, 1.015), (5.0, 16.0, 1.006), (20.0, 4.0, 1.0)])
def test_what_folding_adds_to_the_charge(sigma, order, above):
    charged, label = folded_divergence(sigma, order), argmax_divergence(sigma, 1, order)
    assert charged / label == pytest.approx(above, abs=6e-4)
    assert label <= charged <= order * noise_rho(LABEL, sigma)
    assert check_divergence(sigma, 1, order) < label


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
    """Positions and thresholds are chosen by what came before, and some sequences stop early."""
    noise, cost = law(2.0, 1), folded_divergence(2.0, order)

    def play(p: float, q: float, left: int) -> float:
        """Σ p^α q^(1-α) over all histories from here on."""
        if not left or data.draw(st.integers(0, 4)) == 0:
            return p**order * q ** (1 - order)
        counts = data.draw(st.tuples(*[st.integers(0, 6)] * 3))
        moved = data.draw(st.sampled_from(list(itertools.product((-1, 0, 1), repeat=2))))
        other = (counts[0] + moved[0], counts[1] + moved[1], counts[2])
        threshold = data.draw(st.integers(0, 8))
        outcomes = zip(*(outcome_law(votes, noise, threshold) for votes in (counts, other)), strict=True)
        return sum(play(p * one, q * two, left - 1 if left < 3 else 0) for one, two in outcomes)

    assert play(1.0, 1.0, depth) <= math.exp((order - 1) * depth * cost) * (1 + 1e-9)


@pytest.mark.parametrize(("counts", "other", "threshold"), [((9, 8, 7), (8, 9, 7), 8), ((6, 6, 0), (7, 7, 0), 7)])
def test_the_claim_of_a_whole_job_holds_for_the_real_noise(counts, other, threshold):
    samples, sigma = 6, 3.0
    for parts in (1, 2):
        noise = law(sigma / math.sqrt(2), parts)
        one, two = (outcome_law(votes, noise, threshold) for votes in (counts, other))
        p, q = np.ones(1), np.ones(1)
        for _ in range(samples):
            p, q = np.outer(p, one).ravel(), np.outer(q, two).ravel()
        for delta in (1e-2, 1e-4, 1e-6):
            report = job_report(samples, sigma, delta)
            claimed = report.epsilon if parts == 1 else report.epsilon_apart
            assert max(hockey_stick(p, q, claimed), hockey_stick(q, p, claimed)) <= delta


# ---- Figures --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("job", "claimed", "apart", "zcdp"),
    [
        ((80, 54.0), 1.083, 0.743, 1.376),
        ((474, 53.0), 2.940, 1.999, 3.778),
        ((640, 40.0), 4.796, 3.234, 6.208),
        ((1000, 53.0), 4.485, 3.028, 5.800),
        ((1000, 40.0), 6.211, 4.163, 8.078),
    ],
    ids=str,
)
def test_what_jobs_cost(job, claimed, apart, zcdp):
    report = job_report(*job, 1e-5, classes=10)
    assert (report.epsilon, report.epsilon_apart, report.epsilon_zcdp) == pytest.approx(
        (claimed, apart, zcdp), abs=6e-4
    )


def test_the_order_is_nearly_the_best_one():
    claimed = job_report(80, 54.0, 1e-5, classes=10)
    for order in [claimed.order * factor for factor in (0.9, 0.95, 1.05, 1.1)]:
        other = order_epsilon(order, 80 * folded_divergence(54.0 / math.sqrt(2), order), 1e-5)
        assert claimed.epsilon < other * (1 + 2e-3)


@pytest.mark.parametrize(("part_sigma", "parts"), [(0.3, 1), (0.4, 2), (150.0, 2), (1e5, 1)])
@pytest.mark.parametrize("order", [1.001, 7.0, 500.0])
def test_beyond_the_tables_zcdp_stands_in(part_sigma, parts, order):
    sigma = part_sigma * math.sqrt(parts)
    label, check = (order * noise_rho(moved, sigma, parts) for moved in (LABEL, CHECK))
    assert 0 < check_divergence(part_sigma, parts, order) <= check
    if sigma > 200:
        assert argmax_divergence(part_sigma, parts, order) == label
    assert 0 < folded_divergence(part_sigma, order) <= order * noise_rho(LABEL, part_sigma)
