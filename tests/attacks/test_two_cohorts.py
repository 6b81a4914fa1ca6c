"""The same teachers are asked in two cohorts, to have their votes charged to two budgets.

Each budget by itself is kept, and what the teachers were promised is passed all the same.
"""

from __future__ import annotations

import numpy as np
import pytest

from sedml.errors import SedmlError
from sedml.service.server.jobs import lifecycle
from sedml.service.server.run import roster
from sedml.service.states import JobState
from support.deployment import REQUESTER, Crash, closed_job, open_job, states, status
from support.tiers import ROLES

TEACHERS = [f"teacher-{number}" for number in range(6)]


@pytest.fixture
def server_settings():
    return {"budgets": {name: {"epsilon": 20.0, "delta": 1e-5} for name in ("teachers", "others")}}


def votes_of(names: list[str]) -> dict[str, np.ndarray]:
    return {name: np.zeros(8) for name in names}


def spent(deployed) -> list[list[float]]:
    return [
        [node.ledger.status(cohort).rho.spent for cohort in ("teachers", "others")] for node in deployed.nodes
    ]  # fmt: skip


def test_one_after_the_other(deployed):
    """The attack as it was: twenty teachers voted in both, and each cohort was charged for one."""
    for cohort in ("teachers", "others"):
        try:
            terms = closed_job(deployed, votes_of(TEACHERS), cohort=cohort)
            deployed.meet(terms.id)
        except SedmlError as error:
            refusal = error
    assert all(first > 0 and second == 0 for first, second in spent(deployed))
    assert 'belongs to cohort "teachers"' in refusal.what


def test_both_at_once(deployed):
    """Nobody belongs to a cohort yet when the votes are cast, so none is refused then."""
    opened = [open_job(deployed, votes_of(TEACHERS), cohort=cohort) for cohort in ("teachers", "others")]
    for terms in opened:
        for node in deployed.nodes:
            lifecycle.close(node, REQUESTER, terms.id)
    for terms in opened:
        deployed.meet(terms.id)
    assert states(deployed, opened[0].id) == (JobState.DONE, JobState.DONE)
    assert states(deployed, opened[1].id) == (JobState.REFUSED, JobState.REFUSED)
    assert all(first > 0 and second == 0 for first, second in spent(deployed))


def test_who_is_of_another_cohort_is_left_out_and_the_rest_is_counted(deployed):
    shared, own = TEACHERS[:2], TEACHERS[2:]
    second = open_job(deployed, votes_of(TEACHERS), cohort="others")
    deployed.meet(closed_job(deployed, votes_of(shared)).id)
    for node in deployed.nodes:
        lifecycle.close(node, REQUESTER, second.id)
    deployed.meet(second.id)
    assert states(deployed, second.id) == (JobState.DONE, JobState.DONE)
    assert [status(deployed, role, second.id).roster.teachers for role in (0, 1)] == [len(own)] * 2
    for node in deployed.nodes:
        assert {name: node.ledger.teacher(name).cohort for name in TEACHERS} == {
            **dict.fromkeys(shared, "teachers"),
            **dict.fromkeys(own, "others"),
        }


def test_a_server_that_forgot_follows_the_one_that_has_not(deployed):
    """One ledger alone knows that a teacher belongs elsewhere, as after a backup was put back or if a server lies."""
    second = open_job(deployed, votes_of(TEACHERS), cohort="others")
    node = deployed.nodes[1]
    node.ledger.reserve("teachers", "of the past", 1e-6, teachers=TEACHERS[:1])
    for one in deployed.nodes:
        lifecycle.close(one, REQUESTER, second.id)
    deployed.meet(second.id)
    assert [status(deployed, role, second.id).roster.teachers for role in (0, 1)] == [5, 5]
    assert deployed.nodes[0].ledger.teacher(TEACHERS[0]).cohort is None


@pytest.mark.parametrize("role", ROLES)
def test_after_a_crash_the_same_roster_comes_out(deployed, role):
    """Also if one who was counted is taken into another cohort meanwhile at the server that had not reserved yet."""
    second = open_job(deployed, votes_of(TEACHERS), cohort="others")
    for node in deployed.nodes:
        node.ledger.reserve("teachers", "of the past", 1e-6, teachers=TEACHERS[:1])
        lifecycle.close(node, REQUESTER, second.id)
    faults, rosters = deployed.sites[role].faults, set()
    for after in range(40):
        faults.arm(after, ("before", "after", "cut")[after % 3])
        deployed.meet(second.id)
        faults.arm(None)
        rosters |= {one.roster for one in (status(deployed, side, second.id) for side in (0, 1)) if one.roster}
        if states(deployed, second.id) == (JobState.DONE, JobState.DONE):
            break
    else:
        deployed.meet(second.id)
    assert states(deployed, second.id) == (JobState.DONE, JobState.DONE)
    assert [one.teachers for one in rosters] == [5]


def test_who_was_taken_elsewhere_between_two_meetings_is_left_out(deployed, monkeypatch):
    terms = closed_job(deployed, votes_of(TEACHERS), cohort="others")
    reserve = roster.charges.reserve

    def first_only_at_s0(node, *rest):
        if node.role == 1:
            raise Crash
        reserve(node, *rest)

    with monkeypatch.context() as broken:
        broken.setattr(roster.charges, "reserve", first_only_at_s0)
        deployed.meet(terms.id)
    assert [len(node.ledger.jobs("others")) for node in deployed.nodes] == [1, 0]
    deployed.nodes[1].ledger.reserve("teachers", "meanwhile", 1e-6, teachers=TEACHERS[:2])
    deployed.meet(terms.id)
    assert [status(deployed, role, terms.id).roster.teachers for role in (0, 1)] == [4, 4]
    assert [node.ledger.teacher(TEACHERS[0]).cohort for node in deployed.nodes] == [None, "teachers"]
    assert states(deployed, terms.id) == (JobState.DONE, JobState.DONE)


def test_a_job_that_came_to_nothing_binds_nobody(deployed):
    refused = closed_job(deployed, votes_of(TEACHERS), min_teachers=7)
    deployed.meet(refused.id)
    assert states(deployed, refused.id) == (JobState.REFUSED, JobState.REFUSED)
    deployed.meet(closed_job(deployed, votes_of(TEACHERS), cohort="others").id)
    assert all(node.ledger.teacher(TEACHERS[0]).cohort == "others" for node in deployed.nodes)
