"""Organisations that would sway more votes than they have, or whose units would be in more parts than was said."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sedml.errors import (
    BallotError,
    BodyTooLargeError,
    ConflictError,
    InputError,
    PredictionsError,
    PrivacyError,
    SedmlWarning,
    TaskError,
)
from sedml.mpc.prg import Seed
from sedml.parts.part_manifest import PartFile, Parts
from sedml.parts.part_models import PartModels
from sedml.protocol.ballots import BallotShape, cast, examine
from sedml.protocol.ballots.casting import page_context, share
from sedml.service.client.predicting import vote_rows
from sedml.service.client.voters import Voter, as_voter
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle, voting
from sedml.service.server.ops import accounts
from sedml.service.server_messages import Enrolment
from sedml.service.states import JobState
from sedml.service.terms import check_terms, task_of
from support.deployment import (
    REQUESTER,
    accept_ballot,
    check_charged_once,
    closed_job,
    expected_labels,
    fetch_labels,
    make_ballot,
    open_job,
    publish,
    recorded_noise,
    states,
    status,
    terms_for,
)
from support.harness import fixed_seed, numbers

OPERATORS = tuple(Caller(f"operator-s{role}", "operator") for role in (0, 1))
PATIENTS = {"unit": "patient", "votes": 5}


@pytest.fixture
def server_settings():
    return {"keep_inputs": "1d", "budgets": {"teachers": {"epsilon": 20.0, "delta": 1e-5, "unit": "patient"}}}


def rows(votes: int, samples: int, seed: int = 0) -> np.ndarray:
    return numbers(seed).integers(-1, 3, (votes, samples)).astype(np.int16)


# ---- The honest run ---------------------------------------------------------------------------------------------


def test_every_vote_of_every_part_is_counted_once(deployed):
    cast_by = {f"hospital-{k}": rows(5, 40, k) for k in range(4)}
    terms = closed_job(deployed, cast_by, sigma=12.0, epsilon=20.0, **PATIENTS)
    deployed.meet(terms.id)
    assert states(deployed, terms.id) == (JobState.DONE, JobState.DONE)
    found = status(deployed, 0, terms.id)
    assert found.roster.teachers == 4
    task = task_of(terms, 4, found.roster.digest)
    assert (task.most_votes, task.threshold) == (20, 10)
    noises = recorded_noise(deployed, task)
    expected = expected_labels(task, np.concatenate(list(cast_by.values())), noises)
    assert np.array_equal(fetch_labels(deployed, terms.id, task), expected)
    for node in deployed.nodes:
        check_charged_once(node.ledger, terms)


# ---- More votes than there are ----------------------------------------------------------------------------------


def test_a_ballot_of_one_vote_too_many_has_two_names():
    """m + 1 votes on one sample, with a proof for them: each server computes another name, so it counts nowhere."""
    shape, job = BallotShape(4, 3, 5), b"job of sixteen b"
    honest = np.zeros((4, 3), np.uint32)
    honest[:, 0] = 5
    for extra in (0, 1):
        x = honest.copy()
        x[2, 1] += extra
        page = shape.page(0)
        name, *parts = share(x.ravel(), page, page_context(shape, job, "hospital", 0), fixed_seed(1), fixed_seed(2))
        names = [examine(role, part, shape, job, "hospital").name for role, part in enumerate(parts)]
        assert (names[0] == names[1]) == (extra == 0), name


def test_a_ballot_of_more_votes_does_not_fit_terms_of_fewer(deployed):
    terms = open_job(deployed, {"hospital-0": rows(5, 8)}, **PATIENTS)
    bigger = terms.model_copy(update={"votes": 6})
    made = cast(rows(6, 8), bigger.ballot, bytes.fromhex(terms.id), "hospital-1", Seed(bytes(32)))
    for node in deployed.nodes:
        with pytest.raises((BallotError, BodyTooLargeError)):
            accept_ballot(node, Caller("hospital-1", "teacher"), terms.id, made.name.hex(), made.halves[node.role])


def test_one_row_too_many_is_refused_before_anything_is_sent():
    terms = terms_for(8, **PATIENTS)
    with pytest.raises(PredictionsError, match="6 rows, and this job's terms allow 5 votes"):
        vote_rows(rows(6, 8), terms)
    assert vote_rows(rows(2, 8), terms).shape == (5, 8)
    assert (vote_rows(rows(2, 8), terms)[2:] == -1).all()
    assert np.array_equal(vote_rows(rows(1, 8)[0], terms)[0], rows(1, 8)[0])
    with pytest.raises(PredictionsError, match="5 rows for 7 samples"):
        vote_rows(rows(5, 7), terms)


# ---- Two accounts of one organisation ---------------------------------------------------------------------------


def enrolled(deployed, name: str, organisation: str | None, token: str) -> None:
    enrolment = Enrolment(role="teacher", token_hash=token * 32, organisation=organisation)
    for node, operator in zip(deployed.nodes, OPERATORS, strict=True):
        accounts.enrol(node, operator, name, enrolment)


def test_an_organisation_has_one_account_at_a_time(deployed):
    enrolled(deployed, "clinic-a", "university", "aa")
    with pytest.raises(ConflictError, match="university has the account clinic-a"):
        enrolled(deployed, "clinic-b", "university", "bb")
    with pytest.raises(ConflictError, match="university has the account clinic-a"):
        enrolled(deployed, "university", None, "bb")
    with pytest.raises(ConflictError, match="another role, token or organisation"):
        enrolled(deployed, "clinic-a", "elsewhere", "aa")
    for node, operator in zip(deployed.nodes, OPERATORS, strict=True):
        accounts.revoke(node, operator, "clinic-a")
    enrolled(deployed, "clinic-b", "university", "bb")


def test_an_organisation_that_comes_back_under_another_account_votes_once(deployed):
    """It votes, has its account revoked and another one added: on the job it has voted on, that changes nothing."""
    terms = open_job(deployed, {"clinic-a": rows(5, 8)}, **PATIENTS)
    again = make_ballot("clinic-b", rows(5, 8, 1), terms, random.Random(2))
    for node in deployed.nodes:
        caller = Caller("clinic-b", "teacher", organisation="clinic-a")
        with pytest.raises(ConflictError, match="under another account"):
            accept_ballot(node, caller, terms.id, again.name, again.halves[node.role])
        lifecycle.close(node, REQUESTER, terms.id)
    deployed.meet(terms.id)
    assert status(deployed, 0, terms.id).roster.teachers == 1
    for node in deployed.nodes:
        assert node.ledger.teacher("clinic-a").cohort == "teachers"
        assert node.ledger.teacher("clinic-b").cohort is None


def test_what_was_spent_on_an_organisation_stays_with_it_under_another_account(deployed):
    deployed.meet(closed_job(deployed, {"clinic-a": rows(5, 8)}, **PATIENTS).id)
    other = terms_for(8, **PATIENTS, nonce="1" * 32)
    ballot = make_ballot("clinic-b", rows(5, 8), other, random.Random(2))
    for node in deployed.nodes:
        before = node.ledger.teacher("clinic-a").used
        publish(node, other)
        caller = Caller("clinic-b", "teacher", organisation="clinic-a")
        accept_ballot(node, caller, other.id, ballot.name, ballot.halves[node.role])
        lifecycle.close(node, REQUESTER, other.id)
        assert before > 0
    deployed.meet(other.id)
    for node in deployed.nodes:
        assert node.ledger.teacher("clinic-a").used == pytest.approx(2 * before)


def parts_of(unit: str = "patient", spread: int = 1) -> Parts:
    file = PartFile(name="part-01.csv", units=1, records=1, sha256="a" * 64)
    return Parts(by=f"{unit}_id", unit=unit, units=1, spread=spread, key_hash="b" * 64, files=(file,))


def test_the_same_parts_vote_once_whoever_brings_them(deployed):
    """Two accounts that nobody knows to be one organisation's, with the same folder of parts."""
    terms = open_job(deployed, {"hospital-0": rows(5, 8)}, **PATIENTS)
    tag = Voter(models=PartModels((object(),), parts_of())).parts(terms.id)
    for number, refused in (("1", False), ("2", True)):
        ballot = make_ballot(f"hospital-{number}", rows(5, 8), terms, random.Random(int(number)))
        for node in deployed.nodes:
            caller = Caller(ballot.teacher, "teacher")
            sent = (node, caller, terms.id, ballot.name, ballot.halves[node.role], tag)
            if refused:
                with pytest.raises(ConflictError, match="Data votes once"):
                    accept_ballot(*sent)
            else:
                receipt, new = accept_ballot(*sent)
                assert (receipt.parts, new) == (tag, True)
                assert accept_ballot(*sent) == (receipt, False)  # a repetition is none


def test_nobody_can_vote_under_the_name_of_parts_that_it_saw_elsewhere():
    """With a constant name, whoever has seen it could be quicker on the next job, and silence their owner."""
    voter = Voter(models=PartModels((object(),), parts_of()))
    first, second = (voter.parts(job * 32) for job in "12")
    assert first != second
    assert parts_of().digest not in (first, second)
    other = parts_of().model_copy(update={"key_hash": "c" * 64})  # who knows all but the key cannot make it either
    assert other.tag("1" * 32) != first


def test_many_at_once_are_looked_at_one_by_one(deployed):
    """The store takes ballots together: the second of one organisation is refused in the same transaction."""
    terms = open_job(deployed, {"hospital-0": rows(5, 8)}, **PATIENTS)
    made = [make_ballot(name, rows(5, 8), terms, random.Random(k)) for k, name in enumerate(("x", "y", "z"))]
    whose = {"x": "one", "y": "one", "z": "two"}
    for node in deployed.nodes:
        arrived = [
            voting.Arrived(
                Caller(one.teacher, "teacher", organisation=whose[one.teacher]),
                terms.id,
                one.name,
                one.halves[node.role],
            )
            for one in made
        ]
        first, second, third = voting.accept_ballots(node, arrived)
        assert isinstance(second, ConflictError)
        assert not isinstance(first, Exception)
        assert not isinstance(third, Exception)


# ---- Units in more parts than was said, and budgets of other units -----------------------------------------------


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (parts_of(spread=2), "One patient may be in 2 of your parts, and the job counts on 1"),
        (parts_of("visit"), "split by visit \\(visit_id\\), and the job protects each patient"),
    ],
)
def test_parts_other_than_the_terms_count_on_are_refused(parts, text):
    """Whoever split by visit has a patient in many parts, each of which moves a vote."""
    voter = Voter(models=PartModels((object(),), parts))
    with pytest.raises(PrivacyError, match=text):
        voter.votes(np.zeros((8, 2)), terms_for(8, **PATIENTS))
    assert voter.why_not(terms_for(8, **PATIENTS)) is not None  # which is what somebody who only watches is told
    assert voter.why_not(terms_for(8, votes=5)) is None  # where it is the organisation that is protected


def test_models_of_unknown_parts_vote_with_a_warning_and_never_unattended():
    voter = Voter(models=PartModels((Constant(),)))
    with pytest.warns(SedmlWarning, match="Nothing says"):
        assert voter.votes(np.zeros((8, 2)), terms_for(8, **PATIENTS)).shape == (5, 8)
    assert "Nothing says" in voter.why_not(terms_for(8, **PATIENTS))


class Constant:
    """Says 1."""

    def predict(self, samples):
        return np.ones(len(samples), int)


def test_options_of_parts_without_parts_are_refused():
    with pytest.raises(InputError, match="for models of parts"):
        as_voter(np.zeros(3), None, None, None, True, None)
    with pytest.raises(InputError, match="folder that `sedml train` made"):
        as_voter(None, None, None, 3, False, None)


@pytest.mark.parametrize("values", [{}, {"unit": "organisation", "votes": 5}, {"unit": "customer", "votes": 5}])
def test_a_budget_pays_for_those_whom_it_protects_and_for_nobody_else(deployed, values):
    """An organisation of which one vote moves for a patient would be charged as if a patient were all it has."""
    terms = terms_for(8, **values)
    for node in deployed.nodes:
        with pytest.raises(PrivacyError, match="each patient"):
            lifecycle.create(node, REQUESTER, terms.id, terms)
        with pytest.raises(PrivacyError, match="each patient"):
            node.ledger.reserve("teachers", "a job", 1e-6, unit=terms.unit)


def test_terms_promise_their_unit_what_it_costs():
    """The noise that does for a patient in one part does not do for one in two, or for the hospital."""
    for fits, values in (
        (True, {"unit": "patient", "votes": 5}),
        (False, {"unit": "patient", "votes": 5, "spread": 2}),
        (False, {"unit": "organisation", "votes": 5}),
    ):
        terms = terms_for(30, sigma=40.0, epsilon=0.9, **values)
        if fits:
            check_terms(terms)
        else:
            with pytest.raises(TaskError, match="its terms promise"):
                check_terms(terms)
