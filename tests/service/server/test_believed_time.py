"""A clock that is wrong for a while deletes nothing and closes no vote; one that is right still does."""

from datetime import timedelta

import pytest
import structlog

from sedml.service.server.jobs import lifecycle, retention
from sedml.service.server.jobs.records import get
from sedml.service.server.node import now, open_node
from sedml.service.states import JobState
from support.deployment import (
    REQUESTER,
    START,
    closed_job,
    fetch_labels,
    open_job,
    states,
    status,
)

HOUR = 3600.0


@pytest.fixture
def server_settings():
    return {}


def done_job(deployed):
    job = closed_job(deployed).id
    assert deployed.meet(job) == ["done", "done"]
    return job


def sweep(deployed):
    for node in deployed.nodes:
        retention.sweep(node)


def confirm(deployed):
    """The servers hear each other's clock."""
    for node, other in zip(deployed.nodes, reversed(deployed.nodes), strict=True):
        node.time.hear(now(other))


@pytest.mark.parametrize("since", ["the start", "a while"])
def test_a_clock_40_days_ahead_for_13_seconds(deployed, since):
    if since == "a while":
        deployed.later(hours=2)
    waiting, done = open_job(deployed).id, done_job(deployed)
    deployed.clock.jump(days=40)
    with structlog.testing.capture_logs() as entries:
        for _ in range(3):
            sweep(deployed)
            deployed.later(seconds=5)
    assert {entry["event"] for entry in entries} == {"clock.jump", "retention.held"}
    deployed.clock.jump(days=-40)
    sweep(deployed)
    assert states(deployed, waiting) == (JobState.OPEN, JobState.OPEN)
    for node in deployed.nodes:
        lifecycle.close(node, REQUESTER, waiting)
    assert deployed.meet(waiting) == ["done", "done"]  # with its ballot
    for job in (waiting, done):
        fetch_labels(deployed, job, task_of(deployed, job))


def task_of(deployed, job):
    with deployed.nodes[0].store.read() as connection:
        return get(connection, job).task


def test_started_with_a_wrong_clock(deployed):
    waiting = open_job(deployed).id
    deployed.clock.jump(days=40)
    for site in deployed.sites:
        site.node.close()
        site.node = open_node(site.kit, site.node.settings, clock=site.clock, steady=site.clock.steady)
    sweep(deployed)
    assert states(deployed, waiting) == (JobState.OPEN, JobState.OPEN)
    confirm(deployed)
    sweep(deployed)
    assert states(deployed, waiting) == (JobState.CLOSED, JobState.CLOSED)


def test_time_that_really_passes_is_believed(deployed):
    waiting, done = open_job(deployed).id, done_job(deployed)
    deployed.later(days=40)
    sweep(deployed)
    assert states(deployed, waiting) == (JobState.CLOSED, JobState.CLOSED)
    assert status(deployed, 0, done).deleted
    deployed.later(days=8)
    sweep(deployed)
    assert states(deployed, waiting) == (JobState.EXPIRED, JobState.EXPIRED)


@pytest.mark.parametrize("how", ["the other server says the same", "an hour goes by"])
def test_a_clock_that_was_set_right_is_believed_again(deployed, how):
    """As after a machine was switched off for weeks, or its clock was wrong before."""
    waiting = open_job(deployed).id
    deployed.clock.jump(days=2)
    sweep(deployed)
    assert states(deployed, waiting)[0] is JobState.OPEN
    if how == "an hour goes by":
        deployed.later(seconds=HOUR - 1)
        sweep(deployed)
        assert states(deployed, waiting)[0] is JobState.OPEN
        deployed.later(seconds=1)
    else:
        confirm(deployed)
    sweep(deployed)
    assert states(deployed, waiting) == (JobState.CLOSED, JobState.CLOSED)


@pytest.mark.parametrize("apart", [-301.0, 301.0, 40 * 86_400.0])
def test_two_clocks_that_differ_delete_nothing_however_long_they_go_on(deployed, apart):
    waiting = open_job(deployed).id
    node = deployed.nodes[0]
    deployed.later(days=40)
    node.time.hear(now(node) + apart)
    deployed.later(hours=2)
    retention.sweep(node)
    assert states(deployed, waiting)[0] is JobState.OPEN
    assert "away from it" in node.time.doubt()
    node.time.hear(now(node) + 299)
    retention.sweep(node)
    assert states(deployed, waiting)[0] is JobState.CLOSED


@pytest.mark.parametrize("seconds", [-59, 59])
def test_what_a_clock_is_set_by_day_by_day_is_no_jump(deployed, seconds):
    deployed.later(hours=1)
    deployed.clock.jump(seconds=seconds)
    assert deployed.nodes[0].time.doubt() is None


@pytest.mark.parametrize("restarted", [False, True])
def test_what_ended_by_a_clock_that_was_behind_is_kept_as_long_as_any(deployed, restarted):
    deployed.later(hours=2)
    deployed.clock.jump(days=-40)
    done, waiting = done_job(deployed), open_job(deployed).id
    for node in deployed.nodes:
        lifecycle.close(node, REQUESTER, waiting)
    if restarted:
        for site in deployed.sites:
            site.restart()
    deployed.clock.jump(days=40)
    sweep(deployed)
    confirm(deployed)
    sweep(deployed)
    assert not status(deployed, 0, done).deleted
    assert states(deployed, waiting) == (JobState.CLOSED, JobState.CLOSED)
    deployed.later(days=6)
    sweep(deployed)
    assert states(deployed, waiting) == (JobState.CLOSED, JobState.CLOSED)
    deployed.later(days=23)
    sweep(deployed)
    assert not status(deployed, 0, done).deleted
    assert states(deployed, waiting) == (JobState.EXPIRED, JobState.EXPIRED)
    deployed.later(days=2)
    sweep(deployed)
    assert status(deployed, 0, done).deleted


def test_inputs_that_are_not_kept_at_all_do_not_wait_for_a_clock(deployed):
    job = open_job(deployed).id
    for node in deployed.nodes:
        lifecycle.close(node, REQUESTER, job)
    faults = deployed.sites[0].faults
    faults.after, faults.kind = faults.points + 20, "cut"
    deployed.meet(job)
    faults.arm(None)
    with deployed.nodes[0].store.write() as connection:
        connection.exec_driver_sql("UPDATE sedml_store_blocks SET attempt = 99")
    deployed.meet(job)
    assert states(deployed, job)[0] is JobState.FAILED
    deployed.clock.jump(days=-3)
    sweep(deployed)
    with deployed.nodes[0].store.read() as connection:
        left = connection.exec_driver_sql("SELECT count(sealed) FROM sedml_store_ballot_pages").scalar()
    assert left == 0


def test_a_closed_job_that_never_runs_holds_its_budget_for_the_grace_and_no_longer(deployed):
    terms = closed_job(deployed, deadline=int((START + timedelta(days=365)).timestamp()))
    faults = deployed.sites[0].faults
    faults.after, faults.kind = faults.points + 4, "cut"
    deployed.meet(terms.id)
    faults.arm(None)
    assert deployed.nodes[0].ledger.status("teachers").rho.reserved > 0
    deployed.later(days=8)
    sweep(deployed)
    assert states(deployed, terms.id)[0] is JobState.EXPIRED
    assert all(node.ledger.status("teachers").rho.reserved == 0 for node in deployed.nodes)
