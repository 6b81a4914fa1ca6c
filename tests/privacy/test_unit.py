"""The unit of protection: what it costs whoever moves several votes, against its definition; and who is told what."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import TaskError
from sedml.privacy.accounting import job_epsilon, job_report, sample_divergence
from sedml.privacy.calibration import sigma_for
from sedml.privacy.charging import job_charge
from sedml.privacy.exact import argmax_divergence, folded_divergence, several_votes
from sedml.privacy.unit import MAX_VOTES, Unit
from sedml.privacy.zcdp import LABEL, noise_rho
from support.outcome_laws import divergence, fold, histograms, hockey_stick, law, outcome_law
from support.tiers import thorough

repeatable = settings(derandomize=True, deadline=None, max_examples=40)


def votes_between(one: tuple[int, ...], two: tuple[int, ...]) -> int:
    """How many votes must change, each from any class or none to any other, to make one histogram of the other."""
    differences = [b - a for a, b in zip(one, two, strict=True)]
    return max(sum(d for d in differences if d > 0), -sum(d for d in differences if d < 0))


# ---- Several votes against the definition -------------------------------------------------------------------------


@pytest.mark.parametrize("moves", [1, 2, 3])
@pytest.mark.parametrize(("sigma", "parts", "order"), [(1.0, 1, 2.0), (2.0, 1, 1.25), (1.5, 1, 6.0), (0.8, 2, 3.0)])
@pytest.mark.parametrize(("classes", "votes"), [(2, 6), (3, 4)])
def test_no_histogram_of_a_few_votes_is_above_the_bounds(moves, sigma, parts, order, classes, votes):
    """Every histogram, every neighbour that so many votes make of it, every threshold."""
    noise, bound = law(sigma, parts), several_votes(partial(argmax_divergence, sigma, parts), order, moves)
    pairs = [
        (one, two)
        for one, two in itertools.combinations(histograms(classes, votes), 2)
        if votes_between(one, two) == moves
    ]
    worst = 0.0
    for threshold in range(-2, votes + 4):
        laws = {counts: outcome_law(counts, noise, threshold) for counts in histograms(classes, votes)}
        for one, two in pairs:
            p, q = laws[one], laws[two]
            worst = max(worst, divergence(p, q, order), divergence(q, p, order))
    assert worst <= bound
    assert worst > 0.25 * bound  # a few votes and classes come as close as this


@pytest.mark.parametrize("moves", [1, 2, 3])
@pytest.mark.parametrize(("sigma", "order"), [(1.3, 4.0), (2.0, 1.25)])
def test_no_shift_of_a_lying_server_is_above_what_is_charged(moves, sigma, order):
    """Every share on the ring, every histogram of a few votes and every one that so many votes make of it."""
    bits, classes, votes = 3, 2, 3
    noise, charged = law(sigma, 1), sample_divergence(sigma, order, moves)
    pairs = {
        tuple(sorted(tuple(fold(n + s, bits) for n, s in zip(counts, shifts, strict=True)) for counts in (one, two)))
        for shifts in itertools.product(range(1 << bits), repeat=classes)
        for one, two in itertools.combinations(histograms(classes, votes), 2)
        if votes_between(one, two) <= moves
    }
    worst = 0.0
    for threshold in range(-2, (1 << (bits - 1)) + 3):
        laws = {counts: outcome_law(counts, noise, threshold) for pair in pairs for counts in pair}
        for one, two in pairs:
            p, q = laws[one], laws[two]
            worst = max(worst, divergence(p, q, order), divergence(q, p, order))
    assert worst <= charged


@repeatable
@given(
    sigma=st.floats(0.6, 8.0),
    excess=st.floats(0.05, 8.0),
    counts=st.lists(st.integers(0, 40), min_size=3, max_size=5),
    moved=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=5),
    threshold=st.integers(-20, 60),
)
def test_votes_that_move_between_any_classes_cost_no_more_than_is_charged(sigma, excess, counts, moved, threshold):
    order, noise, other = 1 + excess, law(sigma, 1), list(counts)
    for source, target in moved:
        other[source % len(counts)] -= 1
        other[target % len(counts)] += 1
    p, q = (outcome_law(tuple(votes), noise, threshold) for votes in (counts, other))
    charged = sample_divergence(sigma, order, len(moved))
    assert max(divergence(p, q, order), divergence(q, p, order)) <= charged + 1e-9


def test_what_is_charged_for_one_vote_would_not_do_for_two():
    """The planted fault: a unit in two parts, charged as if it were in one."""
    sigma, order, threshold = 2.0, 4.0, 5
    p, q = (outcome_law(votes, law(sigma, 1), threshold) for votes in ((9, 2, 0), (11, 0, 0)))
    assert divergence(p, q, order) > 4.3 * folded_divergence(sigma, order)
    assert divergence(p, q, order) <= sample_divergence(sigma, order, 2)


@pytest.mark.parametrize("moves", [1, 2, 3, 5, 31])
@pytest.mark.parametrize("order", [1.2, 3.0, 17.0])
def test_group_privacy_keeps_the_gain_of_a_label(moves, order):
    """Of zCDP the bound makes moves² rho, and no more; at low orders a label costs 0.64 of that, for groups too."""
    own, rho = 28.0, noise_rho(LABEL, 28.0)
    assert several_votes(lambda s: s * rho, order, moves) >= moves**2 * order * rho * (1 - 1e-12)
    assert sample_divergence(own, order, moves) <= moves**2 * order * rho
    if moves * order < 20:
        assert sample_divergence(own, order, moves) < 0.8 * moves**2 * order * rho
    assert sample_divergence(own, order) == folded_divergence(own, order)


@pytest.mark.parametrize("moves", [1, 2, 3])
def test_the_claim_of_a_whole_job_holds_for_the_real_noise(moves):
    """Five samples of which so many votes move, all outcomes of all of them, by the hockey-stick divergence."""
    samples, sigma = 5, 4.0
    for parts, (one, two) in itertools.product((1, 2), [((9, 6, 2), (9 - moves, 6 + moves, 2))]):
        noise = law(sigma / math.sqrt(2), parts)
        laws = [outcome_law(votes, noise, 8) for votes in (one, two)]
        p, q = np.ones(1), np.ones(1)
        for _ in range(samples):
            p, q = np.outer(p, laws[0]).ravel(), np.outer(q, laws[1]).ravel()
        for delta in (1e-2, 1e-4):
            report = job_report(samples, sigma, delta, unit=Unit("patient", 9, moves))
            claimed = report.epsilon if parts == 1 else report.epsilon_apart
            assert max(hockey_stick(p, q, claimed), hockey_stick(q, p, claimed)) <= delta


# ---- What a job costs whom ----------------------------------------------------------------------------------------


@settings(repeatable, max_examples=15)
@given(
    samples=st.integers(1, 2000),
    sigma=st.floats(3.0, 30.0),
    votes=st.integers(1, MAX_VOTES),
    spread=st.integers(1, 4),
    delta=st.sampled_from([1e-5, 1e-8]),
)
def test_an_organisation_pays_at_least_what_its_units_pay(samples, sigma, votes, spread, delta):
    unit = Unit("patient", votes, min(spread, votes))
    report = job_report(samples, sigma, delta, classes=10, unit=unit)
    assert report.epsilon == job_epsilon(samples, sigma, delta, classes=10, moves=unit.moves)
    assert report.epsilon_apart <= report.epsilon <= report.epsilon_organisation * 1.002 + 2e-3
    whole = job_report(samples, sigma, delta, classes=10, unit=Unit("organisation", votes))
    assert whole.epsilon == whole.epsilon_organisation == report.epsilon_organisation
    # With one vote, or all of a unit's data in one part, nothing is new.
    assert unit.moves > 1 or report.epsilon == job_report(samples, sigma, delta, classes=10).epsilon


def test_charges_grow_with_the_square_of_what_moves():
    one, two, three = (job_charge(1000, 10, 60.0, 8.0, moves) for moves in (1, 2, 3))
    assert 4.0 < two.rho / one.rho < 4.2
    assert 9.0 < three.rho / one.rho < 9.8
    assert one.distance == two.distance == three.distance


@pytest.mark.parametrize(("spread", "epsilon", "zcdp"), [(1, 0.625, 0.794), (2, 1.329, 1.693), (3, 2.077, 2.653)])
def test_the_figures_of_the_documentation(spread, epsilon, zcdp):
    report = job_report(100, 100.0, 1e-5, classes=10, unit=Unit("patient", 31, spread))
    found = report.epsilon, report.epsilon_zcdp, report.epsilon_organisation
    assert found == pytest.approx((epsilon, zcdp, 37.83), rel=2e-3)


@thorough
@pytest.mark.parametrize("moves", [1, 2, 3])
def test_the_least_noise_for_a_spread_keeps_epsilon(moves):
    sigma = sigma_for(50, 1.0, 1e-5, 10, moves)
    assert job_epsilon(50, sigma, 1e-5, classes=10, moves=moves) <= 1.0
    assert job_epsilon(50, sigma * 0.995, 1e-5, classes=10, moves=moves) > 1.0


@thorough
def test_eight_hospitals_and_their_patients():
    """81 samples at epsilon 0.5: what a patient and what a hospital with 50 parts is promised."""
    sigma = sigma_for(81, 0.5, 1e-5, 10)
    report = job_report(81, sigma, 1e-5, classes=10, unit=Unit("patient", 50))
    assert report.epsilon == pytest.approx(0.5, abs=1e-3)
    assert report.epsilon_organisation > 20.0


# ---- Words ----------------------------------------------------------------------------------------------------------


def test_a_teacher_is_told_who_is_protected():
    where = "in at most 1 of your 31 parts and in no other organisation's"
    whole = "The organisation as a whole: epsilon 26, in effect none."
    assert Unit("patient", 31).promise(0.5, 26.04) == (
        f"Protects each patient, whose data is {where}: epsilon 0.5. {whole}"
    )
    assert Unit().promise(0.5, 0.5) == "Protects each organisation, with all its votes: epsilon 0.5."
    assert "all its 3 votes on a sample: epsilon 12, in effect none" in Unit("organisation", 3).promise(12.0, 12.0)
    several = "in at most 2 parts, yours (5) and other organisations' together: epsilon 1."
    assert several in Unit("customer", 5, 2).promise(1.0, 4.0)


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        (("Patient",), "small letters"),
        (("",), "small letters"),
        (("patient\n",), "small letters"),
        (("patient", 0), "votes must be"),
        (("patient", MAX_VOTES + 1), "votes must be"),
        (("patient", True), "votes must be"),
        (("patient", 2.0), "votes must be"),
        (("patient", 3, MAX_VOTES + 1), "spread must be"),
        (("organization", 31), "taken for the organisation"),
        (("hospitals", 31), "taken for the organisation"),
        (("organisation ", 31), "small letters"),
        (("patient-", 31), "small letters"),
        (("patient", 3, 0), "spread must be"),
        (("organisation", 3, 2), "with all their parts"),
    ],
)
def test_a_unit_that_makes_no_sense_is_refused(unit, text):
    with pytest.raises(TaskError, match=text):
        Unit(*unit)


def test_whom_a_job_does_not_protect_it_may_cost_all_votes():
    unit = Unit("patient", 31, 2)
    assert (unit.moves, unit.moves_of("patient"), unit.moves_of("customer"), unit.moves_of("organisation")) == (
        2,
        2,
        31,
        31,
    )
