"""Running a job to its labels, with everything that can break off on the way."""

import numpy as np
import pytest

from sedml.errors import (
    JobStateError,
    NotFoundError,
    ServerError,
    TermsMismatchError,
    TooFewTeachersError,
    UnreachableError,
)
from sedml.service.client import JobView, Teacher
from sedml.service.kits import ClientKit
from sedml.service.states import JobState
from sedml.service.terms import job_cost
from support.client_parties import TERMS, Job, records
from support.wire import Fail, altered

LOOK = "GET /v1/jobs/[0-9a-f]+$"

# ---- Running -----------------------------------------------------------------------------------------


def test_a_job_gives_the_labels_of_the_ideal_functionality(both_ways, deployed, data_file, small_blocks):
    job = Job(both_ways, data_file)
    told = []
    result = both_ways.requester("run", job.id, progress=lambda *step: told.append(step))
    want = deployed.expected(job.id, job.votes)
    assert result.labels.tolist() == want.tolist()
    assert result.labels.dtype == np.int64
    assert result.answered == (want != -1).sum()
    assert result.job.done
    assert result.job.teachers == 4
    assert result.seconds.total > 0
    assert result.privacy == job_cost(result.job.terms)
    assert (result.epsilon, result.delta) == (result.privacy.epsilon, 1e-5)
    assert 0 < result.epsilon <= 30
    shown = f"JobResult({job.id!r}, teachers=4, answered={result.answered} of 50, epsilon={result.epsilon:.4g}"
    assert repr(result) == f"{shown}, delta=1e-05)"
    assert repr(result.job) == f"JobView({job.id!r}, state='done', votes=4)"
    assert told[:2] == [("agreeing on who voted", 0, 1), ("aggregating", 50, 50)]
    assert ("fetching labels", 16, 50) in told
    assert told[-1] == ("fetching labels", 50, 50)
    assert both_ways.requester("labels", job.id).tolist() == want.tolist()
    # Running a finished job again changes nothing and fetches the same labels.
    assert both_ways.requester("run", job.id).labels.tolist() == want.tolist()
    for server in deployed.servers:
        assert len(server.bodies("POST")) == 1
    assert deployed.runs == 1
    deployed.check_run_once(job.id)


@pytest.mark.parametrize(
    ("where", "server"),
    [
        ("POST .*/close", "s0"),
        ("POST .*/close", "s1"),
        (LOOK, "s0"),
        (LOOK, "s1"),
        ("GET .*/labels/0", "s1"),
        ("GET .*/labels/6", "s0"),
    ],
)
def test_a_call_whose_answers_get_lost_is_repeated(parties, deployed, job, small_blocks, where, server):
    getattr(deployed, server).calm()
    getattr(deployed, server).fault(where, Fail.LOSE, times=3)
    result = parties.requester("run", job.id)
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    assert deployed.runs == 1
    # A vote is ended once, and a block of labels fetched once; how a job stands is asked three times.
    assert len(getattr(deployed, server).bodies(where)) == (6 if where == LOOK else 4)


@pytest.mark.parametrize(
    ("where", "server", "how"),
    [
        ("POST .*/close", "s0", Fail.LOSE),
        ("POST .*/close", "s1", Fail.REFUSE),
        ("POST .*/close", "s1", Fail.LOSE),
        (LOOK, "s0", Fail.LOSE),
        (LOOK, "s1", Fail.REFUSE),
        ("GET .*/labels/1", "s0", Fail.LOSE),
        ("GET .*/labels/6", "s1", Fail.REFUSE),
    ],
)
def test_a_run_that_broke_off_goes_on_from_there(parties, deployed, job, small_blocks, where, server, how):
    getattr(deployed, server).fault(where, how, times=4)
    with pytest.raises(UnreachableError):
        parties.requester("run", job.id)
    result = parties.requester("run", job.id)
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    assert deployed.runs == 1


def test_a_requester_waits_while_the_servers_cannot_reach_each_other(parties, deployed, job, small_blocks):
    deployed.linked = False
    told = []

    def tell(*step):
        told.append(step)
        deployed.linked = len(told) == 3

    result = parties.requester("run", job.id, progress=tell)
    assert told[:5] == [("agreeing on who voted", 0, 1)] * 4 + [("aggregating", 50, 50)]
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()


def test_what_is_in_the_servers_way_is_told_and_the_job_goes_on_after_it(parties, deployed, job, small_blocks):
    deployed.cut_link(lambda: deployed.s1.status(job.id).blocks_done == 2)
    told = []

    def tell(what, *step):
        told.append((what, *step))
        deployed.linked = what.startswith("aggregating")

    result = parties.requester("run", job.id, progress=tell)
    (waiting, *_), (cut, done, total), *_ = told
    assert waiting.startswith("agreeing on who voted - S0: ")
    assert cut.startswith("aggregating - S0: ")
    assert " - S1: " in cut
    assert (done in (8, 16), total) == (True, 50)
    assert told[2] == ("aggregating", 50, 50)
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    assert result.job.waiting_for is None


def test_a_vote_is_not_closed_while_teachers_are_missing_and_there_is_time(parties, deployed, data_file):
    job = Job(parties, data_file, teachers=2)
    with pytest.raises(TooFewTeachersError, match="2 teachers have voted"):
        parties.requester("run", job.id)
    assert deployed.s0.status(job.id).state == deployed.s1.status(job.id).state == JobState.OPEN


def test_a_refusal_of_the_servers_is_raised_as_what_it_is(parties, deployed, data_file):
    job = Job(parties, data_file, teachers=2)
    deployed.close(job.id)
    with pytest.raises(TooFewTeachersError, match=r"S0: the job was refused\. 2 teachers took part"):
        parties.requester("run", job.id)
    with pytest.raises(TooFewTeachersError):
        parties.requester("labels", job.id)


@pytest.mark.parametrize(
    ("at", "lie", "error", "text"),
    [
        (["s1"], {"roster": {"teachers": 3}}, ServerError, r"different teachers \(4 at S0, 3 at S1\)"),
        (["s0"], {"roster": {"digest": "0" * 64}}, ServerError, "different teachers"),
        (["s0", "s1"], {"roster": {"teachers": 2}}, TooFewTeachersError, "2 teachers took part"),
        (["s0", "s1"], {"roster": {"teachers": 5}}, TermsMismatchError, "S0 means to run"),
        (["s0", "s1"], {"roster": {"digest": "0" * 64}}, TermsMismatchError, "S0 means to run"),
        (["s0"], {"task": "0" * 32}, TermsMismatchError, "S0 means to run"),
        (["s1"], {"task": "0" * 32}, TermsMismatchError, "S1 means to run"),
    ],
    ids=[
        "one fewer at S1",
        "others at S0",
        "too few at both",
        "one more at both",
        "others at both",
        "another task at S0",
        "another task at S1",
    ],
)
@pytest.mark.parametrize("honest_looks", [0, 2], ids=["at once", "in the end"])
def test_labels_of_another_roster_or_task_are_never_used(parties, deployed, job, at, lie, error, text, honest_looks):
    """Whether the servers lie from the beginning, or only once they are done."""
    for name in at:
        getattr(deployed, name).fault(LOOK, lambda response: response, times=honest_looks)
        getattr(deployed, name).fault(LOOK, altered(**lie), times=99)
    for method in ("run", "labels"):
        with pytest.raises(error, match=text) as caught:
            parties.requester(method, job.id)
        assert "operator" in caught.value.do
    assert not any(server.bodies("GET .*/labels") for server in deployed.servers)


def test_a_job_without_data_cannot_be_run(parties, deployed, data_file, kits):
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    (job,) = records(kits)
    with pytest.raises(JobStateError, match="no data") as caught:
        parties.requester("run", job)
    assert f"--resume {job}" in caught.value.do


# ---- Looking -----------------------------------------------------------------------------------------


def test_a_status_is_that_of_both_servers_or_of_the_one_that_answers(parties, deployed, data_file):
    job = Job(parties, data_file, teachers=1)
    deployed.s0.fault("PUT .*/ballot", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.teacher(2, "vote", job.id, job.votes[0])
    view = parties.requester("status", job.id)
    assert view.votes == (1, 2)
    assert (view.phase, view.over, view.done) == ("voting", False, False)
    assert (view.budget.cohort, view.budget.rho_spent, view.budget.rho_reserved) == ("teachers", 0.0, 0.0)
    deployed.s0.fault("GET", Fail.REFUSE, times=9)
    view = parties.requester("status", job.id)
    assert view.s0 is None
    assert isinstance(view.problems["s0"], UnreachableError)
    assert view.votes == (2, 2)
    deployed.s1.fault("GET", Fail.REFUSE, times=9)
    with pytest.raises(UnreachableError):
        parties.requester("status", job.id)


def test_a_requester_sees_its_own_jobs(parties, deployed, data_file):
    mine = parties.create(data_file).id
    parties.requester("create", data_file, number=2, **TERMS)
    (view,) = parties.requester("jobs")
    assert (view.id, view.s0.server, view.s1.server) == (mine, "s0", "s1")
    # Another one, which S1 has not heard of.
    deployed.s1.fault("PUT", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    newest, oldest = parties.requester("jobs")
    assert (newest.s1, oldest.id) == (None, mine)
    with pytest.raises(NotFoundError):
        parties.requester("status", "0" * 32)


def test_a_job_goes_through_its_phases(parties, deployed, job, small_blocks):
    assert parties_phase(deployed, job.id) == "voting"
    deployed.linked = False
    deployed.close(job.id)
    assert parties_phase(deployed, job.id) == "the vote is over"
    deployed.linked = True
    deployed.cut_link(lambda: deployed.s1.status(job.id).blocks_done == 2)
    deployed.meet(job.id)
    assert parties_phase(deployed, job.id) == "aggregating"
    deployed.linked = True
    parties.requester("run", job.id)
    assert parties_phase(deployed, job.id) == "done"


def parties_phase(deployed, job):
    return JobView(job, *(server.status(job) for server in deployed.servers)).phase


def test_parties_can_be_made_of_a_loaded_kit(kits, deployed):
    kit = ClientKit.load(kits / "teacher-001")
    assert Teacher(kit).jobs() == []
    assert repr(Teacher(kit)) == "Teacher('teacher-001')"
    assert kit.servers["s0"].token not in repr(Teacher(kit).asynchronous) + repr(kit)
