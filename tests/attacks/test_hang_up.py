"""A server hangs up in the middle of a run, comes back with other inputs, and compares what it is told.

Under the rule that the servers have (`sedml.service.server.run.repetition`) it is told something new every time, from
which nothing follows, and after so many times nothing any more.
"""

import random
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from sedml.errors import JobStateError, LogError, PeerGoneError
from sedml.protocol import task as task_module
from sedml.protocol.task import EXTRA_ATTEMPTS, Task
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle
from sedml.service.server.ops import health
from sedml.service.server.run import blocks, repetition, runner
from sedml.service.server.run.repetition import Row, RowState
from sedml.service.server.storage.tables import blocks as table
from sedml.service.states import JobState
from sedml.service.terms import task_of
from support.deployment import (
    REQUESTER,
    Crash,
    closed_job,
    expected_labels,
    fetch_labels,
    recorded_noise,
    status,
)
from support.rogue import cheat, flipped
from support.tiers import ROLES

TEACHERS, SAMPLES, CLASSES = 6, 9, 3  # in two blocks
LOG = {"log/known", "log/shown", "log/cosigned"}
OUTSIDE = {"position", "ballots", "entries", "verdict", "progress", "done"} | LOG
"""What is said about a job, and in no attempt."""
SET_UP = {"ot/base", "ot/renewal"}
"""What is said at each connection, about no block."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 8)


@dataclass(frozen=True)
class Job:
    id: str
    task: Task
    votes: np.ndarray


def begun_job(deployed, role=1) -> Job:
    """A job about which the servers have agreed on all that comes before its first block."""
    rng = random.Random(1)
    votes = {f"t{number}": np.array([rng.randrange(CLASSES) for _ in range(SAMPLES)]) for number in range(TEACHERS)}
    terms = closed_job(deployed, votes, classes=CLASSES)
    assert isinstance(cheat(deployed, terms.id, role, until=(0, "verdict")).outcome, PeerGoneError)
    assert isinstance(cheat(deployed, terms.id, role, until=(0, "progress")).outcome, PeerGoneError)
    roster = status(deployed, 1 - role, terms.id).roster
    return Job(terms.id, task_of(terms, roster.teachers, roster.digest), np.stack(list(votes.values())))


def said_in_a_run(deployed, role):
    """All places of the messages of an attempt at the first block, in order, and of what comes before."""
    places = list(cheat(deployed, begun_job(deployed, role).id, role).messages)
    places = [place for place in places if place[0] == 0 and place[1] not in OUTSIDE]
    assert {step for _, step in places} > SET_UP | {"saved"}
    return places


def shifted(by):
    return lambda counts: counts + counts.dtype.type(by)


def check_done(deployed, job):
    """Its labels are those of the votes, whatever was said about them before, and nothing of it was said twice."""
    labels = fetch_labels(deployed, job.id, job.task)
    assert np.array_equal(labels, expected_labels(job.task, job.votes, recorded_noise(deployed, job.task)))
    deployed.link.check()


@pytest.mark.parametrize("role", ROLES)
def test_hanging_up_anywhere_and_coming_back_with_other_inputs_brings_nothing(deployed, role):
    """Whatever the honest server says is new every time, and in the end the job is done as if nothing had been."""
    for place in said_in_a_run(deployed, role):
        job = begun_job(deployed, role)
        for by in (1, 3):
            again = cheat(deployed, job.id, role, counts=shifted(by), until=place)
            if place[1] == "saved" and by == 3:
                # It has said that it has saved the first attempt, and now that it has nothing.
                assert (again.outcome, list(again.messages)[-1]) == ("over", (0, "progress"))
                assert status(deployed, 1 - role, job.id).problem.type == "urn:sedml:cheating"
                break
            assert isinstance(again.outcome, PeerGoneError)
            assert list(again.messages)[-1] == place
        else:
            assert deployed.meet(job.id) == ["done", "done"]
            check_done(deployed, job)


@pytest.mark.parametrize("role", ROLES)
def test_it_may_not_hang_up_often(deployed, role, capfd):
    job, honest = begun_job(deployed, role), 1 - role
    first = next(place for place in said_in_a_run(deployed, role) if place[1] not in SET_UP)
    for number in range(EXTRA_ATTEMPTS + 1):
        assert first in cheat(deployed, job.id, role, until=first).messages
        assert status(deployed, honest, job.id).extra_attempts == number
        shown = capfd.readouterr()
        assert ("job.attempts" in shown.out + shown.err) == (number >= repetition.MANY_EXTRA)
    assert first not in cheat(deployed, job.id, role).messages
    found = status(deployed, honest, job.id)
    assert (found.state, found.problem.type) == (JobState.FAILED, "urn:sedml:attempts")
    # No word more, whatever it says of itself.
    assert list(cheat(deployed, job.id, role, claim=Row(99, RowState.SAVED)).messages) == [(0, "position")]


@pytest.mark.parametrize("role", ROLES)
def test_a_killed_server_does_not_lose_count(deployed, role, monkeypatch):
    """It dies right after the first word of each attempt: the count was on disk before."""
    job, honest = begun_job(deployed, role), 1 - role
    begin = blocks.begin

    def begin_and_die(node, *which):
        begin(node, *which)
        if node.role == honest:
            raise Crash

    monkeypatch.setattr(blocks, "begin", begin_and_die)
    for number in range(3):
        with pytest.raises(Crash):
            cheat(deployed, job.id, role)
        assert status(deployed, honest, job.id).extra_attempts == number


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    ("claim", "problem"),
    [
        (Row(1, RowState.FINAL), "urn:sedml:cheating"),  # of an attempt that never was
        (Row(2**32 - 1, RowState.RUNNING), "urn:sedml:attempts"),
        (Row(EXTRA_ATTEMPTS + 1, RowState.SAVED), "urn:sedml:attempts"),
    ],
)
def test_a_lie_about_a_block_ends_the_job_before_a_word_is_said_about_it(deployed, role, claim, problem):
    job = begun_job(deployed, role)
    heard = cheat(deployed, job.id, role, claim=claim)
    assert heard.outcome == "over"
    assert {step for _, step in heard.messages} <= {"position", "progress"} | LOG | SET_UP
    assert status(deployed, 1 - role, job.id).problem.type == problem
    assert health.figures(deployed.nodes[1 - role])["alarms_total"] == (problem == "urn:sedml:cheating")


@pytest.mark.parametrize("role", ROLES)
def test_a_share_that_was_saved_is_thrown_away_and_not_handed_out(deployed, role):
    """The cheat lets the honest server save its share, and hangs up instead of saying that it has saved its own."""
    job, honest = begun_job(deployed, role), deployed.nodes[1 - role]
    *_, last, saved = said_in_a_run(deployed, role)
    assert saved == (0, "saved")

    def hang_up(place, arrays):
        if place == saved:
            raise PeerGoneError("That is enough.", "")
        return arrays

    kept = []
    for number in (1, 2):
        assert last in cheat(deployed, job.id, role, change=hang_up).messages
        with honest.store.read() as connection:
            row = connection.execute(sa.select(table).where(table.c.job == job.id, table.c.block == 0)).one()
        assert (row.attempt, row.state) == (number, "saved")
        kept.append(honest.vault.open(job.id, "labels/0", bytes(row.sealed_labels)))
        with pytest.raises(JobStateError):
            lifecycle.label_share(honest, REQUESTER, job.id, 0)
    assert deployed.meet(job.id) == ["done", "done"]
    check_done(deployed, job)
    assert lifecycle.label_share(honest, REQUESTER, job.id, 0) not in kept


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("ledger", ["as it is", "put back too"])
def test_a_backup_from_before_the_first_attempt_is_not_begun_again(deployed, tmp_path, role, ledger):
    """The cheat waits until the honest server is backed up, makes an attempt, and has the backup put back."""
    job, honest = begun_job(deployed, role), deployed.sites[1 - role]
    folder, backup = Path(honest.overrides["data_dir"]), tmp_path / "backup"
    honest.node.close()
    shutil.copytree(folder, backup)
    honest.start()
    first = next(place for place in said_in_a_run(deployed, role) if place[1] not in SET_UP)
    assert first in cheat(deployed, job.id, role, until=first).messages
    honest.node.close()
    for path in (*folder.glob("*.db*"), *backup.glob("*.db*")):
        if ledger == "put back too" or not path.name.startswith("ledger"):
            path.unlink() if path.parent == folder else shutil.copy(path, folder)
    honest.start()
    with suppress(LogError):
        deployed.greet()
    deployed.accept_restored()  # the cheat cosigns whatever suits it
    again = cheat(deployed, job.id, role, counts=shifted(1), until=first)
    if ledger == "as it is":
        assert first not in again.messages
        assert status(deployed, 1 - role, job.id).problem.type == "urn:sedml:replay"
    else:  # nothing can tell, and nothing is lost: it is one more attempt
        assert first in again.messages
        deployed.link.check()


@pytest.mark.parametrize("role", ROLES)
def test_a_check_that_fails_ends_the_job_and_the_operator_sees_it(deployed, role, capfd):
    *_, place, _ = said_in_a_run(deployed, role)
    job, honest = begun_job(deployed, role), deployed.nodes[1 - role]
    heard = cheat(deployed, job.id, role, change=flipped(place))
    assert (heard.outcome, list(heard.messages)[-1]) == ("over", place)
    problem = status(deployed, 1 - role, job.id).problem
    assert problem.type == "urn:sedml:cheating"
    operator = Caller(f"operator-{honest.kit.name}", "operator")
    lines = [one.opened for one in public_log.page(honest, operator, 0).entries]
    alarms = [one for one in lines if one.action == "alarm"]
    [entry] = [one for one in alarms if one.subject == job.id]
    assert entry.actor == f"s{role}"
    assert problem.title.startswith(entry.outcome)
    assert health.figures(honest)["alarms_total"] == len(alarms)
    shown = capfd.readouterr()
    assert "job.failed" in shown.out + shown.err
    assert list(cheat(deployed, job.id, role).messages) == [(0, "position")]


@pytest.mark.parametrize("role", ROLES)
def test_an_alarm_that_was_not_written_does_not_bring_the_share_out(deployed, role, monkeypatch):
    """The honest server is killed before it has put on disk that the job is over: that attempt has no share."""
    *_, place, _ = said_in_a_run(deployed, role)
    job = begun_job(deployed, role)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_fail", lambda *_: None)
        cheat(deployed, job.id, role, change=flipped(place))
    deployed.nodes[1 - role].condemned.clear()  # which was in the memory of the one that was killed
    assert deployed.meet(job.id) == ["done", "done"]
    assert status(deployed, 1 - role, job.id).extra_attempts == 1
    check_done(deployed, job)
