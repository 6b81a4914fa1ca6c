"""A job from creation to labels between two servers in one test: what must come out, and what must be refused."""

import random

import numpy as np
import pytest

from sedml.errors import ChannelError, ConflictError, JobStateError
from sedml.mpc.channel import MemoryChannel
from sedml.protocol import task as task_module
from sedml.lab.semi_honest.block import PROTOCOL_VERSION
from sedml.service.server.jobs import lifecycle
from sedml.service.server.jobs.records import get
from sedml.service.server.run import blocks, stages
from sedml.service.states import JobState
from support.deployment import (
    REQUESTER,
    charge_for,
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
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 8)


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
    assert np.array_equal(labels, expected_labels(task, votes, recorded_noise(deployed, terms.id, task)))
    answered = int((labels >= 0).sum())
    for node, view in zip(deployed.nodes, (status(deployed, role, terms.id) for role in (0, 1)), strict=True):
        assert (view.answered, view.samples_done, view.blocks_done) == (answered, 20, 3)
        spent = node.ledger.status("teachers").rho
        assert spent.reserved == 0
        assert spent.spent == pytest.approx(charge_for(node.ledger, terms, answered), rel=1e-6)


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
    assert not any(step == "commitment" for *_, step in deployed.sent)


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


def test_a_job_begun_with_one_version_does_not_go_on_with_another(deployed, monkeypatch):
    terms = closed_job(deployed)
    faults = deployed.sites[0].faults
    faults.after, faults.kind = faults.points + 40, "cut"
    deployed.meet(terms.id)
    assert states(deployed, terms.id) == (JobState.RUNNING, JobState.RUNNING)
    said = len(deployed.sent)
    for module in (stages, blocks):
        monkeypatch.setattr(module, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    deployed.meet(terms.id)
    assert states(deployed, terms.id) == (JobState.FAILED, JobState.FAILED)
    assert status(deployed, 0, terms.id).problem.type == "urn:sedml:replay"
    assert len(deployed.sent) == said
