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
from sedml.service.client import JobView, Teacher, dealer
from sedml.service.client.dealer import seeds_for
from sedml.service.kits import ClientKit
from sedml.service.states import JobState
from sedml.service.terms import task_of
from support.client_parties import TERMS, Job, records
from support.wire import Fail, altered, says

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
    assert ("dealing", 16, 50) in told
    assert told[-1] == ("fetching labels", 50, 50)
    assert both_ways.requester("labels", job.id).tolist() == want.tolist()
    # Running a finished job again deals nothing and fetches the same labels.
    dealt = len(deployed.s1.bodies("PUT .*/(seed|corrections)"))
    assert both_ways.requester("run", job.id).labels.tolist() == want.tolist()
    assert len(deployed.s1.bodies("PUT .*/(seed|corrections)")) == dealt
    assert deployed.runs == 1


@pytest.mark.parametrize("protocol", ["fused", "paper"])
def test_both_protocols_run(parties, deployed, data_file, small_blocks, protocol):
    job = Job(parties, data_file, protocol=protocol, sigma1=6.0, sigma2=6.0, epsilon=60.0)
    assert parties.requester("run", job.id).labels.tolist() == deployed.expected(job.id, job.votes).tolist()


@pytest.mark.parametrize(
    ("where", "server"),
    [
        ("POST .*/close", "s0"),
        ("PUT .*/seed", "s0"),
        ("PUT .*/seed", "s1"),
        ("PUT .*/corrections/0", "s1"),
        ("PUT .*/corrections/3", "s1"),
        ("GET .*/labels", "s1"),
        ("GET /v1/jobs/", "s0"),
    ],
)
def test_a_call_whose_answers_get_lost_is_repeated_with_the_same_bytes(
    parties, deployed, job, small_blocks, where, server
):
    getattr(deployed, server).fault(where, Fail.LOSE, times=3)
    result = parties.requester("run", job.id)
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    assert deployed.runs == 1
    if where.startswith("PUT"):
        bodies = getattr(deployed, server).bodies(where)
        assert len(bodies) == 4
        assert len(set(bodies)) == 1
    assert len(set(deployed.s1.bodies("PUT .*/corrections"))) == 4


@pytest.mark.parametrize(
    ("where", "server", "how"),
    [
        ("POST .*/close", "s0", Fail.LOSE),
        ("POST .*/close", "s1", Fail.REFUSE),
        ("PUT .*/seed", "s0", Fail.REFUSE),
        ("PUT .*/seed", "s1", Fail.LOSE),
        ("PUT .*/corrections/0", "s1", Fail.LOSE),
        ("PUT .*/corrections/2", "s1", Fail.REFUSE),
        ("GET .*/labels/1", "s0", Fail.LOSE),
    ],
)
def test_a_run_that_broke_off_goes_on_from_there(parties, deployed, job, small_blocks, where, server, how):
    getattr(deployed, server).fault(where, how, times=4)
    with pytest.raises(UnreachableError):
        parties.requester("run", job.id)
    result = parties.requester("run", job.id)
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    assert deployed.runs == 1
    assert len(set(deployed.s1.bodies("PUT .*/seed"))) == 1
    assert len(set(deployed.s1.bodies("PUT .*/corrections"))) == 4


def test_blocks_that_s1_has_are_not_sent_again(parties, deployed, job, small_blocks):
    deployed.s1.fault("PUT .*/corrections/2", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.requester("run", job.id)
    parties.requester("run", job.id)
    assert len(deployed.s1.bodies("PUT .*/corrections/0")) == 1
    assert len(deployed.s1.bodies("PUT .*/corrections/1")) == 1


def test_blocks_that_s1_lost_are_dealt_again_the_same(parties, deployed, job, small_blocks):
    """S1 says that it has one block, and it is not the first one."""
    deployed.s1.fault("PUT .*/corrections/2", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.requester("run", job.id)
    deployed.s1.lose_corrections(job.id, 0)
    assert parties.requester("run", job.id).labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    first = deployed.s1.bodies("PUT .*/corrections/0")
    assert len(first) == 2
    assert first[0] == first[1]


def test_a_server_that_loses_what_it_acknowledged_is_reported(parties, deployed, job, small_blocks):
    deployed.s1.fault("PUT .*/corrections", says(deployed.s1.status(job.id)), times=8)
    with pytest.raises(ServerError, match="S1 has 0 of the 4 blocks"):
        parties.requester("run", job.id)


def test_at_most_two_blocks_are_in_memory(parties, deployed, job, small_blocks, monkeypatch):
    """One on its way, one being dealt: no more is dealt while S1 has not taken what came before."""
    dealt, most = [], []
    original = dealer._deal_block

    def counted(task, block, seeds):
        dealt.append(block.index)
        most.append(len(dealt) - deployed.s1.status(job.id).blocks_dealt)
        return original(task, block, seeds)

    monkeypatch.setattr(dealer, "_deal_block", counted)
    parties.requester("run", job.id)
    assert dealt == [0, 1, 2, 3]
    assert max(most) <= 2


def test_two_requesters_of_one_task_would_deal_differently(kits, deployed, job, small_blocks):
    terms = deployed.s0.status(job.id).terms
    task, other = task_of(terms, 4, ""), task_of(terms, 4, "other")
    seeds = seeds_for(b"a" * 32, task)
    assert seeds == seeds_for(b"a" * 32, task)
    assert (
        len(
            {
                seed.key
                for pair in (seeds, seeds_for(b"b" * 32, task), seeds_for(b"a" * 32, other))
                for seed in (pair.s0, pair.s1)
            }
        )
        == 6
    )


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


def test_servers_that_name_different_teachers_get_nothing_dealt(parties, deployed, job):
    deployed.s1.fault("GET /v1/jobs/[0-9a-f]+$", altered(roster={"teachers": 3}), times=9)
    with pytest.raises(ServerError, match="4 at S0, 3 at S1"):
        parties.requester("run", job.id)
    assert not deployed.s0.bodies("PUT .*/seed")
    assert not deployed.s1.bodies("PUT .*/seed")


def test_a_roster_below_what_the_terms_ask_for_gets_nothing_dealt(parties, deployed, job):
    for server in deployed.servers:
        server.fault("GET /v1/jobs/[0-9a-f]+$", altered(roster={"teachers": 2}), times=9)
    with pytest.raises(TooFewTeachersError, match="2 teachers took part"):
        parties.requester("run", job.id)
    assert not deployed.s0.bodies("PUT .*/seed")


def test_a_server_that_means_another_task_gets_nothing_dealt(parties, deployed, job):
    deployed.s1.fault("GET /v1/jobs/[0-9a-f]+$", altered(task="0" * 32), times=9)
    with pytest.raises(TermsMismatchError, match="S1 means to run"):
        parties.requester("run", job.id)
    assert not deployed.s1.bodies("PUT .*/seed")


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
    deployed.s1.fault("PUT .*/ballot", Fail.REFUSE, times=4)
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
    assert view.votes == (1, 1)
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
    phases = []

    def note(*_):
        phases.append(parties_phase(deployed, job.id))

    assert parties_phase(deployed, job.id) == "voting"
    parties.requester("run", job.id, progress=note)
    assert parties_phase(deployed, job.id) == "done"
    assert "waiting for the requester's randomness" in phases


def parties_phase(deployed, job):
    return JobView(job, *(server.status(job) for server in deployed.servers)).phase


def test_parties_can_be_made_of_a_loaded_kit(kits, deployed):
    kit = ClientKit.load(kits / "teacher-001")
    assert Teacher(kit).jobs() == []
    assert repr(Teacher(kit)) == "Teacher('teacher-001')"
    assert kit.servers["s0"].token not in repr(Teacher(kit).asynchronous) + repr(kit)
