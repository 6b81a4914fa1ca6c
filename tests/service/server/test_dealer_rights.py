"""A job whose terms name a dealer: that one deals and nobody else, and it sees nothing but how the job stands."""

import random

import numpy as np
import pytest

from sedml.errors import ForbiddenError, NotFoundError, TaskError
from sedml.protocol import task as task_module
from sedml.service.server import accounts, corrections, jobs, voting
from sedml.service.server.access import Caller
from sedml.service.states import JobState
from sedml.service.terms import Terms, task_of
from support.deployment import (
    REQUESTER,
    deal_to,
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

DEALER, OTHER = (Caller(f"dealer-{number}", "dealer") for number in (1, 2))
OPERATOR = Caller("operator-s0", "operator")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_SAMPLES", 8)


@pytest.fixture
def deployed(tmp_path):
    made = deployment(tmp_path, keep_inputs="1d")
    yield made
    made.close()


def closed(deployed, **terms):
    """A job of 20 samples whose vote is over: terms, task and votes."""
    rng = random.Random(7)
    made = terms_for(20, **terms)
    ballots = []
    for node in deployed.nodes:
        publish(node, made)
    for number in range(3):
        votes = np.array([rng.randrange(-1, made.classes) for _ in range(made.samples)], np.int16)
        ballots.append(make_ballot(f"teacher-{number}", votes, made, rng))
        for node in deployed.nodes:
            ballots[-1].send(node, made.id)
    for node in deployed.nodes:
        jobs.close(node, REQUESTER, made.id)
    deployed.meet(made.id)
    roster = status(deployed, 0, made.id).roster
    return made, task_of(made, roster.teachers, roster.digest), np.array([ballot.votes for ballot in ballots])


def test_who_deals_is_part_of_the_hash_and_nobody_named_is_as_if_there_were_no_such_field():
    plain = terms_for(8)
    named = plain.model_copy(update={"dealer": "dealer-1"})
    assert len({plain.id, named.id, plain.model_copy(update={"dealer": "dealer-2"}).id}) == 3
    # The hash of what it was before a dealer could be named.
    fixed = plain.model_copy(update={"nonce": "0" * 32, "deadline": 2_000_000_000})
    assert fixed.id == Terms(**fixed.model_dump(exclude={"dealer"})).id == "8dd9a447b027716f2c01f766276956a5"


def test_the_dealer_that_is_named_deals_and_the_requester_gets_the_labels(deployed):
    terms, task, votes = closed(deployed, dealer="dealer-1")
    deal_to(deployed, terms.id, task, dealer=DEALER)
    deal_to(deployed, terms.id, task, dealer=DEALER)
    assert states(deployed, terms.id) == (JobState.DEALT, JobState.DEALT)
    deployed.meet(terms.id)
    labels = fetch_labels(deployed, terms.id, task)
    np.testing.assert_array_equal(labels, expected_labels(task, votes, recorded_noise(deployed, terms.id, task)))


@pytest.mark.parametrize(
    "caller",
    [
        REQUESTER,
        OTHER,
        Caller("requester-2", "requester"),
        Caller("teacher-1", "teacher"),
        OPERATOR,
        # Somebody who has the name, by a mistake of an operator, and not the role.
        Caller("dealer-1", "requester"),
        Caller("dealer-1", "teacher"),
    ],
    ids=str,
)
def test_nobody_else_deals_for_it(deployed, caller):
    terms, task, _ = closed(deployed, dealer="dealer-1")
    key, node = task.id.hex(), deployed.nodes[1]
    for call in (
        lambda: corrections.expect_seed(node, caller, terms.id, key),
        lambda: corrections.accept_seed(node, caller, terms.id, key, bytes(32)),
        lambda: corrections.expect_corrections(node, caller, terms.id, key, 0),
        lambda: corrections.accept_corrections(node, caller, terms.id, key, 0, b""),
    ):
        with pytest.raises(ForbiddenError):
            call()
    assert states(deployed, terms.id) == (JobState.CLOSED, JobState.CLOSED)


def test_a_dealer_does_not_deal_for_a_requester_that_does_so_itself(deployed):
    terms, task, _ = closed(deployed)
    for name in ("dealer-1", REQUESTER.name):
        with pytest.raises(ForbiddenError):
            corrections.accept_seed(deployed.nodes[0], Caller(name, "dealer"), terms.id, task.id.hex(), bytes(32))
    with pytest.raises(NotFoundError):
        corrections.expect_seed(deployed.nodes[0], Caller("requester-2", "requester"), terms.id, task.id.hex())
    deal_to(deployed, terms.id, task)
    assert states(deployed, terms.id) == (JobState.DEALT, JobState.DEALT)


def test_a_dealer_sees_the_jobs_that_name_it_and_nothing_of_what_is_in_them(deployed):
    terms, task, _ = closed(deployed, dealer="dealer-1")
    # A title that looks like the field, and names of which one is a pattern for the other.
    titled = terms_for(8, title='"dealer":"dealer-1"')
    node = deployed.nodes[0]
    publish(node, titled)
    assert [job.id for job in jobs.listed(node, DEALER).jobs] == [terms.id]
    assert jobs.listed(node, OTHER).jobs == jobs.listed(node, Caller("dealer_1", "dealer")).jobs == []
    assert jobs.listed(node, Caller("dealer-", "dealer")).jobs == []
    assert jobs.status(node, DEALER, terms.id).task == task.id.hex()
    for caller, job in ((OTHER, terms.id), (DEALER, titled.id)):
        with pytest.raises(NotFoundError):
            jobs.status(node, caller, job)
    deal_to(deployed, terms.id, task, dealer=DEALER)
    deployed.meet(terms.id)
    assert jobs.status(node, DEALER, terms.id).state is JobState.DONE
    for call in (
        lambda: voting.data_file(node, DEALER, terms.id),
        lambda: voting.receipt(node, DEALER, terms.id),
        lambda: voting.expect_ballot(node, DEALER, terms.id, "0" * 32),
        lambda: jobs.label_share(node, DEALER, terms.id, 0),
        lambda: jobs.close(node, DEALER, terms.id),
        lambda: jobs.delete(node, DEALER, terms.id),
        lambda: jobs.create(node, DEALER, titled.id, titled),
        lambda: accounts.listed(node, DEALER),
    ):
        with pytest.raises(ForbiddenError):
            call()
    assert len(jobs.label_share(node, REQUESTER, terms.id, 0)) > 0


def test_a_job_that_nobody_could_deal_for_is_not_taken(deployed):
    node = deployed.nodes[0]
    accounts.revoke(node, OPERATOR, "dealer-2")
    for name in ("dealer-3", "operator-s0", "dealer-2"):
        terms = terms_for(8, dealer=name)
        with pytest.raises(TaskError, match=f"no dealer {name}"):
            jobs.create(node, REQUESTER, terms.id, terms)
    terms = terms_for(8, dealer="dealer-1")
    assert jobs.create(node, REQUESTER, terms.id, terms)[0].terms.dealer == "dealer-1"
