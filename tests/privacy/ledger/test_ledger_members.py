"""Which cohort a teacher belongs to, its own account, and its own limit."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import BudgetExceededError, LedgerError, OtherCohortError, PrivacyError
from sedml.privacy.conversion import order_epsilon
from sedml.privacy.ledger import Ledger, State, TeacherAccount
from support.ledger_children import DELTA, EPSILON


@pytest.fixture
def two(ledger):
    ledger.set_budget("d", EPSILON, DELTA)
    return ledger


def test_a_teacher_belongs_to_the_cohort_of_the_first_job_that_counted_it(two):
    assert two.teacher("t") == TeacherAccount("t", None, 0.0, 0.0, None)
    two.reserve("c", "j", 0.01, teachers=["t", "u"])
    assert two.teacher("t").cohort == "c"
    refused = two.refusals("d", "k", 0.01, ["t", "u", "v"])
    assert set(refused) == {"t", "u"}
    assert isinstance(refused["t"], OtherCohortError)
    assert 'belongs to cohort "c"' in refused["t"].what
    before = two.status("d")
    with pytest.raises(LedgerError, match='belongs to cohort "c"'):
        two.reserve("d", "k", 0.01, teachers=["v", "t"])
    assert two.status("d") == before
    assert two.jobs("d") == []
    assert two.teacher("v").cohort is None
    two.reserve("c", "l", 0.01, teachers=["t", "v"])


def test_a_cancelled_job_neither_binds_nor_charges(two):
    two.reserve("c", "j", 0.01, teachers=["t"])
    two.cancel("c", "j")
    assert two.teacher("t").cohort is None
    two.reserve("d", "k", 0.01, teachers=["t"])
    assert two.teacher("t").cohort == "d"


def test_an_account_is_the_sum_of_what_jobs_cost(ledger):
    ledger.reserve("c", "j", 0.02, teachers=["t", "u"])
    ledger.reserve("c", "k", 0.03, teachers=["t"])
    reserved = ledger.teacher("t")
    limit, order = ledger.status("c").rho.budget, ledger.status("c").order
    assert reserved.used == pytest.approx(0.05 / limit)
    assert reserved.epsilon == pytest.approx(order_epsilon(order, order * 0.05, DELTA * 63 / 64))
    assert ledger.teacher("u").used == pytest.approx(0.02 / limit)
    for job in ("j", "k"):
        ledger.start("c", job)
    assert ledger.teacher("t") == reserved


def test_whom_a_job_counts_may_be_said_anew_until_it_is_started(two):
    two.reserve("c", "j", 0.01, teachers=["t", "u"])
    assert list(two.refusals("c", "j", 0.01, ["t", "u", "v"])) == ["v"]
    two.seat("c", "j", ["t"])
    assert (two.teacher("t").cohort, two.teacher("u").cohort) == ("c", None)
    two.reserve("d", "k", 0.01, teachers=["u"])
    with pytest.raises(LedgerError, match='belongs to cohort "d"'):
        two.seat("c", "j", ["t", "u"])
    two.start("c", "j")
    assert two.seat("c", "j", []).state is State.STARTED
    assert two.teacher("t").cohort == "c"


# ---- Limits -----------------------------------------------------------------------------------------


def test_a_job_that_could_pass_a_teachers_own_limit_must_not_count_it(ledger):
    account = ledger.set_limit("t", 1.5)
    assert (account.cohort, account.limit) == (None, 1.5)
    allowed = math.ldexp(ledger_rho_within(ledger, 1.5), -40)
    assert 0.0 < allowed < ledger.status("c").rho.budget
    ledger.reserve("c", "j", allowed / 2, teachers=["t", "u"])
    refused = ledger.refusals("c", "k", allowed * 0.51, ["t", "u"])
    assert list(refused) == ["t"]
    assert isinstance(refused["t"], BudgetExceededError)
    assert "own limit of epsilon 1.5" in refused["t"].what
    with pytest.raises(LedgerError, match="own limit"):
        ledger.reserve("c", "k", allowed * 0.51, teachers=["t"])
    ledger.reserve("c", "k", allowed * 0.49, teachers=["t"])
    assert ledger.teacher("t").epsilon <= 1.5
    ledger.set_limit("t", None)
    assert ledger.refusals("c", "l", 0.05, ["t"]) == {}


def test_a_limit_is_for_the_jobs_to_come(ledger):
    """A roster that one server has on record already must come out again at the other."""
    ledger.reserve("c", "j", 0.05, teachers=["t", "u"])
    assert ledger.set_limit("t", 1.0).epsilon > 1.0
    assert list(ledger.refusals("c", "j", 0.05, ["t", "u"])) == []
    assert ledger.seat("c", "j", ["t"]).state is State.RESERVED
    assert list(ledger.refusals("c", "k", 0.001, ["t", "u"])) == ["t"]


def ledger_rho_within(ledger, epsilon):
    from sedml.privacy.ledger.amounts import budget

    assert ledger.status("c").order == budget(EPSILON, DELTA).order
    return budget(EPSILON, DELTA).rho_within(epsilon)


@pytest.mark.parametrize("epsilon", [1e-9, 0.3, 2.001, 1e9, math.inf, math.nan])
def test_limits_that_cannot_be_kept_are_refused_and_the_smallest_is_named(ledger, epsilon):
    with pytest.raises(PrivacyError) as refused:
        ledger.set_limit("t", epsilon)
    least = float(refused.value.do.split()[1])
    assert 0.3 < least < 1.0
    assert ledger.teacher("t").limit is None
    assert ledger.set_limit("t", least).limit == least
    assert ledger.set_limit("t", EPSILON).limit == EPSILON


def test_without_any_cohort_there_is_no_limit_to_set(where):
    with Ledger.open(where) as ledger, pytest.raises(PrivacyError, match="No cohort"):
        ledger.set_limit("t", 1.0)


def test_two_jobs_of_two_cohorts_that_are_reserved_at_once_do_not_share_a_teacher(two):
    won: list[str] = []
    ready = threading.Barrier(2)

    def reserve(cohort):
        ready.wait()
        for number in range(5):
            try:
                two.reserve(cohort, f"j{number}", 0.001, teachers=["t", f"own {cohort}"])
                won.append(cohort)
            except LedgerError:
                pass

    threads = [threading.Thread(target=reserve, args=(cohort,)) for cohort in ("c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [two.teacher("t").cohort] * 5


CALLS = st.lists(
    st.tuples(st.sampled_from("cd"), st.floats(0.0, 0.06), st.sets(st.sampled_from("tuv")), st.sampled_from("scr")),
    max_size=8,
)


@settings(max_examples=15, deadline=None)
@given(calls=CALLS, limit=st.floats(0.9, 1.9))
def test_no_teacher_is_ever_charged_in_two_cohorts_nor_past_its_limit(tmp_path_factory, calls, limit):
    where = tmp_path_factory.mktemp("members") / "l.db"
    with Ledger.open(where) as ledger:
        for cohort in ("c", "d"):
            ledger.set_budget(cohort, EPSILON, DELTA)
        ledger.set_limit("t", limit)
        counted: dict[str, list[tuple[str, float]]] = {}
        for number, (cohort, rho, teachers, end) in enumerate(calls):
            job = f"j{number}"
            fine = teachers - set(ledger.refusals(cohort, job, rho, teachers))
            try:
                ledger.reserve(cohort, job, rho, teachers=fine)
            except BudgetExceededError:
                continue
            if end == "c":
                ledger.cancel(cohort, job)
                continue
            if end == "s":
                ledger.start(cohort, job)
            for teacher in fine:
                counted.setdefault(teacher, []).append((cohort, rho))
        for teacher, jobs in counted.items():
            account = ledger.teacher(teacher)
            assert {cohort for cohort, _ in jobs} == {account.cohort}
            total = sum(rho for _, rho in jobs)
            assert account.used == pytest.approx(min(1.0, total / ledger.status("c").rho.budget), abs=1e-9)
        assert ledger.teacher("t").epsilon <= limit + 1e-9
