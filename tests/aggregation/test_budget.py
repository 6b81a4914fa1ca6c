"""A budget in `aggregate`: what it refuses, what it charges, and that nothing is opened when it refuses."""

import math
import threading
from pathlib import Path

import numpy as np
import pytest

import sedml
from sedml.aggregation import one_call
from sedml.errors import BudgetExceededError, InputError, LedgerError, PrivacyError, SedmlError, TaskError
from sedml.privacy.accounting import job_report
from sedml.privacy.charging import job_charge
from sedml.privacy.ledger import Ledger, State, fingerprint

TERMS = {"classes": 3, "threshold": 0.6, "sigma": 40.0}
VOTES = np.repeat(np.arange(30)[np.newaxis] % 3, 50, axis=0)
KEYS = [fingerprint(np.array([i])) for i in range(30)]


@pytest.fixture
def budget(tmp_path):
    return sedml.CohortBudget(tmp_path / "ledger.sqlite", "hospitals", epsilon=2.0, delta=1e-5)


@pytest.fixture
def forbid_opening(monkeypatch):
    """Fails the test if the protocol starts."""

    def forbidden(*_args, **_kwargs):
        raise AssertionError("the job was run")

    monkeypatch.setattr(one_call, "run_votes", forbidden)


def status(budget):
    with Ledger.open(budget.ledger) as ledger:
        return ledger.status(budget.cohort)


def test_a_delta_gives_what_the_job_costs_whatever_the_answers():
    result = sedml.aggregate(VOTES, **TERMS, delta=1e-5)
    assert result.privacy == job_report(30, 40.0, 1e-5, classes=3)
    assert 0 < result.privacy.epsilon_apart < result.privacy.epsilon
    assert "epsilon 0.885 at delta 1e-05" in repr(result)
    assert sedml.aggregate(VOTES, **TERMS).privacy is None


@pytest.mark.usefixtures("forbid_opening")
def test_a_job_that_costs_more_than_the_budget_is_refused_before_it_starts():
    with pytest.raises(BudgetExceededError, match="Nothing was opened"):
        sedml.aggregate(VOTES, **TERMS, delta=1e-5, budget=0.1)


def test_a_job_within_the_budget_runs():
    cost = job_report(30, 40.0, 1e-5, classes=3).epsilon
    assert sedml.aggregate(VOTES, **TERMS, delta=1e-5, budget=cost).privacy.epsilon == cost


@pytest.mark.usefixtures("forbid_opening")
@pytest.mark.parametrize(
    "options",
    [
        {"budget": 1.0},
        {"budget": 0.0, "delta": 1e-5},
        {"budget": -1.0, "delta": 1e-5},
        {"budget": math.nan, "delta": 1e-5},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": math.nan},
        {"fingerprints": KEYS},
    ],
)
def test_a_budget_that_makes_no_sense_is_refused_before_the_job(options):
    with pytest.raises((InputError, TaskError)):
        sedml.aggregate(VOTES, **TERMS, **options)


@pytest.mark.parametrize("threshold", [0.05, 1.0])
def test_a_cohort_is_charged_the_same_whatever_was_answered(budget, threshold):
    result = sedml.aggregate(VOTES, **(TERMS | {"threshold": threshold}), budget=budget)
    now = status(budget)
    cost = job_charge(30, 3, 40.0, now.order)
    assert now.rho.reserved == 0
    assert now.rho.spent == pytest.approx(cost.rho)
    assert now.rho.spent >= cost.rho
    assert result.privacy.delta == budget.delta


def test_a_cohort_is_never_overdrawn_and_the_refused_job_opens_nothing(budget, monkeypatch):
    sedml.aggregate(VOTES, **TERMS, budget=budget)

    def ask_again_and_again():
        for _ in range(200):
            sedml.aggregate(VOTES, **TERMS, budget=budget)

    with pytest.raises(BudgetExceededError):
        ask_again_and_again()
    before = status(budget)
    assert before.rho.spent <= before.rho.budget
    assert before.used <= 1.0
    monkeypatch.setattr(one_call, "run_votes", lambda *_a, **_k: pytest.fail("the job was run"))
    with pytest.raises(BudgetExceededError):
        sedml.aggregate(VOTES, **TERMS, budget=budget)
    assert status(budget) == before


def test_samples_asked_again_get_the_same_label_and_cost_nothing(budget):
    noisy = TERMS | {"threshold": 30, "sigma": 90.0}
    first = sedml.aggregate(VOTES, **noisy, budget=budget, fingerprints=KEYS)
    spent = status(budget)
    for _ in range(5):
        again = sedml.aggregate(VOTES, **noisy, budget=budget, fingerprints=KEYS)
        assert (again.labels == first.labels).all()
        assert again.drawn == 0
        assert again.stats.rounds == 0
        assert again.privacy.epsilon == 0
    assert status(budget) == spent


def test_only_new_samples_are_drawn(budget):
    first = sedml.aggregate(VOTES[:, :20], **TERMS, budget=budget, fingerprints=KEYS[:20])
    both = sedml.aggregate(VOTES, **TERMS, budget=budget, fingerprints=KEYS)
    assert both.drawn == 10
    assert both.task.samples == 30
    assert (both.labels[:20] == first.labels).all()


def test_the_same_sample_twice_in_one_job_is_drawn_once(budget):
    result = sedml.aggregate(VOTES[:, [0, 1, 0]], **TERMS, budget=budget, fingerprints=[KEYS[0], KEYS[1], KEYS[0]])
    assert result.drawn == 2
    assert result.labels[0] == result.labels[2]


def test_a_job_that_dies_stays_charged(budget, monkeypatch):
    def dies(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(one_call, "run_votes", dies)
    with pytest.raises(KeyboardInterrupt):
        sedml.aggregate(VOTES, **TERMS, budget=budget)
    with Ledger.open(budget.ledger) as ledger:
        [job] = ledger.jobs(budget.cohort)
    assert job.state is State.STARTED
    assert status(budget).rho.spent > 0


def test_another_budget_for_the_same_cohort_is_refused(budget):
    sedml.aggregate(VOTES, **TERMS, budget=budget)
    wider = sedml.CohortBudget(budget.ledger, budget.cohort, 100.0, budget.delta)
    with pytest.raises(PrivacyError):
        sedml.aggregate(VOTES, **TERMS, budget=wider)


@pytest.mark.usefixtures("forbid_opening")
def test_a_ledger_that_cannot_be_used_gives_no_label(tmp_path):
    broken = tmp_path / "broken.sqlite"
    broken.write_bytes(b"this is no database" * 100)
    with pytest.raises(LedgerError):
        sedml.aggregate(VOTES, **TERMS, budget=sedml.CohortBudget(broken, "a", 2.0, 1e-5))
    with pytest.raises(LedgerError):
        sedml.aggregate(VOTES, **TERMS, budget=sedml.CohortBudget(tmp_path / "no" / "folder", "a", 2.0, 1e-5))


@pytest.mark.usefixtures("forbid_opening")
def test_a_delta_of_zero_is_not_taken_for_none(budget):
    with pytest.raises((InputError, TaskError)):
        sedml.aggregate(VOTES, **TERMS, delta=0.0, budget=budget)
    assert not budget.ledger.exists()


@pytest.mark.usefixtures("forbid_opening")
def test_fingerprints_must_be_one_for_each_sample(budget):
    with pytest.raises(InputError):
        sedml.aggregate(VOTES, **TERMS, budget=budget, fingerprints=KEYS[:3])


def test_jobs_at_the_same_time_do_not_overdraw(budget):
    failures = []

    def ask():
        for _ in range(4):
            try:
                sedml.aggregate(VOTES, **TERMS, budget=budget)
            except SedmlError as error:
                failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(error, BudgetExceededError) for error in failures)
    assert status(budget).rho.spent <= status(budget).rho.budget


@pytest.mark.usefixtures("forbid_opening")
@pytest.mark.parametrize("terms", [{"threshold": 1}, {"threshold": 180}, {"delta": 0.5}, {"delta": 1e-300}])
def test_absurd_terms_are_refused_before_anything_is_charged(budget, terms):
    with pytest.raises(TaskError):
        sedml.aggregate(VOTES, **(TERMS | {"sigma": 2.0} | terms), budget=budget)
    assert not Path(budget.ledger).exists()


def transposed(votes, **terms):
    with pytest.warns(sedml.SedmlWarning, match="transpose the predictions") as caught:
        result = sedml.aggregate(votes, **(TERMS | {"sigma": 2.0} | terms))
    assert result.answered == 0
    return str(caught[0].message)


def test_transposed_predictions_are_noticed(budget):
    sideways = np.repeat(np.arange(200)[:, np.newaxis] % 3, 50, axis=1)
    text = transposed(sideways)
    assert "200 teachers on 50 samples, and none of these got a label" in text
    assert "If it is the other way round, transpose" in text
    transposed(np.eye(3)[sideways])
    transposed(sideways, sigma=30.0, threshold=1.0, budget=budget)
    assert sedml.aggregate(sideways.T, **(TERMS | {"sigma": 2.0})).answered == 200
