"""A server hangs up in the middle of a run, comes back with other inputs, and compares what it is told.

Both attacks work against rules that the servers once had, and get nothing from the rule that they have: what was said
once is said again, or the job is over.
"""

import random
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import PeerGoneError
from sedml.lab.semi_honest.gadgets.millionaires import _lookups
from sedml.lab.semi_honest.lookup import ask, halves, pick
from sedml.mpc.prg import Seed
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram
from sedml.service.server import audit_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs.records import get
from sedml.service.server.ops import health
from sedml.service.server.run import blocks, meeting, runner
from sedml.service.server.run.block_counts import counter
from sedml.service.states import JobState
from sedml.service.terms import task_of
from support.deployment import closed_job, recorded_noise, states, status
from support.rogue import Unheld, cheat
from support.tiers import ROLES

TEACHERS, SAMPLES, CLASSES = 6, 16, 3
ANSWER = (0, "threshold/answer")
HOW_FAR = {"position", "progress"}
"""What a server says that changes from meeting to meeting."""


@pytest.fixture
def nothing_bound(monkeypatch):
    """An old rule: no server remembers what the other one said."""
    monkeypatch.setattr(meeting, "Transcript", Unheld)


@pytest.fixture
def fresh_masks(nothing_bound, monkeypatch):
    """The one after it: nor does a server repeat its own words, but makes new masks for the same inputs."""
    read = blocks.read_inputs
    monkeypatch.setattr(blocks, "read_inputs", lambda *which: replace(read(*which), coins=Seed.random()))


@dataclass(frozen=True)
class Job:
    id: str
    task: Task
    votes: np.ndarray
    """By seat, which both servers know."""


def begun_job(deployed, until="progress", role=1) -> Job:
    """A job about which the servers have agreed on all that comes before its first block."""
    rng = random.Random(1)
    votes = {f"t{number}": np.array([rng.randrange(CLASSES) for _ in range(SAMPLES)]) for number in range(TEACHERS)}
    terms = closed_job(deployed, votes, classes=CLASSES)
    assert isinstance(cheat(deployed, terms.id, role, until=(0, until)).outcome, PeerGoneError)
    roster = status(deployed, 1 - role, terms.id).roster
    query = f"SELECT teacher FROM sedml_store_ballots WHERE job = '{terms.id}' ORDER BY seat"
    with deployed.nodes[1 - role].store.read() as connection:
        seated = [votes[name] for name in connection.exec_driver_sql(query).scalars()]
    return Job(terms.id, task_of(terms, roster.teachers, roster.digest), np.stack(seated))


# ---- Subtract two answers under the same masks ------------------------------------------------------------------


def read_counts(deployed, job: Job, role: int) -> tuple[np.ndarray | None, list]:
    """The counts of the samples for which the honest server offers tables, if it answers; and the meetings that took.

    Of the table of [j > x] the cheat may open one place. At every other one it has the same pads, if it asks anew: so
    it finds x by halving, the lowest six bits of the honest server's share of a count with noise. The noise is the same
    for all classes: their differences are without any.
    """
    first = cheat(deployed, job.id, role, until=ANSWER)
    spec, pieces = _lookups(CLASSES, SAMPLES, job.task.widths.threshold)[0], first.pieces["threshold/digit0"]
    meetings, low, high = [first], np.zeros(spec.shape, np.uint8), np.full(spec.shape, 63, np.uint8)
    hidden = opened(deployed, job, role, meetings, low)  # 0 > x nowhere: what the sender hides entries by
    while hidden is not None and (low < high).any():
        middle = ((low.astype(int) + high + 1) // 2).astype(np.uint8)
        above = opened(deployed, job, role, meetings, middle)  # whether middle > x
        if above is None:
            break
        low, high = np.where(above ^ hidden, low, middle), np.where(above ^ hidden, middle - 1, high)
    if len(meetings) < 8 or ANSWER not in meetings[-1].messages:
        return None, meetings
    shares = 63 - low.astype(int) + halves(1 - role, shares_of(deployed, job, role).astype(int))[0]
    apart = (shares - shares[0] + 32) % 64 - 32
    assert pieces["c"].shape == spec.shape
    return apart + (TEACHERS - apart.sum(axis=0)) // CLASSES, meetings


def opened(deployed, job: Job, role: int, meetings: list, places: np.ndarray) -> np.ndarray | None:
    """One more meeting, in which the cheat asks for these places: what it finds there, 0/1, or None."""
    spec, pieces = _lookups(CLASSES, SAMPLES, job.task.widths.threshold)[0], meetings[0].pieces["threshold/digit0"]

    def change(place, arrays):
        return [ask(spec, pieces, places), *arrays[1:]] if place == (0, "threshold/ask") else arrays

    meetings.append(cheat(deployed, job.id, role, change=change, until=ANSWER))
    answers = meetings[-1].messages.get(ANSWER)
    return None if answers is None else pick(spec, pieces, answers[0], places)[0]


def shares_of(deployed, job: Job, role: int) -> np.ndarray:
    """The cheat's own shares of the counts."""
    node = deployed.nodes[role]
    with node.store.read() as connection:
        record = get(connection, job.id)
    return counter(node, record, job.task)(next(job.task.blocks))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.usefixtures("nothing_bound")
def test_the_same_masks_with_nothing_bound_give_every_count_away(deployed, role):
    job = begun_job(deployed)
    found, meetings = read_counts(deployed, job, role)
    assert np.array_equal(found, halves(1 - role, histogram(job.votes, CLASSES))[0])
    assert len(meetings) == 8
    # And nobody noticed: the job ends as if nothing had been.
    assert deployed.meet(job.id) == ["done", "done"]


@pytest.mark.parametrize("role", ROLES)
def test_a_server_that_comes_back_with_another_question_gets_no_answer(deployed, role):
    job = begun_job(deployed)
    found, meetings = read_counts(deployed, job, role)
    assert found is None
    # The honest server repeated what it had said up to there, and not a word more.
    assert list(meetings[1].messages)[-1] == (0, "threshold/ask")
    assert same(meetings[0], meetings[1])
    assert (0, "agree") not in cheat(deployed, job.id, role, until=ANSWER).messages


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("ledger", ["as it is", "put back too"])
@pytest.mark.parametrize("since", ["verdict", "progress"])
def test_a_backup_of_any_moment_gives_no_second_answer(deployed, tmp_path, role, ledger, since):
    """The cheat waits until the honest server is backed up, runs the job, and has the backup put back: as documented,
    without the records, which are in no backup."""
    job, honest = begun_job(deployed, since, role), deployed.sites[1 - role]
    folder, backup = Path(honest.overrides["data_dir"]), tmp_path / "backup"
    honest.node.close()
    shutil.copytree(folder, backup)
    honest.start()
    first = cheat(deployed, job.id, role, until=ANSWER)
    honest.node.close()
    for path in [*folder.glob("transcripts/*"), *folder.glob("*.db*")]:
        if ledger == "put back too" or not path.name.startswith("ledger"):
            path.unlink()
    for path in backup.glob("*.db*"):
        if ledger == "put back too" or not path.name.startswith("ledger"):
            shutil.copy(path, folder)
    honest.start()
    again = cheat(deployed, job.id, role, change=flipped((0, "threshold/ask")), until=ANSWER)
    assert ANSWER in first.messages
    assert (0, "agree") not in again.messages
    assert states(deployed, job.id)[1 - role] is JobState.FAILED


@pytest.mark.parametrize("role", ROLES)
def test_a_message_that_fails_a_check_cannot_be_replaced_by_another(deployed, role, monkeypatch):
    """Though the honest server is killed before it has put on disk that the job is over."""
    job = begun_job(deployed)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "_fail", lambda *_: None)
        cheat(deployed, job.id, role, change=flipped((0, "ot/extend")))
    honest = cheat(deployed, job.id, role)
    assert honest.outcome == "over"
    assert list(honest.messages)[-1] == (0, "ot/extend")
    assert health.figures(deployed.nodes[1 - role])["alarms_total"] == 1


# ---- Ask for the consensus again and again ----------------------------------------------------------------------


@dataclass(frozen=True)
class Shifted:
    """A server's noise, with something of its own choice added for each sample."""

    own: object
    by: np.ndarray

    def threshold(self, block: int, samples: int) -> np.ndarray:
        return self.own.threshold(block, samples) + self.by

    def label(self, *which) -> np.ndarray:
        return self.own.label(*which)


def highest_counts(deployed, job: Job, role: int) -> tuple[np.ndarray, list]:
    """The highest count of every sample with the noise of the honest server alone: by halving, an answer a meeting."""
    own = recorded_noise(deployed, job.id, job.task)[role].threshold(0, SAMPLES)
    low, high = np.full(SAMPLES, -(1 << 9)), np.full(SAMPLES, 1 << 9)
    meetings = []
    while (high - low > 1).any():
        middle = (low + high) // 2
        # A consensus is found exactly if count + their noise >= middle.
        shift = job.task.threshold - middle - own
        meetings.append(cheat(deployed, job.id, role, noise=lambda noise, by=shift: Shifted(noise, by), until=(0, "t")))
        t = meetings[-1].consensus
        if t is None:
            break
        low, high = np.where(t, middle, low), np.where(t, high, middle)
    return low, meetings


def truth(deployed, job: Job, role: int) -> np.ndarray:
    theirs = recorded_noise(deployed, job.id, job.task)[1 - role].threshold(0, SAMPLES)
    return histogram(job.votes, CLASSES).max(axis=0) + theirs


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.usefixtures("fresh_masks")
def test_fresh_masks_with_nothing_bound_give_the_noisy_counts_away(deployed, role):
    job = begun_job(deployed)
    found, meetings = highest_counts(deployed, job, role)
    assert np.array_equal(found, truth(deployed, job, role))
    assert len(meetings) == 10


@pytest.mark.parametrize("role", ROLES)
def test_a_server_that_comes_back_with_other_noise_gets_no_second_answer(deployed, role):
    job = begun_job(deployed)
    _, meetings = highest_counts(deployed, job, role)
    assert meetings[0].consensus is not None  # what one run gives a server that cheats
    assert len(meetings) == 2
    assert list(meetings[1].messages)[-1] == (0, "threshold/ask")
    assert same(*meetings)


# ---- Whatever else it changes -----------------------------------------------------------------------------------


def same(one, other) -> bool:
    """Whether the honest server said the same in two meetings, as far as both went."""
    both = [place for place in one.messages if place in other.messages and place[1] not in HOW_FAR]
    return all(
        np.array_equal(mine, theirs)
        for place in both
        for mine, theirs in zip(one.messages[place], other.messages[place], strict=True)
    )


def flipped(at):
    """Changes one bit of the message at a place."""

    def change(place, arrays):
        if place == at:
            array = next(array for array in arrays if array.size)
            array.reshape(-1).view(np.uint8)[array.nbytes // 2] ^= 4
        return arrays

    return change


@pytest.mark.parametrize("role", ROLES)
def test_no_message_of_a_run_can_be_changed_afterwards(deployed, role):
    """The cheat follows the protocol to the last opening, hangs up, and changes one bit of one message: of each."""
    said = cheat(deployed, begun_job(deployed).id, role, until=(0, "saved")).messages
    *places, saved = [place for place, arrays in said.items() if place[1] not in HOW_FAR and arrays]
    assert saved == (0, "saved")
    steps = {"commitment", "agree", "ot/base", "ot/trees", "ot/extend", "make/0", "threshold/ask", "threshold/all/t"}
    assert steps <= {step for _, step in places}
    for place in places:
        job = begun_job(deployed)
        first = cheat(deployed, job.id, role, until=places[-1])
        second = cheat(deployed, job.id, role, change=flipped(place))
        assert second.outcome == "over"
        assert list(second.messages)[-1] == place
        assert same(first, second)
        third = cheat(deployed, job.id, role)
        assert list(third.messages) == [(0, "position")]
        assert states(deployed, job.id)[1 - role] is JobState.FAILED


@pytest.mark.parametrize("role", ROLES)
def test_a_server_cannot_put_its_lie_on_the_honest_one(deployed, role):
    """It says that the honest one had committed to something else: that is an alarm, and no fault of the honest one."""
    job = begun_job(deployed, "progress", role)

    def lie(place, arrays):
        if place == (0, "commitment"):
            arrays[1][:] = 7
        return arrays

    assert list(cheat(deployed, job.id, role, change=lie).messages)[-1] == (0, "commitment")
    assert status(deployed, 1 - role, job.id).problem.type == "urn:sedml:cheating"
    assert health.figures(deployed.nodes[1 - role])["alarms_total"] == 1


@pytest.mark.parametrize("role", ROLES)
def test_the_operator_of_the_honest_server_sees_it(deployed, role, capfd):
    job = begun_job(deployed)
    read_counts(deployed, job, role)
    honest = deployed.nodes[1 - role]
    problem = status(deployed, 1 - role, job.id).problem
    assert problem.type == "urn:sedml:cheating"
    assert problem.title == "The other server changed what it had said at threshold/ask of block 0."
    operator = Caller(f"operator-{honest.kit.name}", "operator")
    [entry] = [one for one in audit_log.page(honest, operator, 0).entries if one.action == "alarm"]
    assert (entry.actor, entry.subject, entry.outcome) == (f"s{role}", job.id, problem.title)
    assert health.figures(honest)["alarms_total"] == 1
    assert "job.failed" in capfd.readouterr().out + capfd.readouterr().err
