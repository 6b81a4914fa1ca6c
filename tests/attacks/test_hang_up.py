"""A server hangs up in the middle of a run, comes back with other inputs, and compares what it is told.

Under the rule that the servers have (`sedml.service.server.run.repetition`) it is told something new every time, from
which nothing follows, and after so many times nothing any more.
"""

import random
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import PeerGoneError
from sedml.mpc.prg import Seed
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.task import EXTRA_ATTEMPTS, Task
from sedml.service.server import audit_log
from sedml.service.server.access import Caller
from sedml.service.server.ops import health
from sedml.service.server.run import block_work, blocks, meeting, repetition, runner
from sedml.service.server.run.repetition import Row, RowState
from sedml.service.states import JobState
from sedml.service.terms import task_of
from support.deployment import (
    REQUESTER,
    Crash,
    closed_job,
    expected_labels,
    fetch_labels,
    recorded_noise,
    states,
    status,
)
from support.rogue import cheat, flipped
from support.tiers import ROLES

TEACHERS, SAMPLES, CLASSES = 6, 9, 3  # in two blocks
OUTSIDE = {"position", "ballots", "entries", "verdict", "progress", "done"}
"""What is said about a job, and in no attempt."""


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
    """All places of the messages of a run, in order."""
    return list(cheat(deployed, begun_job(deployed, role).id, role).messages)


def shifted(by):
    return lambda counts: counts + counts.dtype.type(by)


def attempts_at(deployed, role, job):
    with deployed.nodes[role].store.read() as connection:
        return [row.attempt for row in blocks.rows(connection, job)]


def check_done(deployed, job):
    """Its labels are those of the votes, though other things were said about them before."""
    assert states(deployed, job.id) == (JobState.DONE, JobState.DONE)
    labels = fetch_labels(deployed, job.id, job.task)
    assert np.array_equal(labels, expected_labels(job.task, job.votes, recorded_noise(deployed, job.task)))
    deployed.link.check()


@pytest.mark.parametrize("role", ROLES)
def test_hanging_up_anywhere_and_coming_back_with_other_inputs_brings_nothing(deployed, role):
    """Whatever the honest server says is new every time, and in the end the job is done as if nothing had been."""
    places = said_in_a_run(deployed, role)
    assert {step for _, step in places} > {"progress", "saved", "done"}
    for place in [place for place in places if place[1] not in OUTSIDE - {"progress"}]:
        job = begun_job(deployed, role)
        for by in (1, 3):
            again = cheat(deployed, job.id, role, counts=shifted(by), until=place)
            assert isinstance(again.outcome, PeerGoneError)
            assert place in again.messages
        saved = place[1] == "saved"
        assert deployed.meet(job.id) == (["done", "done"] if not saved else ["over", "over"])
        if saved:
            # The honest server has heard "saved" from a server that now says that it has nothing.
            assert status(deployed, 1 - role, job.id).problem.type == "urn:sedml:cheating"
            continue
        check_done(deployed, job)


@pytest.mark.parametrize("role", ROLES)
def test_it_may_not_hang_up_often(deployed, role, capfd):
    job, place = begun_job(deployed, role), None
    place = next(place for place in said_in_a_run(deployed, role) if place[1] not in OUTSIDE)
    honest = 1 - role
    for number in range(1, EXTRA_ATTEMPTS + 2):
        assert status(deployed, honest, job.id).state is JobState.RUNNING
        cheat(deployed, job.id, role, until=(0, "prepare/1") if place is None else last_word(place))
        extra = status(deployed, honest, job.id).extra_attempts
        assert extra == number - 1
        shown = capfd.readouterr()
        assert ("job.attempts" in shown.out + shown.err) == (extra >= repetition.MANY_EXTRA)
    again = cheat(deployed, job.id, role)
    assert again.outcome == "over"
    assert status(deployed, honest, job.id).problem.type == "urn:sedml:attempts"
    assert "prepare" not in str([step for _, step in again.messages])
    # No word more, whatever it says of itself.
    assert list(cheat(deployed, job.id, role).messages) == [(0, "position")]
