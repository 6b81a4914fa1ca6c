"""Plans against simulation of the real mechanism, against other terms, and against the ledger's limits."""

from __future__ import annotations

import math
import re
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import BudgetExceededError, PredictionsError, PrivacyError, TaskError
from sedml.mpc.prg import Seed
from sedml.privacy.accounting import job_report
from sedml.privacy.charging import job_charge
from sedml.privacy.ledger import Ledger
from sedml.privacy.ledger.amounts import RHO_BITS
from sedml.privacy.ledger.amounts import budget as ledger_budget
from sedml.privacy.noise import draw
from sedml.privacy.planning import plan_job
from sedml.privacy.unit import Unit
from sedml.privacy.utility import agreement_model, public_votes, utility
from support.tiers import thorough

DELTA = 1e-5
SEED = Seed(bytes(32))


def simulated(counts, right, threshold, sigma):
    """Shares of samples answered and labelled right, with both servers' noise."""
    noisy = counts + sum(draw(sigma, SEED, f"{server}/{sigma}", counts.shape) for server in "01")
    answered = noisy.max(axis=0) >= threshold
    return float(answered.mean()), float((answered & (noisy.argmax(axis=0) == right)).mean())


def modelled_votes(teachers, classes, mean, samples):
    """The documented law, drawn directly; the right class and its rival are drawn too."""
    generator = np.random.default_rng(5)
    right = generator.integers(classes, size=samples)
    p = generator.beta(3 * mean, 3 * (1 - mean), size=samples)
    own = generator.binomial(teachers, p)
    even = np.full(classes - 1, 0.5 / (classes - 1))
    even[0] += 0.5
    wrong = generator.permuted(generator.multinomial(teachers - own, even), axis=1)
    counts = np.empty((classes, samples), np.int64)
    counts[right, np.arange(samples)] = own
    others = (right + np.arange(1, classes)[:, np.newaxis]) % classes
    np.put_along_axis(counts, others, wrong.T, axis=0)
    return counts, right


@pytest.fixture(scope="module")
def plan():
    return plan_job(agreement_model(100, 10), epsilon=2.0, delta=DELTA, samples=500)


# ---- What terms bring -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("teachers", "classes", "mean", "threshold", "sigma"),
    [
        (250, 10, 0.75, 150, 60.0),
        (250, 10, 0.9, 320, 80.0),
        (50, 2, 0.75, 25, 9.0),
        (30, 10, 0.6, 12, 2.0),
        (200, 60, 0.6, 120, 40.0),
        (5000, 10, 0.75, 2500, 900.0),
    ],
)
def test_the_model_brings_what_simulated_jobs_bring(teachers, classes, mean, threshold, sigma):
    samples = 30_000
    counts, right = modelled_votes(teachers, classes, mean, samples)
    answered, right_share = simulated(counts, right, threshold, sigma)
    promised = utility(agreement_model(teachers, classes, mean), samples, threshold, sigma, 0.0)
    error = 4 * 0.5 / math.sqrt(samples) + 0.004
    assert promised.answered / samples == pytest.approx(answered, abs=error)
    assert promised.right / samples == pytest.approx(right_share, abs=error)


@pytest.mark.parametrize("name", ["mnist", "svhn"])
@pytest.mark.parametrize(("threshold", "sigma"), [(200, 50.0), (120, 80.0), (300, 40.0)])
def test_real_votes_bring_what_simulated_jobs_bring(data_dir, name, threshold, sigma):
    path = data_dir / "pate2018_votes" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with np.load(path) as archive:
        votes, labels = archive["votes"].astype(np.int64), archive["labels"].astype(np.int64)
    answered, right = simulated(votes.T, labels, threshold, sigma)
    promised = utility(public_votes(votes, labels), len(votes), threshold, sigma, 0.0)
    assert promised.answered / len(votes) == pytest.approx(answered, abs=0.02)
    assert promised.right / len(votes) == pytest.approx(right, abs=0.02)


def test_equal_counts_are_right_by_chance():
    for classes in (2, 7, 17, 40):
        votes = public_votes(np.full((3, classes), 5), np.zeros(3, int))
        assert utility(votes, 1000, -50, 3.0, 0.0).accuracy == pytest.approx(1 / classes, rel=1e-4)


# ---- Public votes -----------------------------------------------------------------------------------


def test_without_labels_the_plurality_is_right():
    counts = np.array([[9, 1, 0], [4, 6, 0], [0, 3, 7]])
    easy, hard = public_votes(counts), public_votes(counts, [0, 0, 2])
    assert sorted(easy.right) == [6, 7, 9]
    assert sorted(hard.right) == [4, 7, 9]
    assert "plurality" in easy.source
    assert "true label" in hard.source


def test_votes_are_scaled_to_another_number_of_teachers():
    counts = np.array([[90, 10], [40, 60]])
    few = public_votes(counts, teachers=10)
    assert few.teachers == 10
    assert sorted(few.right) == [6, 9]
    assert public_votes(counts).teachers == 100


def test_many_samples_are_thinned_out_evenly():
    counts = np.random.default_rng(0).multinomial(50, [0.6, 0.3, 0.1], size=20_000)
    votes = public_votes(counts, np.zeros(20_000, int))
    assert len(votes.right) < 2000
    assert votes.weights.sum() == pytest.approx(1)
    assert votes.weights @ votes.right == pytest.approx(counts[:, 0].mean(), rel=1e-3)


@pytest.mark.parametrize(
    ("counts", "labels"),
    [
        ([[1.5, 2.0]], None),
        ([[1, -1]], None),
        ([[1], [2]], None),
        ([1, 2], None),
        (np.empty((0, 3), int), None),
        ([[1, 2]], [2]),
        ([[1, 2]], [-1]),
        ([[1, 2]], [0, 1]),
        ([[1, 2]], [0.5]),
    ],
)
def test_votes_that_make_no_sense_are_refused(counts, labels):
    with pytest.raises(PredictionsError):
        public_votes(counts, labels)


# ---- Plans ------------------------------------------------------------------------------------------


def test_the_model_has_the_mean_that_was_asked_for():
    for mean in (0.3, 0.75, 0.98):
        votes = agreement_model(250, 10, mean)
        assert votes.weights.sum() == pytest.approx(1)
        assert votes.weights @ votes.right / 250 == pytest.approx(mean, abs=1e-3)


def test_a_plan_keeps_the_budget(plan):
    chosen = plan.chosen
    again = job_report(chosen.asked, chosen.sigma, DELTA, classes=10)
    assert 1.98 < again.epsilon <= 2.0
    assert plan.privacy == again
    assert chosen.epsilon == again.epsilon > again.epsilon_apart


def test_a_ledger_with_that_budget_accepts_the_plan(plan, tmp_path):
    chosen = plan.chosen
    with Ledger.open(tmp_path / "ledger.db") as ledger:
        order = ledger.set_budget("teachers", 2.0, DELTA).order
        cost = job_charge(chosen.asked, plan.classes, chosen.sigma, order)
        ledger.reserve("teachers", "job", cost.rho, cost.distance)
        with pytest.raises(BudgetExceededError):
            ledger.reserve("teachers", "another", cost.rho / 50)


def test_a_plan_brings_what_simulated_jobs_bring(plan):
    chosen = plan.chosen
    counts, right = modelled_votes(100, 10, 0.75, 30_000)
    answered, right_share = simulated(counts, right, chosen.threshold, chosen.sigma)
    assert chosen.answered / chosen.asked == pytest.approx(answered, abs=0.01)
    assert chosen.right / chosen.asked == pytest.approx(right_share, abs=0.01)


def test_no_other_terms_are_much_better(plan):
    """Random terms that cost about the same."""
    each = plan.chosen.asked / plan.chosen.sigma**2
    votes, generator = agreement_model(100, 10), np.random.default_rng(1)
    found = 0
    for _ in range(120):
        asked, threshold = int(np.exp(generator.uniform(0, math.log(500)))), int(generator.integers(1, 220))
        other = utility(votes, asked, threshold, math.sqrt(asked / each), 0.0)
        if other.accuracy >= 0.9:
            found += 1
            assert other.right <= 1.02 * plan.chosen.right
    assert found > 8


@pytest.mark.parametrize(
    ("name", "epsilon", "min_accuracy", "right"),
    [("mnist", 1.0, 0.97, 35), ("mnist", 2.0, 0.9, 213), ("svhn", 1.0, 0.97, 25.5), ("svhn", 2.0, 0.9, 285)],
)
def test_what_published_votes_buy(data_dir, name, epsilon, min_accuracy, right):
    path = data_dir / "pate2018_votes" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"no {path}")
    with np.load(path) as archive:
        votes = public_votes(archive["votes"].astype(np.int64), archive["labels"].astype(np.int64))
    found = plan_job(votes, epsilon=epsilon, delta=DELTA, samples=8000, min_accuracy=min_accuracy)
    assert found.chosen.right > right
    assert found.chosen.accuracy >= min_accuracy


def test_asking_more_samples_is_not_worth_it(plan):
    assert plan.chosen in plan.by_asked
    assert plan.chosen.asked < plan.samples
    assert max(point.right for point in plan.by_asked) <= 1.02 * plan.chosen.right
    assert plan.by_asked[-1].asked == plan.samples
    assert plan.by_asked[-1].right < plan.chosen.right
    with pytest.raises(FrozenInstanceError):
        plan.chosen.asked = 3  # type: ignore[misc]


def test_an_ample_budget_asks_all_and_is_not_used_up():
    steps = []
    ample = plan_job(
        agreement_model(200, 3), epsilon=500.0, delta=DELTA, samples=5, progress=lambda _, *step: steps.append(step)
    )
    assert ample.chosen.asked == 5
    assert ample.chosen.epsilon < 10
    assert ample.chosen.accuracy > 0.9
    assert steps == [(done, len(steps)) for done in range(1, len(steps) + 1)]


@thorough
def test_too_small_a_budget_says_what_it_takes():
    votes = agreement_model(20, 4)
    with pytest.raises(PrivacyError, match="20 votes buy not one correct label at epsilon") as caught:
        plan_job(votes, epsilon=0.05, delta=DELTA, samples=100)
    organisations, each, enough = told(caught.value.do)
    assert 0.05 < enough < 10
    assert 20 < organisations < 2000
    assert plan_job(votes, epsilon=1.1 * enough, delta=DELTA, samples=100).chosen.right >= 0.5
    assert plan_job(votes.again(organisations, 1), epsilon=0.05, delta=DELTA, samples=100).chosen.right >= 0.5
    more = agreement_model(20, 4, votes=each)
    assert plan_job(more, epsilon=0.05, delta=DELTA, samples=100, unit="patient").chosen.right >= 0.5
    with pytest.raises(PrivacyError):
        plan_job(more, epsilon=0.05, delta=DELTA, samples=100)


def told(text):
    """The numbers of the first sentence: organisations, votes of each, epsilon."""
    numbers = re.match(r"A first correct label takes about ([\d,]+) .* about (\d+) votes .* about ([\d.]+)\. ", text)
    organisations, each, epsilon = numbers.groups()
    return int(organisations.replace(",", "")), int(each), float(epsilon)


@thorough
def test_many_labels_are_said_to_take_more():
    with pytest.raises(PrivacyError, match="50 correct labels take about") as caught:
        plan_job(agreement_model(8, 10, 0.9), epsilon=1.0, delta=DELTA, samples=1000)
    each = int(re.search(r"50 correct labels take .* 8 with about (\d+) votes each", caught.value.do)[1])
    found = plan_job(agreement_model(8, 10, 0.9, votes=each), epsilon=1.0, delta=DELTA, samples=1000, unit="patient")
    assert 45 <= found.chosen.right < 75
    assert f"(unit patient, {each} votes)" in caught.value.do


# ---- Organisations with several votes ---------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(
    st.tuples(st.integers(2, 20), st.integers(1, 12)),
    st.sampled_from(["organisation", "patient"]),
    st.integers(1, 3),
    st.floats(0.5, 8.0),
    st.sampled_from([0.0, 0.2]),
)
def test_a_plan_keeps_the_budget_of_its_unit(numbers, name, spread, epsilon, abstain):
    teachers, votes = numbers
    spread = 1 if name == "organisation" else min(spread, votes)
    sample = agreement_model(teachers, 3, 0.9, votes=votes, abstain=abstain)
    try:
        found = plan_job(sample, epsilon=epsilon, delta=DELTA, samples=50, unit=name, spread=spread)
    except PrivacyError:
        return
    chosen, unit = found.chosen, Unit(name, votes, spread)
    again = job_report(chosen.asked, chosen.sigma, DELTA, classes=3, unit=unit)
    assert found.privacy == again
    assert chosen.epsilon == again.epsilon <= epsilon
    assert again.epsilon <= again.epsilon_organisation
    assert chosen.threshold > votes
    assert chosen.accuracy >= 0.9
    budget = ledger_budget(epsilon, DELTA, name)
    cost = job_charge(chosen.asked, 3, chosen.sigma, budget.order, unit.moves)
    assert cost.rho * 2**RHO_BITS <= budget.limit.rho


def test_the_threshold_is_above_what_one_organisation_reaches_alone():
    two = plan_job(agreement_model(2, 3, 0.95, votes=40), epsilon=20.0, delta=DELTA, samples=30, unit="patient")
    assert two.chosen.threshold >= two.least_threshold == 41
    assert agreement_model(1, 3, votes=40).least_threshold == 2
    assert agreement_model(40, 3).least_threshold == 2


@thorough
def test_votes_of_few_organisations_are_as_good_as_those_of_many_where_a_patient_is_protected():
    terms = {"epsilon": 1.0, "delta": DELTA, "samples": 300}
    few = plan_job(agreement_model(8, 10, 0.9, votes=25), **terms, unit="patient")
    many = plan_job(agreement_model(200, 10, 0.9), **terms)
    assert few.chosen.right == pytest.approx(many.chosen.right, rel=0.02)
    assert few.privacy.epsilon_organisation > 10 > many.privacy.epsilon_organisation
    assert few.most_votes == many.most_votes == 200


@thorough
def test_more_votes_never_buy_fewer_right_labels():
    terms = {"epsilon": 1.0, "delta": DELTA, "samples": 300, "unit": "patient"}
    right = [plan_job(agreement_model(8, 10, 0.9, votes=m), **terms).chosen.right for m in (10, 13, 16, 24, 32)]
    assert all(after > 0.98 * before for before, after in pairwise(right))
    assert right[-1] > 2 * right[0]


@thorough
def test_a_spread_costs_as_much_as_so_many_times_fewer_votes():
    terms = {"epsilon": 1.0, "delta": DELTA, "samples": 300, "unit": "patient"}
    twice = plan_job(agreement_model(8, 10, 0.9, votes=32), **terms, spread=2)
    once = plan_job(agreement_model(8, 10, 0.9, votes=16), **terms)
    assert twice.chosen.right == pytest.approx(once.chosen.right, rel=0.15)


def test_abstaining_votes_buy_less():
    terms = {"epsilon": 2.0, "delta": DELTA, "samples": 300}
    all_vote, most = (plan_job(agreement_model(100, 5, abstain=share), **terms).chosen for share in (0.0, 0.3))
    fewer = plan_job(agreement_model(70, 5), **terms).chosen
    assert most.right < all_vote.right
    assert most.right == pytest.approx(fewer.right, rel=0.03)
    assert "30% of the votes abstain" in agreement_model(100, 5, abstain=0.3).source
    for wrong in (-0.1, 1.0, math.nan):
        with pytest.raises(TaskError, match="abstain"):
            agreement_model(100, 5, abstain=wrong)


def test_a_public_sample_keeps_the_share_that_abstains():
    counts = np.array([[60, 20], [10, 70]])
    sample = public_votes(counts, teachers=5, votes=10, voters=100)
    assert (sample.teachers, sample.votes, sample.most_votes) == (5, 10, 50)
    assert sorted(sample.right) == [30, 35]
    again = sample.again(10, 20)
    assert (again.most_votes, sorted(again.right)) == (200, [120, 140])
    assert public_votes(counts, votes=8).teachers == 10


@thorough
def test_what_more_brings_is_about_what_a_plan_for_it_brings():
    terms = {"epsilon": 1.0, "delta": DELTA, "samples": 300, "unit": "patient"}
    found = plan_job(agreement_model(8, 10, 0.9, votes=20), **terms, more=True)
    assert [(one.teachers, one.votes) for one in found.by_votes] == [(8, 1), (8, 40), (12, 20), (16, 20)]
    assert not found.by_votes[0].expected.right
    for one in found.by_votes[1:3]:
        real = plan_job(agreement_model(one.teachers, 10, 0.9, votes=one.votes), **terms)
        assert one.expected.right == pytest.approx(real.chosen.right, rel=0.05)
        assert 10 < one.epsilon_organisation <= 1.1 * real.privacy.epsilon_organisation


@thorough
def test_more_votes_bring_nothing_where_the_organisation_is_protected():
    found = plan_job(agreement_model(60, 10, votes=5), epsilon=2.0, delta=DELTA, samples=100, more=True)
    by_votes = {(one.teachers, one.votes): one.expected.right for one in found.by_votes}
    assert by_votes[60, 10] == pytest.approx(found.chosen.right, rel=0.1)
    assert by_votes[120, 5] > 1.5 * found.chosen.right


def test_an_accuracy_out_of_reach_says_what_can_be_had():
    counts = np.array([[60, 40], [70, 30]] * 10)
    with pytest.raises(TaskError, match=r"less than 52\.\d%"):
        plan_job(public_votes(counts, [0, 1] * 10), epsilon=5.0, delta=DELTA, samples=100)


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.inf},
        {"epsilon": math.nan},
        {"delta": 0.0},
        {"delta": 1.0},
        {"samples": 0},
        {"min_accuracy": 1.0},
        {"min_accuracy": 0.0},
    ],
)
def test_terms_that_make_no_sense_are_refused(terms):
    with pytest.raises(TaskError):
        plan_job(agreement_model(10, 2), **({"epsilon": 1.0, "delta": DELTA, "samples": 10} | terms))


@pytest.mark.parametrize("terms", [(0, 10), (10, 1), (10, 10**6), (10, 10, 0.0), (10, 10, 1.0), (10, 10, math.nan)])
def test_a_model_that_makes_no_sense_is_refused(terms):
    with pytest.raises(TaskError):
        agreement_model(*terms)


def test_a_delta_below_the_samplers_own_is_refused():
    with pytest.raises(PrivacyError, match="larger delta"):
        plan_job(agreement_model(100, 3), epsilon=60.0, delta=1e-15, samples=1000)
