"""A teacher's own account and limit at the servers."""

from __future__ import annotations

import numpy as np
import pytest

from sedml.errors import BudgetExceededError, ForbiddenError, PrivacyError
from sedml.service.messages import OwnLimit
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import charges, lifecycle
from sedml.service.states import JobState
from sedml.service.terms import charge_at
from support.deployment import REQUESTER, closed_job, open_job, states, status

TEACHERS = [f"teacher-{number}" for number in range(4)]
FIRST = Caller(TEACHERS[0], "teacher")
VOTES = {name: np.zeros(8) for name in TEACHERS}


def limit_at_both(deployed, epsilon: float | None) -> None:
    for node in deployed.nodes:
        charges.set_limit(node, FIRST, OwnLimit(limit=epsilon))


def tight_limit(deployed, jobs_within: float) -> float:
    """An epsilon that so many jobs of the usual terms fit into, at the order of the cohort."""
    from sedml.privacy.ledger.amounts import budget
    from support.deployment import terms_for

    promised = budget(20.0, 1e-5)
    cost = charge_at(terms_for(8), promised.order)
    return promised.epsilon_of(promised.charge(jobs_within * cost.rho, 0.0).rho)


def test_an_account_begins_empty_and_shows_what_jobs_cost(deployed):
    node = deployed.nodes[0]
    empty = charges.own_budget(node, FIRST)
    assert (empty.cohort, empty.epsilon, empty.used, empty.used_epsilon, empty.limit) == (None, None, 0.0, 0.0, None)
    terms = closed_job(deployed, VOTES)
    deployed.meet(terms.id)
    shown = charges.own_budget(node, FIRST)
    entry, limit = node.ledger.job("teachers", terms.id), node.ledger.status("teachers").rho.budget
    assert (shown.cohort, shown.epsilon, shown.delta) == ("teachers", 20.0, 1e-5)
    assert shown.used == pytest.approx(entry.rho / limit)
    assert 0.0 < shown.used_epsilon < 20.0
    with pytest.raises(ForbiddenError):
        charges.own_budget(node, REQUESTER)
    with pytest.raises(ForbiddenError):
        charges.set_limit(node, REQUESTER, OwnLimit(limit=1.0))


def test_a_vote_on_a_job_that_could_pass_the_limit_is_refused(deployed):
    limit_at_both(deployed, tight_limit(deployed, 0.9))
    with pytest.raises(BudgetExceededError, match=r"teacher-0 could pass its own limit"):
        open_job(deployed, VOTES)
    operator = Caller("operator-s0", "operator")
    assert ("limit", FIRST.name) in {
        (one.opened.action, one.opened.subject) for one in public_log.page(deployed.nodes[0], operator, 0).entries
    }
    limit_at_both(deployed, None)
    open_job(deployed, VOTES)


@pytest.mark.parametrize("knows", [(0, 1), (1,)], ids=["both", "s1 alone"])
def test_who_sets_a_limit_after_the_vote_is_left_out_at_both_servers(deployed, knows):
    terms = closed_job(deployed, VOTES)
    for role in knows:
        charges.set_limit(deployed.nodes[role], FIRST, OwnLimit(limit=tight_limit(deployed, 0.9)))
    deployed.meet(terms.id)
    assert [status(deployed, role, terms.id).roster.teachers for role in (0, 1)] == [3, 3]
    assert all(charges.own_budget(node, FIRST).used == 0.0 for node in deployed.nodes)


def test_a_job_that_is_left_with_too_few_is_refused_and_nothing_is_charged(deployed):
    terms = closed_job(deployed, VOTES, min_teachers=4)
    limit_at_both(deployed, tight_limit(deployed, 0.9))
    deployed.meet(terms.id)
    assert states(deployed, terms.id) == (JobState.REFUSED, JobState.REFUSED)
    for node in deployed.nodes:
        used = node.ledger.status("teachers").rho
        assert (used.spent, used.reserved) == (0.0, 0.0)


def test_a_limit_holds_for_all_jobs_together_and_the_others_go_on(deployed):
    limit_at_both(deployed, tight_limit(deployed, 2.3))
    counted = []
    made = [open_job(deployed, VOTES) for _ in range(3)]  # voted on before the first is charged
    for terms in made:
        for node in deployed.nodes:
            lifecycle.close(node, REQUESTER, terms.id)
        deployed.meet(terms.id)
        counted.append(status(deployed, 0, terms.id).roster.teachers)
    assert counted == [4, 4, 3]
    shown = charges.own_budget(deployed.nodes[0], FIRST)
    assert shown.used_epsilon <= shown.limit


def test_a_limit_that_cannot_be_kept_is_refused(deployed):
    for epsilon in (1e-6, 20.5):
        with pytest.raises(PrivacyError, match="cannot be kept"):
            limit_at_both(deployed, epsilon)
    assert charges.own_budget(deployed.nodes[0], FIRST).limit is None


def test_a_teacher_that_was_revoked_and_enrolled_again_keeps_its_account(deployed):
    from sedml.service.server.ops import accounts
    from sedml.service.server_messages import Enrolment

    node, operator = deployed.nodes[0], Caller("operator-s0", "operator")
    accounts.enrol(node, operator, FIRST.name, Enrolment(role="teacher", token_hash="0" * 64))
    deployed.meet(closed_job(deployed, VOTES).id)
    limit_at_both(deployed, 19.0)
    before = charges.own_budget(node, FIRST)
    accounts.revoke(node, operator, FIRST.name)
    accounts.enrol(node, operator, FIRST.name, Enrolment(role="teacher", token_hash="1" * 64))
    assert charges.own_budget(node, FIRST) == before
