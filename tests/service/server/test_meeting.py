"""A job from creation to labels between two servers in one test: what must come out, and what must be refused."""

import random

import numpy as np
import pytest
import sqlalchemy as sa

from sedml.errors import ChannelError, CheatingError, ConflictError, JobStateError, PeerGoneError, StoreError
from sedml.mpc.channel import MemoryChannel
from sedml.mpc.channel.base import first_cause
from sedml.protocol import task as task_module
from sedml.protocol.block import PROTOCOL_VERSION
from sedml.service.server.jobs import lifecycle
from sedml.service.server.jobs.records import get
from sedml.service.server.storage.tables import blocks as table
from sedml.service.states import JobState
from support.deployment import (
    REQUESTER,
    check_charged_once,
    deployment,
    expected_labels,
    fetch_labels,
    make_ballot,
    publish,
    recorded_noise,
    states,
    status,
    terms_for,
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 8)


@pytest.fixture
def deployed(tmp_path):
    made = deployment(tmp_path, keep_inputs="1d")
    yield made
    made.close()


def vote_on(deployed, terms, teachers, rng, which=(0, 1)):
    ballots = []
    for number in range(teachers):
        votes = np.array([rng.randrange(-1, terms.classes) for _ in range(terms.samples)], np.int16)
        ballot = make_ballot(f"teacher-{number}", votes, terms, rng)
        for role in which:
            ballot.send(deployed.nodes[role], terms.id)
        ballots.append(ballot)
    return ballots


def close_both(deployed, job):
    for node in deployed.nodes:
        lifecycle.close(node, REQUESTER, job)


def test_a_job_gives_the_labels_of_the_ideal_and_costs_once(deployed):
    terms, rng = terms_for(20), random.Random(1)
    for node in deployed.nodes:
        publish(node, terms)
    ballots = vote_on(deployed, terms, 5, rng)
    lifecycle.close(deployed.nodes[1], REQUESTER, terms.id)
    assert deployed.meet(terms.id) == ["wait", "wait"]  # S0 is not closed yet
    close_both(deployed, terms.id)
    assert deployed.meet(terms.id) == ["done", "done"]
    views = [status(deployed, role, terms.id) for role in (0, 1)]
    assert views[0].roster == views[1].roster
    assert views[0].roster.teachers == 5
    with deployed.nodes[0].store.read() as connection:
        task = get(connection, terms.id).task
    assert states(deployed, terms.id) == (JobState.DONE, JobState.DONE)
    labels = fetch_labels(deployed, terms.id, task)
    votes = np.stack([ballot.votes for ballot in ballots])
    assert np.array_equal(labels, expected_labels(task, votes, recorded_noise(deployed, task)))
    for role, node in enumerate(deployed.nodes):
        view = status(deployed, role, terms.id)
        assert (view.extra_attempts, view.samples_done, view.blocks_done) == (0, 20, 3)
        assert node.ledger.status("teachers").rho.reserved == 0
        check_charged_once(node.ledger, terms)


def test_only_pairs_of_one_ballot_are_counted(deployed):
    terms, rng = terms_for(8), random.Random(2)
    for node in deployed.nodes:
        publish(node, terms)
    vote_on(deployed, terms, 3, rng)
    votes = np.zeros(8, np.int16)
    make_ballot("only-s0", votes, terms, rng).send(deployed.nodes[0], terms.id)
    make_ballot("only-s1", votes, terms, rng).send(deployed.nodes[1], terms.id)
    for node in deployed.nodes:  # two different ballots of one teacher, one half each
        make_ballot("mixed", votes, terms, rng).send(node, terms.id)
    close_both(deployed, terms.id)
    deployed.meet(terms.id)
    assert [status(deployed, role, terms.id).roster.teachers for role in (0, 1)] == [3, 3]


def test_too_few_teachers_are_refused_and_nothing_is_charged(deployed):
    terms, rng = terms_for(8, min_teachers=4), random.Random(3)
    for node in deployed.nodes:
        publish(node, terms)
    vote_on(deployed, terms, 3, rng)
    close_both(deployed, terms.id)
    assert deployed.meet(terms.id) == ["over", "over"]
    assert states(deployed, terms.id) == (JobState.REFUSED, JobState.REFUSED)
    assert status(deployed, 0, terms.id).problem.type == "urn:sedml:too-few-teachers"
    assert all(
        node.ledger.status("teachers").rho.left == node.ledger.status("teachers").rho.budget for node in deployed.nodes
    )
    assert not any(step == "progress" for *_, step in deployed.sent)


def test_one_server_alone_can_refuse_for_its_budget(deployed):
    terms, rng = terms_for(8), random.Random(4)
    for node in deployed.nodes:
        publish(node, terms)
    vote_on(deployed, terms, 3, rng)
    ledger = deployed.nodes[1].ledger
    ledger.reserve("teachers", "another job", ledger.status("teachers").rho.left * 0.999999)
    close_both(deployed, terms.id)
    assert deployed.meet(terms.id) == ["over", "over"]
    assert states(deployed, terms.id) == (JobState.REFUSED, JobState.REFUSED)
    assert deployed.nodes[0].ledger.status("teachers").rho.reserved == 0


def test_the_first_ballot_stands(deployed):
    terms, rng = terms_for(8), random.Random(5)
    node = deployed.nodes[0]
    publish(node, terms)
    ballot = make_ballot("t", np.zeros(8, np.int16), terms, rng)
    receipt, new = ballot.send(node, terms.id)
    assert new
    assert ballot.send(node, terms.id) == (receipt, False)
    with pytest.raises(ConflictError):
        make_ballot("t", np.ones(8, np.int16), terms, rng).send(node, terms.id)
    lifecycle.close(node, REQUESTER, terms.id)
    assert ballot.send(node, terms.id) == (receipt, False)
    with pytest.raises(JobStateError):
        make_ballot("late", np.ones(8, np.int16), terms, rng).send(node, terms.id)


def closed_job(deployed):
    terms = terms_for(8)
    for node in deployed.nodes:
        publish(node, terms)
    vote_on(deployed, terms, 3, random.Random(5))
    close_both(deployed, terms.id)
    return terms


def test_servers_of_two_versions_of_the_protocol_wait_for_each_other(deployed, monkeypatch):
    terms = closed_job(deployed)
    exchange = MemoryChannel.exchange

    def one_ahead(self, block, step, arrays):
        came = exchange(self, block, step, arrays)
        if step == "position":
            came[0][2] += 1
        return came

    with monkeypatch.context() as patch:
        patch.setattr(MemoryChannel, "exchange", one_ahead)
        assert all(isinstance(result, ChannelError) for result in deployed.meet(terms.id))
    said = f"version {PROTOCOL_VERSION + 1} of the protocol; this is version {PROTOCOL_VERSION}"
    assert said in status(deployed, 0, terms.id).problem.title
    assert deployed.meet(terms.id) == ["done", "done"]


def test_all_that_lies_on_disk_and_is_shown_is_the_same_whatever_the_answers(deployed):
    """Nothing but the sealed bytes differs between a job with labels and one without, and these not in size."""
    seen = []
    for vote in (0, -1):
        terms = closed_job_with(deployed, np.full(20, vote, np.int16))
        assert deployed.meet(terms.id) == ["done", "done"]
        for role, node in enumerate(deployed.nodes):
            with node.store.read() as connection:
                rows = connection.execute(sa.select(table).where(table.c.job == terms.id)).mappings().all()
            hidden = {"job", "sealed_labels", "seconds"}
            shown = [{name: value for name, value in row.items() if name not in hidden} for row in rows]
            sizes = [len(row["sealed_labels"]) for row in rows]
            told = status(deployed, role, terms.id).model_dump(
                exclude={"id", "terms", "roster", "task", "protocol_seconds", "budget"}
            )
            seen.append((role, shown, sizes, told))
    assert seen[:2] == seen[2:]


def closed_job_with(deployed, votes):
    terms = terms_for(len(votes), sigma=4.0)
    for node in deployed.nodes:
        publish(node, terms)
    for number in range(20):
        ballot = make_ballot(f"teacher-{number}", votes, terms, random.Random(number))
        for node in deployed.nodes:
            ballot.send(node, terms.id)
    close_both(deployed, terms.id)
    return terms


@pytest.mark.parametrize("other", [StoreError("It is full.", "Make room."), ConflictError("It went on.", "Look.")])
def test_what_else_goes_wrong_does_not_hide_that_the_other_server_was_caught(other):
    caught = CheatingError("The other server cheated.", "Tell both operators.")
    gone = PeerGoneError("It is gone.", "Wait.")
    for errors in ([other, gone, caught], [caught, other], [gone, caught]):
        assert first_cause(errors) is caught
    assert first_cause([gone, other]) is other
