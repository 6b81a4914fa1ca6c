"""A job from its creation to its labels, with everything that can break off on the way."""

import io
import json
from datetime import UTC, datetime, timedelta

import httpx2
import numpy as np
import pytest

from sedml.errors import (
    BodyTooLargeError,
    BudgetExceededError,
    FileFormatError,
    JobStateError,
    KitError,
    NotFoundError,
    ServerError,
    ShareError,
    TaskError,
    TermsMismatchError,
    TooFewTeachersError,
    UnreachableError,
)
from sedml.service.client import JobView, Requester, Teacher, dealer
from sedml.service.client.dealer import seeds_for
from sedml.service.client.request import moment_of, threshold_text
from sedml.service.kits import ClientKit
from sedml.service.messages import Roster
from sedml.service.problems import problem_of
from sedml.service.states import JobState
from sedml.service.terms import job_cost, task_of
from support.client_parties import TERMS, Job
from support.fake_servers import busy


def records(kits):
    folder = kits / "requester-1" / "jobs"
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


# ---- Creating ----------------------------------------------------------------------------------------


def test_a_created_job_is_open_at_both_servers_with_the_least_noise_that_keeps_epsilon(both_ways, deployed, data_file):
    told = []
    view = both_ways.create(data_file, title="digits", progress=lambda *step: told.append(step))
    assert (view.s0.state, view.s1.state) == (JobState.OPEN, JobState.OPEN)
    assert view.id == view.terms.id
    assert (view.terms.samples, view.terms.threshold, view.terms.title) == (50, "0.5", "digits")
    assert 29.5 < job_cost(view.terms).requester.epsilon <= 30
    assert view.terms.sigma1 == view.terms.sigma2
    assert abs(view.terms.deadline - (datetime.now(UTC) + timedelta(days=7)).timestamp()) < 60
    for server in deployed.servers:
        assert server.jobs[view.id].data == data_file.read_bytes()
    size = data_file.stat().st_size
    assert told[-1] == ("uploading", 2 * size, 2 * size)


def test_an_array_will_do_and_leaves_no_copy_behind(parties, deployed, kits):
    view = parties.create(np.zeros((20, 3), np.float32), classes=2)
    assert view.terms.samples == 20
    assert np.load(io.BytesIO(deployed.s0.jobs[view.id].data)).shape == (20, 3)
    assert [path.suffix for path in (kits / "requester-1" / "jobs").iterdir()] == [".json"]


def test_the_terms_are_on_disk_for_their_owner_before_a_server_hears_of_them(parties, deployed, data_file, kits):
    seen = []
    deployed.s0.fault("PUT /v1/jobs/[0-9a-f]+$", lambda response: seen.append(records(kits)) or response)
    view = parties.create(data_file)
    assert list(seen[0]) == [view.id]
    assert seen[0][view.id]["complete"] is False
    assert records(kits)[view.id]["complete"] is True
    folder = kits / "requester-1" / "jobs"
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / f"{view.id}.json").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("where", "server", "how"),
    [
        ("PUT /v1/jobs/[0-9a-f]+$", "s0", "lose"),
        ("PUT /v1/jobs/[0-9a-f]+$", "s1", "refuse"),
        ("PUT .*/data", "s0", "lose"),
        ("PUT .*/data", "s1", "refuse"),
    ],
)
def test_a_creation_that_broke_off_is_continued_and_never_a_second_job(
    parties, deployed, data_file, where, server, how
):
    getattr(deployed, server).fault(where, how, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    view = parties.create(data_file)
    assert view.state == JobState.OPEN
    assert list(deployed.s0.jobs) == list(deployed.s1.jobs) == [view.id]
    # And the next one is another job.
    assert parties.create(data_file).id != view.id


def test_a_creation_is_continued_by_name(parties, deployed, data_file, kits):
    deployed.s1.fault("PUT .*/data", "refuse", times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    (job,) = records(kits)
    uploads = len(deployed.s0.bodies("PUT .*/data"))
    assert parties.requester("resume", job).state == JobState.OPEN
    assert len(deployed.s0.bodies("PUT .*/data")) == uploads
    assert parties.requester("resume", job).state == JobState.OPEN
    with pytest.raises(KitError, match="no record"):
        parties.requester("resume", "0" * 32)


def test_another_request_or_an_old_one_is_not_continued(parties, deployed, data_file, kits):
    deployed.s1.fault("PUT .*/data", "refuse", times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    (job,) = records(kits)
    other = parties.create(data_file, deadline="8d")
    assert other.id != job
    path = kits / "requester-1" / "jobs" / f"{job}.json"
    record = json.loads(path.read_text())
    record["started"] = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    path.write_text(json.dumps(record))
    assert parties.create(data_file).id not in (job, other.id)


def test_data_that_changed_since_are_not_sent_under_the_old_terms(parties, deployed, data_file, kits):
    deployed.s1.fault("PUT .*/data", "refuse", times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    (job,) = records(kits)
    np.savez(data_file, x=np.zeros((50, 2)))
    with pytest.raises(FileFormatError, match="changed"):
        parties.requester("resume", job)


def test_a_job_that_both_servers_refuse_leaves_nothing_behind_one_that_failed_does(parties, deployed, kits):
    problem = problem_of(BudgetExceededError("The budget is used up.", "Wait."))
    for server in deployed.servers:
        server.fault("PUT", httpx2.Response(409, content=problem.model_dump_json()))
    with pytest.raises(BudgetExceededError):
        parties.create(np.zeros((20, 3)))
    assert list((kits / "requester-1" / "jobs").iterdir()) == []
    for server in deployed.servers:
        server.fault("PUT", busy(503), times=4)
    with pytest.raises(ServerError):
        parties.create(np.zeros((20, 3)))
    assert len(list((kits / "requester-1" / "jobs").iterdir())) == 2
    assert parties.create(np.zeros((20, 3))).state == JobState.OPEN


def test_a_damaged_record_is_no_reason_not_to_create_another_job(parties, deployed, data_file, kits):
    folder = kits / "requester-1" / "jobs"
    folder.mkdir()
    (folder / f"{'0' * 32}.json").write_text("{")
    assert parties.create(data_file).state == JobState.OPEN
    with pytest.raises(KitError, match="damaged"):
        parties.requester("resume", "0" * 32)


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"epsilon": 0.0}, TaskError, "epsilon"),
        ({"classes": 1}, TaskError, "classes"),
        ({"classes": 5000}, TaskError, "classes"),
        ({"min_teachers": 0}, TaskError, "min_teachers"),
        ({"threshold": "most"}, TaskError, "no number"),
        ({"threshold": 1.5}, TaskError, "threshold"),
        ({"threshold": 100}, TaskError, "out of reach"),
        ({"deadline": "soon"}, TaskError, "soon"),
        ({"deadline": timedelta(seconds=-1)}, TaskError, "over"),
        ({"sigma1": 5.0}, TaskError, "sigma"),
        ({"sigma1": 1.0, "sigma2": 1.0}, TaskError, "promise"),
        ({"title": "two\nlines"}, TaskError, "title"),
        ({"cohort": "No Such"}, TaskError, "cohort"),
    ],
)
def test_terms_that_cannot_be_met_are_refused_before_anything_is_sent(
    parties, deployed, data_file, kits, changes, error, text
):
    with pytest.raises(error, match=text):
        parties.create(data_file, **changes)
    assert not deployed.s0.seen
    assert not (kits / "requester-1" / "jobs").exists()


def test_data_that_a_server_does_not_take_are_refused_before_anything_is_sent(parties, deployed, tmp_path):
    path = tmp_path / "large.npy"
    np.save(path, np.zeros(1 << 18))
    with pytest.raises(BodyTooLargeError, match="2,097,280"):
        parties.create(path)
    assert not deployed.s0.jobs
    with pytest.raises(FileFormatError, match="cannot be read"):
        parties.create(tmp_path / "none.npz")


def test_a_teacher_cannot_be_a_requester(kits, deployed, data_file):
    with pytest.raises(KitError, match="teacher"):
        Requester(kits / "teacher-001")
    with pytest.raises(KitError, match="requester"):
        Teacher(kits / "requester-1")


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
@pytest.mark.parametrize("how", ["lose", busy(503)], ids=["lose", "503"])
def test_a_call_that_fails_is_repeated_with_the_same_bytes(parties, deployed, job, small_blocks, where, server, how):
    fake = getattr(deployed, server)
    fake.fault(where, how, times=3)
    result = parties.requester("run", job.id)
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    assert deployed.runs == 1
    if where.startswith("PUT"):
        bodies = fake.bodies(where)
        assert len(bodies) == 4
        assert len(set(bodies)) == 1
    assert len(set(deployed.s1.bodies("PUT .*/corrections"))) == 4


@pytest.mark.parametrize(
    ("where", "server", "how"),
    [
        ("POST .*/close", "s0", "lose"),
        ("POST .*/close", "s1", "refuse"),
        ("PUT .*/seed", "s0", "refuse"),
        ("PUT .*/seed", "s1", "lose"),
        ("PUT .*/corrections/0", "s1", "lose"),
        ("PUT .*/corrections/2", "s1", "refuse"),
        ("GET .*/labels/1", "s0", "lose"),
    ],
)
def test_a_run_that_broke_off_goes_on_from_there(parties, deployed, job, small_blocks, where, server, how):
    fake = getattr(deployed, server)
    fake.fault(where, how, times=4)
    with pytest.raises(UnreachableError):
        parties.requester("run", job.id)
    result = parties.requester("run", job.id)
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    assert deployed.runs == 1
    assert len(set(deployed.s1.bodies("PUT .*/seed"))) == 1
    assert len(set(deployed.s1.bodies("PUT .*/corrections"))) == 4


def test_blocks_that_s1_has_are_not_sent_again(parties, deployed, job, small_blocks):
    deployed.s1.fault("PUT .*/corrections/2", "refuse", times=4)
    with pytest.raises(UnreachableError):
        parties.requester("run", job.id)
    parties.requester("run", job.id)
    assert len(deployed.s1.bodies("PUT .*/corrections/0")) == 1
    assert len(deployed.s1.bodies("PUT .*/corrections/1")) == 1


def test_blocks_that_s1_lost_are_dealt_again_the_same(parties, deployed, job, small_blocks):
    """S1 says that it has one block, and it is not the first one."""
    deployed.s1.fault("PUT .*/corrections/2", "refuse", times=4)
    with pytest.raises(UnreachableError):
        parties.requester("run", job.id)
    del deployed.s1.jobs[job.id].corrections[0]
    assert parties.requester("run", job.id).labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    first = deployed.s1.bodies("PUT .*/corrections/0")
    assert len(first) == 2
    assert first[0] == first[1]


def test_a_server_that_loses_what_it_acknowledged_is_reported(parties, deployed, job, small_blocks, monkeypatch):
    def forgets(self, id_, number, seen, caller):
        return httpx2.Response(200, content=self.status(id_).model_dump_json())

    monkeypatch.setattr("support.fake_servers.FakeServer._take_corrections", forgets)
    with pytest.raises(ServerError, match="S1 has 0 of the 4 blocks"):
        parties.requester("run", job.id)


def test_at_most_two_blocks_are_in_memory(parties, deployed, job, small_blocks, monkeypatch):
    """One on its way, one being dealt: no more is dealt while S1 has not taken what came before."""
    dealt, most = [], []
    original = dealer._deal_block

    def counted(task, block, seeds):
        dealt.append(block.index)
        most.append(len(dealt) - len(deployed.s1.jobs[job.id].corrections))
        return original(task, block, seeds)

    monkeypatch.setattr(dealer, "_deal_block", counted)
    parties.requester("run", job.id)
    assert dealt == [0, 1, 2, 3]
    assert max(most) <= 2


def test_two_requesters_of_one_task_would_deal_differently(kits, deployed, job, small_blocks):
    task = task_of(deployed.s0.jobs[job.id].terms, 4, "")
    other = task_of(deployed.s0.jobs[job.id].terms, 4, "other")
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
    assert deployed.s0.jobs[job.id].state == deployed.s1.jobs[job.id].state == JobState.OPEN


def test_a_refusal_of_the_servers_is_raised_as_what_it_is(parties, deployed, data_file):
    job = Job(parties, data_file, teachers=2)
    for server in deployed.servers:
        server.jobs[job.id].state = JobState.CLOSED
    with pytest.raises(TooFewTeachersError, match=r"S0: the job was refused\. 2 teachers took part"):
        parties.requester("run", job.id)
    with pytest.raises(TooFewTeachersError):
        parties.requester("labels", job.id)


def test_servers_that_name_different_teachers_get_nothing_dealt(parties, deployed, job):
    def another(response):
        return httpx2.Response(200, content=response.content.replace(b'"teachers":4', b'"teachers":3'))

    deployed.s1.fault("GET /v1/jobs/[0-9a-f]+$", another, times=9)
    with pytest.raises(ServerError, match="4 at S0, 3 at S1"):
        parties.requester("run", job.id)
    assert not deployed.s0.bodies("PUT .*/seed")
    assert not deployed.s1.bodies("PUT .*/seed")


def test_a_roster_below_what_the_terms_ask_for_gets_nothing_dealt(parties, deployed, job):
    for server in deployed.servers:
        server.jobs[job.id].state = JobState.CLOSED
        server.jobs[job.id].roster = Roster(teachers=2, digest="few")
    with pytest.raises(TooFewTeachersError, match="2 teachers took part"):
        parties.requester("run", job.id)
    assert not deployed.s0.bodies("PUT .*/seed")


def test_a_server_that_means_another_task_gets_nothing_dealt(parties, deployed, job):
    def another(response):
        document = response.json()
        if document["task"]:
            document["task"] = "0" * 32
        return httpx2.Response(200, json=document)

    deployed.s1.fault("GET /v1/jobs/[0-9a-f]+$", another, times=9)
    with pytest.raises(TermsMismatchError, match="S1 means to run another task"):
        parties.requester("run", job.id)
    assert not deployed.s1.bodies("PUT .*/seed")


def test_a_job_without_data_cannot_be_run(parties, deployed, data_file, kits):
    deployed.s1.fault("PUT .*/data", "refuse", times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    (job,) = records(kits)
    with pytest.raises(JobStateError, match="no data") as caught:
        parties.requester("run", job)
    assert f"--resume {job}" in caught.value.do


# ---- Labels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("server", ["s0", "s1"])
def test_consensus_bits_that_differ_between_the_servers_are_refused(parties, deployed, job, small_blocks, server):
    parties.requester("run", job.id)
    fake = getattr(deployed, server)
    shares = fake.jobs[job.id].labels[1]
    # One more label for one more bit, so that only the comparison of the two servers can notice.
    bits = np.unpackbits(np.frombuffer(shares[:2], np.uint8), bitorder="little")
    swapped = bits.copy()
    swapped[np.flatnonzero(bits)[0]], swapped[np.flatnonzero(bits == 0)[0]] = 0, 1
    fake.jobs[job.id].labels[1] = np.packbits(swapped, bitorder="little").tobytes() + shares[2:]
    with pytest.raises(ShareError, match="do not agree"):
        parties.requester("labels", job.id)


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c + b"\0", lambda c: b"", lambda c: c[:1]])
def test_label_shares_of_the_wrong_size_are_refused(parties, deployed, job, change):
    parties.requester("run", job.id)
    shares = deployed.s1.jobs[job.id].labels
    shares[0] = change(shares[0])
    with pytest.raises((ShareError, ServerError)):
        parties.requester("labels", job.id)


def test_shares_that_make_no_class_are_refused(parties, deployed, job):
    parties.requester("run", job.id)
    shares = deployed.s1.jobs[job.id].labels
    # Another share of each label: some of them come out as 3, which no class is.
    shares[0] = shares[0][:7] + bytes(byte ^ 0x1B for byte in shares[0][7:])
    with pytest.raises(ShareError, match="classes that do not exist"):
        parties.requester("labels", job.id)


def test_labels_that_are_not_there_yet_or_no_more(parties, deployed, data_file):
    job = Job(parties, data_file)
    with pytest.raises(JobStateError, match="no labels yet"):
        parties.requester("labels", job.id)
    parties.requester("run", job.id)
    view = parties.requester("delete", job.id)
    assert view.s0.deleted
    assert view.s1.deleted
    assert parties.requester("delete", job.id).s0.deleted
    with pytest.raises(JobStateError, match="deleted"):
        parties.requester("labels", job.id)


# ---- Looking -----------------------------------------------------------------------------------------


def test_a_status_is_that_of_both_servers_or_of_the_one_that_answers(parties, deployed, data_file):
    job = Job(parties, data_file, teachers=2)
    deployed.s1.jobs[job.id].ballots.pop("teacher-002")
    view = parties.requester("status", job.id)
    assert view.votes == (1, 2)
    assert (view.phase, view.over, view.done) == ("voting", False, False)
    assert view.budget.rho_spent == 1.0
    deployed.s0.fault("GET", "refuse", times=9)
    view = parties.requester("status", job.id)
    assert view.s0 is None
    assert isinstance(view.problems["s0"], UnreachableError)
    assert view.votes == (1, 1)
    deployed.s1.fault("GET", "refuse", times=9)
    with pytest.raises(UnreachableError):
        parties.requester("status", job.id)


def test_a_requester_sees_its_own_jobs(parties, deployed, data_file):
    mine = parties.create(data_file).id
    parties.requester("create", data_file, number=2, **TERMS)
    assert [view.id for view in parties.requester("jobs")] == [mine]
    del deployed.s1.jobs[mine]
    (view,) = parties.requester("jobs")
    assert view.s1 is None
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


# ---- Values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.6, "0.6"),
        ("0.6", "0.6"),
        (".6", "0.6"),
        (1.0, "1.0"),
        ("1.0", "1.0"),
        (1, "1"),
        ("1", "1"),
        (150, "150"),
        (150.0, "150"),
        ("150", "150"),
        (1e-05, "0.00001"),
        (0.5500, "0.55"),
    ],
)
def test_a_threshold_is_written_as_a_fraction_or_a_count(value, text):
    assert threshold_text(value) == text


NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("deadline", "moment"),
    [
        ("90s", NOW + timedelta(seconds=90)),
        ("45m", NOW + timedelta(minutes=45)),
        ("1.5h", NOW + timedelta(minutes=90)),
        ("7d", NOW + timedelta(days=7)),
        ("2w", NOW + timedelta(days=14)),
        (timedelta(hours=1), NOW + timedelta(hours=1)),
        ("2030-02-01T00:00+00:00", datetime(2030, 2, 1, tzinfo=UTC)),
        (datetime(2030, 2, 1, tzinfo=UTC), datetime(2030, 2, 1, tzinfo=UTC)),
    ],
)
def test_a_deadline_is_a_moment_or_a_time_from_now(deadline, moment):
    assert moment_of(deadline, NOW) == moment


@pytest.mark.parametrize("deadline", ["", "7", "d", "7 days", "-1d", "999999w", NOW, NOW - timedelta(seconds=1)])
def test_a_deadline_that_makes_no_sense_is_refused(deadline):
    with pytest.raises(TaskError):
        moment_of(deadline, NOW)


def test_parties_can_be_made_of_a_loaded_kit(kits, deployed):
    kit = ClientKit.load(kits / "teacher-001")
    assert Teacher(kit).jobs() == []
    assert repr(Teacher(kit)) == "Teacher('teacher-001')"
    assert kit.servers["s0"].token not in repr(Teacher(kit).asynchronous) + repr(kit)
