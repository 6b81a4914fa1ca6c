"""Creating a job: what is asked before anything is sent, and a creation that broke off is continued, never doubled."""

import io
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from sedml.errors import (
    BodyTooLargeError,
    BudgetExceededError,
    FileFormatError,
    KitError,
    NotFoundError,
    ServerError,
    TaskError,
    TermsMismatchError,
    UnreachableError,
)
from sedml.release import release_hash
from sedml.service.client import Requester, Teacher
from sedml.service.states import JobState
from sedml.service.terms import job_cost
from support.client_parties import records
from support.wire import Fail, Meanwhile, altered, busy, refuses


def test_a_created_job_is_open_at_both_servers_with_the_least_noise_that_keeps_epsilon(both_ways, deployed, data_file):
    told = []
    view = both_ways.create(data_file, title="digits", progress=lambda *step: told.append(step))
    assert (view.s0.state, view.s1.state) == (JobState.OPEN, JobState.OPEN)
    assert view.id == view.terms.id
    assert (view.terms.samples, view.terms.threshold, view.terms.title) == (50, "0.5", "digits")
    assert 29.5 < job_cost(view.terms).epsilon <= 30
    assert abs(view.terms.deadline - (datetime.now(UTC) + timedelta(days=7)).timestamp()) < 60
    for server in deployed.servers:
        assert server.data(view.id) == data_file.read_bytes()
    size = data_file.stat().st_size
    assert told[-1] == ("uploading", 2 * size, 2 * size)


def test_an_array_will_do_and_leaves_no_copy_behind(parties, deployed, kits):
    view = parties.create(np.zeros((20, 3), np.float32), classes=2)
    assert view.terms.samples == 20
    assert np.load(io.BytesIO(deployed.s0.data(view.id))).shape == (20, 3)
    assert [path.suffix for path in (kits / "requester-1" / "jobs").iterdir()] == [".json"]


def test_the_terms_are_on_disk_for_their_owner_before_a_server_hears_of_them(parties, deployed, data_file, kits):
    seen = []
    deployed.s0.fault("PUT /v1/jobs/[0-9a-f]+$", Meanwhile(lambda: seen.append(records(kits))))
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
        ("PUT /v1/jobs/[0-9a-f]+$", "s0", Fail.LOSE),
        ("PUT /v1/jobs/[0-9a-f]+$", "s1", Fail.REFUSE),
        ("PUT .*/data", "s0", Fail.LOSE),
        ("PUT .*/data", "s0", Fail.CUT_BODY),
        ("PUT .*/data", "s1", Fail.REFUSE),
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
    assert deployed.s0.jobs == deployed.s1.jobs == [view.id]
    # And the next one is another job.
    assert parties.create(data_file).id != view.id


def test_the_terms_hold_what_both_servers_say_they_run(parties, deployed, data_file):
    view = parties.create(data_file)
    assert view.terms.releases == (release_hash(), release_hash())
    assert view.terms.id != view.terms.model_copy(update={"releases": None}).id


@pytest.mark.parametrize("server", ["s0", "s1"])
def test_a_server_that_says_it_runs_something_else_than_it_does_gets_no_job(parties, deployed, data_file, kits, server):
    """Nor does one that was upgraded in between; the next call creates the job, and nothing is left of the first."""
    getattr(deployed, server).fault("GET /v1/about", altered(release="ab" * 32))
    with pytest.raises(TermsMismatchError, match=f"{server.upper()} runs release {release_hash()}"):
        parties.create(data_file)
    assert records(kits) == {}
    assert parties.create(data_file).state == JobState.OPEN


def test_a_server_of_an_older_release_gets_terms_that_it_can_read(parties, deployed, data_file):
    deployed.s1.fault("GET /v1/about", refuses(NotFoundError("There is nothing here.", "Look elsewhere.")))
    view = parties.create(data_file)
    assert view.terms.releases is None
    assert b"releases" not in deployed.s1.bodies("PUT /v1/jobs/[0-9a-f]+$")[0]


def test_a_creation_that_broke_off_is_continued_after_an_upgrade(parties, deployed, data_file, monkeypatch):
    """The terms say what the servers ran when the job was made."""
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    old = release_hash()
    for place in ("jobs.lifecycle", "ops.health"):
        monkeypatch.setattr(f"sedml.service.server.{place}.release_hash", lambda: "cd" * 32)
    view = parties.create(data_file)
    assert view.state == JobState.OPEN
    assert view.terms.releases == (old, old)
    assert deployed.s0.jobs == deployed.s1.jobs == [view.id]


def test_a_creation_is_continued_by_name(parties, deployed, data_file, kits):
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
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
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
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
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    (job,) = records(kits)
    np.savez(data_file, x=np.zeros((50, 2)))
    with pytest.raises(FileFormatError, match="changed"):
        parties.requester("resume", job)


def test_a_job_that_both_servers_refuse_leaves_nothing_behind_one_that_failed_does(parties, deployed, kits):
    with pytest.raises(BudgetExceededError):
        parties.create(np.zeros((20, 3)), cohort="guarded")
    assert list((kits / "requester-1" / "jobs").iterdir()) == []
    for server in deployed.servers:
        server.fault("PUT", busy(503), times=4)
    with pytest.raises(ServerError):
        parties.create(np.zeros((20, 3)))
    assert len(list((kits / "requester-1" / "jobs").iterdir())) == 2
    assert parties.create(np.zeros((20, 3))).state == JobState.OPEN


def test_a_job_that_one_server_refuses_is_kept_at_neither(parties, deployed, data_file, kits):
    deployed.s1.fault("PUT", refuses(BudgetExceededError("The budget is used up.", "Wait.")))
    with pytest.raises(BudgetExceededError):
        parties.create(data_file)
    (job,) = deployed.s0.jobs
    assert deployed.s0.status(job).deleted
    assert deployed.s1.jobs == []
    assert records(kits) == {}


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
        ({"threshold": "most"}, TaskError, "number"),
        ({"threshold": 1.5}, TaskError, "threshold"),
        ({"threshold": 100}, TaskError, "out of reach"),
        ({"deadline": "soon"}, TaskError, "soon"),
        ({"deadline": timedelta(seconds=-1)}, TaskError, "deadline"),
        ({"sigma": 1.0}, TaskError, "promise"),
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
    np.save(path, np.zeros((1 << 8, 1 << 10)))
    with pytest.raises(BodyTooLargeError, match="2,097,280"):
        parties.create(path)
    assert not deployed.s0.jobs
    with pytest.raises(FileFormatError, match="does not exist"):
        parties.create(tmp_path / "none.npz")


def test_a_teacher_cannot_be_a_requester(kits, deployed, data_file):
    with pytest.raises(KitError, match="teacher"):
        Requester(kits / "teacher-001")
    with pytest.raises(KitError, match="requester"):
        Teacher(kits / "requester-1")
