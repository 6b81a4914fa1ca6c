"""What crashes alone do not show: stores put back from a backup, and jobs ended in the middle of something."""

import random
import shutil
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import sqlalchemy as sa

from sedml.errors import ConflictError, ForbiddenError, NotFoundError, PeerGoneError, RevokedError
from sedml.mpc.channel import PhaseCost
from sedml.protocol import task as task_module
from sedml.protocol.labels import share_size
from sedml.service.server.access import Caller
from sedml.service.server.jobs import charges, lifecycle, public_data, retention
from sedml.service.server.jobs.records import get
from sedml.service.server.ops import accounts
from sedml.service.server.run import blocks, meeting, roster
from sedml.service.server.run.repetition import Row, RowState
from sedml.service.server.storage.tables import blocks as table
from sedml.service.server_messages import Enrolment
from sedml.service.states import JobState
from sedml.service.terms import task_of
from support.deployment import (
    REQUESTER,
    Crash,
    accept_ballot,
    closed_job,
    fetch_labels,
    make_ballot,
    publish,
    states,
    status,
    terms_for,
)
from support.tiers import ROLES, thorough

IN_A_BLOCK = 24
"""Writes and messages of S0 or S1 until then."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 8)


def voted_job(deployed, samples=12, teachers=3, seed=1):
    rng = random.Random(seed)
    votes = {f"t{number}": np.array([rng.randrange(3) for _ in range(samples)]) for number in range(teachers)}
    return closed_job(deployed, votes)


def task_on_record(deployed, terms):
    found = status(deployed, 0, terms.id).roster
    return task_of(terms, found.teachers, found.digest)


def begun_job(deployed, role, kind):
    """A job in the middle of its first block when a fault strikes one of the servers."""
    terms = voted_job(deployed)
    faults = deployed.sites[role].faults
    faults.after, faults.kind = faults.points + IN_A_BLOCK, kind
    deployed.meet(terms.id)
    faults.after = None
    assert JobState.RUNNING in states(deployed, terms.id)
    return terms


class Backup:
    """A copy of what one server has on disk, ledger apart."""

    def __init__(self, site, place: Path) -> None:
        self.site, self.place = site, place
        shutil.copytree(site.overrides["data_dir"], place, dirs_exist_ok=True)

    def restore(self, *, ledger: bool = False) -> None:
        self.site.node.close()
        folder = Path(self.site.overrides["data_dir"])
        for file in folder.glob("*.db*"):
            if ledger or not file.name.startswith("ledger"):
                file.unlink()
        for file in self.place.glob("*.db*"):
            if ledger or not file.name.startswith("ledger"):
                shutil.copy(file, folder)
        self.site.start()


def backups(deployed, tmp_path):
    return [Backup(site, tmp_path / f"backup{role}") for role, site in enumerate(deployed.sites)]


def answers(deployed):
    """How often anything was said with the votes."""
    return sum(len(messages) for where, messages in deployed.sent.items() if where[3] == "block/masked")


def test_both_stores_put_back_never_run_a_paid_job_again_with_new_noise(deployed, tmp_path):
    terms = voted_job(deployed)
    kept = backups(deployed, tmp_path)
    assert deployed.meet(terms.id) == ["done", "done"]
    before = answers(deployed)
    for backup in kept:
        backup.restore()
    assert states(deployed, terms.id) == (JobState.CLOSED, JobState.CLOSED)
    deployed.meet(terms.id)
    # The ledgers know that the job was done, so it is not drawn again for the price of one.
    assert states(deployed, terms.id) == (JobState.FAILED, JobState.FAILED)
    assert status(deployed, 0, terms.id).problem.type == "urn:sedml:replay"
    assert answers(deployed) == before


@pytest.mark.parametrize("role", ROLES)
def test_one_store_put_back_is_refused_by_the_other(deployed, tmp_path, role):
    terms = voted_job(deployed)
    kept = backups(deployed, tmp_path)
    faults = deployed.sites[1 - role].faults
    faults.after, faults.kind = faults.points + IN_A_BLOCK, "before"
    deployed.meet(terms.id)
    assert JobState.RUNNING in states(deployed, terms.id)
    kept[role].restore()
    faults.after = None
    for _ in range(4):
        deployed.meet(terms.id)
    assert states(deployed, terms.id) == (JobState.FAILED, JobState.FAILED)


def test_a_store_put_back_to_before_a_block_was_final_ends_the_job(deployed, tmp_path, monkeypatch):
    """It may have handed out a share that it does not know of: the other one knows."""
    terms, save, crashes = voted_job(deployed, samples=24), blocks.save, set()

    def save_or_crash(node, record, attempt, *rest):
        if (node.role, attempt.block.index) in crashes:
            raise Crash
        save(node, record, attempt, *rest)

    def meet(*ends):
        crashes.clear()
        crashes.update(ends)
        return deployed.meet(terms.id)

    monkeypatch.setattr(blocks, "save", save_or_crash)
    meet((1, 1))
    kept = Backup(deployed.sites[1], tmp_path / "backup")  # with block 0
    meet((1, 2))
    kept.restore()
    assert meet() == ["over", "over"]
    assert states(deployed, terms.id) == (JobState.FAILED, JobState.FAILED)
    assert {status(deployed, role, terms.id).problem.type for role in (0, 1)} == {"urn:sedml:cheating"}
    with deployed.nodes[0].store.read() as connection:
        kept_shares = connection.execute(sa.select(table.c.sealed_labels).where(table.c.job == terms.id)).scalars()
        assert not any(kept_shares), "shares of a job without a result are for nobody"


def test_a_store_put_back_to_the_last_block_that_was_final_goes_on(deployed, tmp_path):
    terms = voted_job(deployed, samples=24)
    faults = deployed.sites[0].faults
    faults.arm(IN_A_BLOCK, "cut")
    deployed.meet(terms.id)
    kept = Backup(deployed.sites[1], tmp_path / "backup")
    kept.restore()
    assert deployed.meet(terms.id) == ["done", "done"]
    deployed.link.check()
    fetch_labels(deployed, terms.id, task_on_record(deployed, terms))


def test_blocks_that_both_have_are_not_begun_again(deployed, monkeypatch):
    terms, save = voted_job(deployed, samples=24), blocks.save

    def crash_once(node, record, attempt, *rest):
        if (node.role, attempt.block.index) == (0, 2):
            monkeypatch.setattr(blocks, "save", save)
            raise Crash
        save(node, record, attempt, *rest)

    monkeypatch.setattr(blocks, "save", crash_once)
    deployed.meet(terms.id)
    assert deployed.meet(terms.id) == ["done", "done"]
    task = task_on_record(deployed, terms)
    assert [[deployed.link.attempts(role, task, block) for block in range(3)] for role in (0, 1)] == [[1, 1, 2]] * 2
    assert [status(deployed, role, terms.id).extra_attempts for role in (0, 1)] == [1, 1]
    deployed.link.check()


def test_of_two_that_drive_a_job_one_goes_on(deployed):
    """A replica that was only asleep finds that the row is not as it left it."""
    terms = begun_job(deployed, 1, "cut")
    node = deployed.nodes[0]
    with node.store.read() as connection:
        record = get(connection, terms.id)
        before = blocks.rows(connection, record)[0]
    block = next(record.task.blocks)
    attempts = [blocks.Attempt(block, before, before.attempt + 1) for _ in range(2)]
    blocks.begin(node, record, attempts[0])
    with pytest.raises(ConflictError):
        blocks.begin(node, record, attempts[1])
    share, cost = bytes(share_size(record.task, block.samples)), PhaseCost(1.0, 1, 1)
    blocks.save(node, record, attempts[0], share, cost)
    with pytest.raises(ConflictError):
        blocks.save(node, record, attempts[1], share, cost)
    blocks.make_final(node, record, [(0, attempts[0].number)])
    after = blocks.Attempt(block, Row(attempts[0].number, RowState.FINAL), attempts[0].number + 1)
    for changed in (
        lambda: blocks.make_final(node, record, [(0, attempts[0].number)]),
        lambda: blocks.save(node, record, attempts[1], share, cost),
        lambda: blocks.begin(node, record, attempts[1]),
        lambda: blocks.begin(node, record, after),
    ):
        with pytest.raises(ConflictError):
            changed()


@thorough
@pytest.mark.parametrize("kind", ["after", "before", "cut"])
def test_s0_is_never_left_behind(deployed, kind):
    """Whatever strikes S0 at the end, S1 goes on calling until both are done."""
    for back in range(1, 8):
        terms = voted_job(deployed)
        faults = deployed.sites[0].faults
        start = faults.points
        faults.after = None
        probe = points_of_a_run(deployed, start)
        faults.after, faults.kind = start + probe - back, kind
        for _ in range(6):
            deployed.meet(terms.id)
        faults.after = None
        assert states(deployed, terms.id) == (JobState.DONE, JobState.DONE)
        fetch_labels(deployed, terms.id, task_on_record(deployed, terms))


def points_of_a_run(deployed, start):
    """How many points S0 has in a run; from another job of the same size."""
    other = voted_job(deployed)
    before = deployed.sites[0].faults.points
    assert deployed.meet(other.id) == ["done", "done"]
    points = deployed.sites[0].faults.points - before
    deployed.sites[0].faults.points = start
    return points


def test_s0_hears_that_s1_has_given_up(deployed):
    terms = voted_job(deployed)
    lifecycle.delete(deployed.nodes[1], REQUESTER, terms.id)
    assert states(deployed, terms.id) == (JobState.CLOSED, JobState.EXPIRED)
    # A deleted job is not called about; one that failed is.
    deployed.later(days=40)
    for node in deployed.nodes:
        retention.sweep(node)
    assert states(deployed, terms.id) == (JobState.EXPIRED, JobState.EXPIRED)
    assert all(node.ledger.status("teachers").rho.reserved == 0 for node in deployed.nodes)


def test_a_running_job_that_the_peer_forgot_fails_in_the_end(deployed):
    terms = begun_job(deployed, 1, "cut")
    assert states(deployed, terms.id)[0] is JobState.RUNNING
    deployed.later(days=6)
    retention.sweep(deployed.nodes[0])
    assert states(deployed, terms.id)[0] is JobState.RUNNING
    deployed.later(days=2)
    retention.sweep(deployed.nodes[0])
    assert states(deployed, terms.id)[0] is JobState.FAILED


def test_a_job_deleted_during_the_roster_gives_its_reservation_back(deployed, monkeypatch):
    terms = voted_job(deployed)
    reserve = charges.reserve

    def deleted_meanwhile(node, job, *found):
        if node.role == 0:
            lifecycle.delete(node, REQUESTER, job)
        reserve(node, job, *found)

    monkeypatch.setattr(roster.charges, "reserve", deleted_meanwhile)
    deployed.meet(terms.id)
    assert states(deployed, terms.id)[0] is JobState.EXPIRED
    assert deployed.nodes[0].ledger.status("teachers").rho.reserved == 0


def test_a_job_deleted_before_its_first_block_costs_nothing(deployed, monkeypatch):
    terms = voted_job(deployed)
    start = meeting._start

    def deleted_meanwhile(side):
        if side.node.role == 0:
            lifecycle.delete(side.node, REQUESTER, terms.id)
        return start(side)

    monkeypatch.setattr(meeting, "_start", deleted_meanwhile)
    with pytest.raises(Exception, match="expired"):
        deployed.meet(terms.id)
    monkeypatch.undo()
    deployed.meet(terms.id)
    assert states(deployed, terms.id)[0] is JobState.EXPIRED
    assert states(deployed, terms.id)[1] in (JobState.FAILED, JobState.REFUSED)
    for node in deployed.nodes:
        rho = node.ledger.status("teachers").rho
        assert (rho.reserved, rho.spent) == (0, 0)


def test_a_crash_after_deleting_leaves_no_reservation(deployed):
    terms = voted_job(deployed)
    with patch.object(meeting, "_start", side_effect=PeerGoneError("The link is cut.", "")):
        deployed.meet(terms.id)
    assert states(deployed, terms.id)[0] is JobState.CLOSED
    node = deployed.nodes[0]
    faults = deployed.sites[0].faults
    faults.after, faults.kind = faults.points, "after"
    with pytest.raises(Crash):
        lifecycle.delete(node, REQUESTER, terms.id)
    assert node.ledger.status("teachers").rho.reserved > 0
    retention.sweep(deployed.sites[0].restart())
    assert node.ledger.status("teachers").rho.reserved == 0
    assert list(node.public_data.iterdir()) == []


def test_a_problem_that_has_passed_is_not_shown(deployed):
    terms = voted_job(deployed)
    faults = deployed.sites[0].faults
    faults.after, faults.kind = faults.points + 1, "cut"
    deployed.meet(terms.id)
    assert status(deployed, 0, terms.id).problem.type == "urn:sedml:peer-gone"
    deployed.meet(terms.id)
    assert status(deployed, 0, terms.id).problem is None


def test_lost_public_data_can_be_sent_again(deployed):
    terms = terms_for(8)
    node = deployed.nodes[0]
    publish(node, terms)
    public_data.file_of(node, REQUESTER, terms.id).unlink()
    assert public_data.expect(node, REQUESTER, terms.id) == terms.data_bytes
    publish(node, terms)
    assert public_data.file_of(node, REQUESTER, terms.id).exists()


def test_a_token_revoked_under_way_changes_nothing(deployed):
    node, operator = deployed.nodes[0], Caller("operator-s0", "operator")
    accounts.enrol(node, operator, "thief", Enrolment(role="teacher", token_hash="0" * 64))
    caller = Caller("thief", "teacher", "0" * 64)  # authenticated, and the body is still coming
    accounts.revoke(node, operator, "thief")
    accounts.enrol(node, operator, "thief", Enrolment(role="teacher", token_hash="1" * 64))
    with pytest.raises(RevokedError):
        accounts.replace_token(node, caller, "2" * 64)
    terms = terms_for(8)
    publish(node, terms)
    ballot = make_ballot("thief", np.zeros(8, np.int16), terms, random.Random(1))
    with pytest.raises(RevokedError):
        accept_ballot(node, caller, terms.id, ballot.name, ballot.halves[0])
    assert status(deployed, 0, terms.id).votes == 0


def test_a_teacher_sees_its_ballot_and_not_how_the_job_went(deployed):
    terms = voted_job(deployed)
    deployed.meet(terms.id)
    seen = lifecycle.status(deployed.nodes[0], Caller("t0", "teacher"), terms.id)
    assert len(seen.ballot) == 64
    assert (seen.roster, seen.task, seen.blocks_done, seen.budget) == (None, None, 0, None)
    assert lifecycle.status(deployed.nodes[0], Caller("else", "teacher"), terms.id).ballot is None


def test_many_teachers_at_once_see_what_each_would_see_alone(deployed):
    node, terms = deployed.nodes[0], voted_job(deployed)
    other = terms_for(8, title="another")
    publish(node, other)
    asked = [(Caller(name, "teacher"), job, 0) for name in ("t0", "t1", "else") for job in (terms.id, other.id)]
    together = lifecycle.teachers_statuses(node, asked)
    assert together == [lifecycle.status(node, *one) for one in asked]
    assert len({found.ballot for found in together}) == 3  # of two teachers on one job, and none
    unknown, known = lifecycle.teachers_statuses(node, [(asked[0][0], "0" * 32, 0), asked[0]])
    assert isinstance(unknown, NotFoundError)
    assert known == together[0]
    with pytest.raises(ForbiddenError):
        lifecycle.teachers_statuses(node, [asked[0], (REQUESTER, terms.id, 0)])


def test_a_sweep_leaves_alone_what_begins_while_it_looks(deployed, monkeypatch):
    """A job whose record is written, and its data, after the sweep has begun to read the store."""
    node, look, begun = deployed.nodes[0], retention.find, []
    node.ledger.reserve("teachers", "a job to look up", 1e-6)

    def meanwhile(connection, job):
        found = look(connection, job)
        if not begun:
            begun.append(terms_for(8))
            publish(node, begun[0])
        return found

    monkeypatch.setattr(retention, "find", meanwhile)
    retention.sweep(node)
    assert [path.stem for path in node.public_data.iterdir()] == [begun[0].id]
