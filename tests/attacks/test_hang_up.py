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
from sedml.mpc.bits import unpack
from sedml.mpc.gadgets.millionaires import _lookups
from sedml.mpc.prg import Seed
from sedml.mpc.sharing import Additive
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram
from sedml.service.server import audit_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs.records import get
from sedml.service.server.ops import health
from sedml.service.server.run import blocks, meeting, runner
from sedml.service.states import JobState
from sedml.service.terms import task_of
from support.deployment import closed_job, recorded_noise, states, status
from support.rogue import Unheld, cheat
from support.tiers import ROLES

TEACHERS, SAMPLES, CLASSES = 6, 16, 3
BITS = 2
"""Of a class index."""
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


def read_votes(deployed, job: Job, role: int) -> tuple[np.ndarray, list]:
    """By seat and sample, -1 where nothing was learned; and the meetings that took."""
    until = (0, "threshold/answer")
    first = cheat(deployed, job.id, role, until=until)
    layout = Additive((TEACHERS, SAMPLES), BITS)
    own = layout.remainder(shares_of(deployed, job, role), first.pieces["count"]["r"])
    rotation = layout.combine(own, layout.from_wire(first.messages[0, "count"][0])).astype(np.int64)
    lanes = first.pieces["count"]["table"] & 1
    meetings, found = [first], np.full((TEACHERS, SAMPLES), -1)
    for seat in range(TEACHERS):
        again = cheat(deployed, job.id, role, change=turned(seat), until=until)
        meetings.append(again)
        if until in again.messages:
            moved = parities(job.task, role, first, again)
            for label in range(CLASSES):
                for turn in (0, 1):
                    lane = (label - turn - rotation[seat]) % (1 << BITS)
                    moved[label] ^= np.take_along_axis(lanes[:, seat], lane[np.newaxis], axis=0)[0]
            # Both servers' shares together: onehot(v + 1) - onehot(v), whose first odd place is v.
            found[seat] = moved.argmax(axis=0)
    return found, meetings


def turned(seat: int):
    """Turns one seat's vote on by a class, in what the servers open."""

    def change(place, arrays):
        if place != (0, "count"):
            return arrays
        layout = Additive((TEACHERS, SAMPLES), BITS)
        remainder = layout.from_wire(arrays[0])
        remainder[seat] = (remainder[seat] + 1) % (1 << BITS)
        return [layout.to_wire(remainder)]

    return change


def parities(task: Task, role: int, before, after) -> np.ndarray:
    """Whether the honest server's shares of the counts have moved by an odd number: 0/1 uint8[classes, samples]."""
    spec, half = _lookups(CLASSES, SAMPLES, task.widths.threshold)[0], SAMPLES // 2
    asked, answered = (
        before.messages[0, step][0] ^ after.messages[0, step][0] for step in ("threshold/ask", "threshold/answer")
    )
    # A position under the same mask: its lowest bit. A table of [j > x] under the same mask: |x - x'| bits differ.
    looked_up = unpack(asked, spec.bits, CLASSES * half).reshape(CLASSES, half) & 1
    offered = np.unpackbits(answered.view(np.uint8).reshape(CLASSES, half, -1), axis=-1).sum(axis=-1) & 1
    # S0 offers the tables of the first half of the samples, S1 those of the second.
    return np.concatenate((offered, looked_up) if role == 1 else (looked_up, offered), axis=-1).astype(np.uint8)


def shares_of(deployed, job: Job, role: int) -> np.ndarray:
    """The cheat's own shares of the votes."""
    node = deployed.nodes[role]
    with node.store.read() as connection:
        record = get(connection, job.id)
    return blocks.read_votes(node, record, job.task, next(job.task.blocks))


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.usefixtures("nothing_bound")
def test_the_same_masks_with_nothing_bound_give_every_vote_away(deployed, role):
    job = begun_job(deployed)
    found, meetings = read_votes(deployed, job, role)
    assert np.array_equal(found, job.votes)
    assert len(meetings) == TEACHERS + 1
    # And nobody noticed: the job ends as if nothing had been.
    assert deployed.meet(job.id) == ["done", "done"]


@pytest.mark.parametrize("role", ROLES)
def test_a_server_that_comes_back_with_other_shares_gets_no_answer(deployed, role):
    job = begun_job(deployed)
    found, meetings = read_votes(deployed, job, role)
    assert (found == -1).all()
    # The honest server repeated what it had said up to there, and not a word more.
    assert list(meetings[1].messages)[-1] == (0, "count")
    assert same(meetings[0], meetings[1])
    assert all((0, "agree") not in later.messages for later in meetings[2:])


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
    first = cheat(deployed, job.id, role, until=(0, "threshold/answer"))
    honest.node.close()
    for path in [*folder.glob("transcripts/*"), *folder.glob("*.db*")]:
        if ledger == "put back too" or not path.name.startswith("ledger"):
            path.unlink()
    for path in backup.glob("*.db*"):
        if ledger == "put back too" or not path.name.startswith("ledger"):
            shutil.copy(path, folder)
    honest.start()
    again = cheat(deployed, job.id, role, change=turned(0), until=(0, "threshold/answer"))
    assert (0, "count") in first.messages
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
    steps = {"commitment", "agree", "ot/base", "ot/trees", "ot/extend", "make/0", "count", "threshold/all/t"}
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
    read_votes(deployed, job, role)
    honest = deployed.nodes[1 - role]
    problem = status(deployed, 1 - role, job.id).problem
    assert problem.type == "urn:sedml:cheating"
    assert problem.title == "The other server changed what it had said at count of block 0."
    operator = Caller(f"operator-{honest.kit.name}", "operator")
    [entry] = [one for one in audit_log.page(honest, operator, 0).entries if one.action == "alarm"]
    assert (entry.actor, entry.subject, entry.outcome) == (f"s{role}", job.id, problem.title)
    assert health.figures(honest)["alarms_total"] == 1
    assert "job.failed" in capfd.readouterr().out + capfd.readouterr().err
