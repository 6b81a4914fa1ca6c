"""What one server does to a job reaches the other, and of two jobs that compete for a budget one wins."""

import random
import threading
from unittest.mock import patch

import pytest

from sedml.errors import PeerGoneError
from sedml.mpc.channel import memory_pair
from sedml.service.server.jobs import charges, lifecycle
from sedml.service.server.jobs.records import get
from sedml.service.server.run import meeting, stages
from sedml.service.server.run.runner import attempt, calling
from sedml.service.states import JobState
from sedml.service.terms import charge_at
from support.deployment import REQUESTER, Crash, closed_job, states, terms_for
from support.tiers import ROLES


def reserved(deployed):
    return [node.ledger.status("teachers").rho.reserved for node in deployed.nodes]


def meet_at_once(deployed, *ids):
    """All of these jobs, each in a meeting of its own, at the same time."""

    def side(node, job, end):
        with end:
            attempt(node, job, lambda: meeting.meet(node, job, end))

    threads = []
    for job in ids:
        for node, end in zip(deployed.nodes, memory_pair(bytes(16), timeout=120.0), strict=True):
            threads.append(threading.Thread(target=side, args=(node, job, end)))
    random.Random(str(ids)).shuffle(threads)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_of_two_jobs_that_close_at_once_with_budget_for_one_one_wins(deployed, monkeypatch):
    """Though each server would reserve another one of them first, if both were asked about both at once."""
    rivals = [closed_job(deployed).id, closed_job(deployed).id]
    for node in deployed.nodes:  # all but what one of them may cost is taken
        node.ledger.reserve(
            "teachers", "others", node.ledger.status("teachers").rho.left - 1.5 * charge_of(node, rivals[0])
        )
    reserve, first = charges.reserve, {(role, rivals[role]): threading.Event() for role in (0, 1)}

    def in_another_order(node, job, *found):
        if (node.role, job) not in first:
            first[node.role, rivals[node.role]].wait(1.0)  # in vain, if there is one roster after the other
        reserve(node, job, *found)
        first.get((node.role, job), threading.Event()).set()

    monkeypatch.setattr(charges, "reserve", in_another_order)
    meet_at_once(deployed, *rivals)
    monkeypatch.undo()
    for job in rivals:
        deployed.meet(job)
    assert sorted(states(deployed, job)[0].value for job in rivals) == ["done", "refused"]
    assert all(len(set(states(deployed, job))) == 1 for job in rivals)


def charge_of(node, job):
    with node.store.read() as connection:
        return charge_at(get(connection, job).terms, node.ledger.status("teachers").order).rho


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("until", ["vote", "roster"])
def test_a_job_deleted_at_one_server_ends_at_the_other_and_holds_no_budget(deployed, role, until):
    job = closed_job(deployed).id
    if until == "roster":
        with patch.object(meeting, "_start", side_effect=PeerGoneError("The link is cut.", "")):
            deployed.meet(job)
        assert all(reserved(deployed))
    lifecycle.delete(deployed.nodes[role], REQUESTER, job)
    assert job in calling(deployed.nodes[1])
    deployed.meet(job)
    assert states(deployed, job)[role] is JobState.EXPIRED
    assert states(deployed, job)[1 - role] is JobState.REFUSED
    assert reserved(deployed) == [0, 0]
    deployed.meet(job)
    assert job not in calling(deployed.nodes[1])


def test_s1_does_not_call_for_ever_about_a_job_that_s0_does_not_know(deployed):
    terms = terms_for(8)
    lifecycle.create(deployed.nodes[1], REQUESTER, terms.id, terms)
    lifecycle.delete(deployed.nodes[1], REQUESTER, terms.id)
    assert terms.id in calling(deployed.nodes[1])
    deployed.meet(terms.id)
    assert terms.id not in calling(deployed.nodes[1])


def test_s1_calls_until_s0_has_acted_on_the_end_of_a_job(deployed, monkeypatch):
    """However often S0 crashes before it has."""
    job = closed_job(deployed).id
    lifecycle.delete(deployed.nodes[1], REQUESTER, job)
    end_too = stages._end_too

    def crash(node, record):
        if node.role == 0:
            raise Crash
        end_too(node, record)

    with monkeypatch.context() as patch:
        patch.setattr(stages, "_end_too", crash)
        for _ in range(3):
            deployed.meet(job)
            assert states(deployed, job)[0] is JobState.CLOSED
            assert job in calling(deployed.nodes[1])
    deployed.meet(job)
    assert states(deployed, job)[0] is JobState.REFUSED
    deployed.meet(job)
    assert job not in calling(deployed.nodes[1])
