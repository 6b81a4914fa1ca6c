"""What crashes alone do not show: stores put back from a backup, and jobs ended in the middle of something."""

import random
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sedml.errors import ForbiddenError, NotFoundError, RevokedError
from sedml.protocol import task as task_module
from sedml.service.messages import Enrolment
from sedml.service.server.access import Caller
from sedml.service.server.jobs import charges, lifecycle, retention, voting
from sedml.service.server.ops import accounts
from sedml.service.server.run import blocks, meeting, roster
from sedml.service.states import JobState
from sedml.service.terms import task_of
from support.deployment import (
    REQUESTER,
    Crash,
    closed_job,
    deployment,
    fetch_labels,
    make_ballot,
    publish,
    states,
    status,
    terms_for,
)
from support.tiers import ROLES, thorough

# Writes and messages of S0 or S1 until then.
AFTER_THE_ROSTER = 7
IN_A_BLOCK = 24


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 8)


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


def opened(deployed, terms):
    """Every answer t that ever went out for a job: by task and block, what was said."""
    return {where[1:]: messages for where, messages in deployed.sent.items() if where[3].startswith("threshold/all/t")}


def test_both_stores_put_back_never_run_a_paid_job_again_with_new_noise(deployed, tmp_path):
    terms = voted_job(deployed)
    kept = backups(deployed, tmp_path)
    assert deployed.meet(terms.id) == ["done", "done"]
    answers = len(opened(deployed, terms))
    for backup in kept:
        backup.restore()
    assert states(deployed, terms.id) == (JobState.CLOSED, JobState.CLOSED)
    deployed.meet(terms.id)
    # The ledgers know that the job was done, so it is not drawn again for the price of one.
    assert states(deployed, terms.id) == (JobState.FAILED, JobState.FAILED)
    assert status(deployed, 0, terms.id).problem.type == "urn:sedml:replay"
    assert len(opened(deployed, terms)) == answers


def test_both_stores_and_ledgers_put_back_get_another_task(deployed, tmp_path):
    terms = voted_job(deployed)
    kept = backups(deployed, tmp_path)
    assert deployed.meet(terms.id) == ["done", "done"]
    first = task_on_record(deployed, terms)
    for backup in kept:
        backup.restore(ledger=True)
    assert deployed.meet(terms.id) == ["done", "done"]
    assert task_on_record(deployed, terms).id != first.id


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


def test_a_store_put_back_in_the_middle_of_a_job_goes_on(deployed, tmp_path, monkeypatch):
    """The records of the run lie beside it and are as they were, so the same is said once more."""
    terms, save, crashes = voted_job(deployed, samples=24), blocks.save, set()

    def save_or_crash(node, record, block, *rest):
        if (node.role, block.index) in crashes:
            raise Crash
        save(node, record, block, *rest)

    def meet(*ends):
        crashes.clear()
        crashes.update(ends)
        return deployed.meet(terms.id)

    monkeypatch.setattr(blocks, "save", save_or_crash)
    meet((1, 1))
    kept = Backup(deployed.sites[1], tmp_path / "backup")  # with block 0
    meet((1, 2))  # S0 has all blocks now
    kept.restore()
    meet((0, 1))
    assert meet() == ["done", "done"]
    deployed.link.check()
    task = task_on_record(deployed, terms)
    assert [blocks.finished(node, SimpleNamespace(id=terms.id)) for node in deployed.nodes] == [3, 3]
    fetch_labels(deployed, terms.id, task)


def test_blocks_that_both_have_are_not_run_again(deployed, monkeypatch):
    terms, save = voted_job(deployed, samples=24), blocks.save

    def crash_once(node, record, block, *rest):
        if (node.role, block.index) == (0, 2):
            monkeypatch.setattr(blocks, "save", save)
            raise Crash
        save(node, record, block, *rest)

    monkeypatch.setattr(blocks, "save", crash_once)
    deployed.meet(terms.id)
    assert deployed.meet(terms.id) == ["done", "done"]
    meetings = {block: len(said) for (_, _, block, step), said in deployed.sent.items() if step == "threshold/ask"}
    assert meetings == {0: 1, 1: 1, 2: 2}
    deployed.link.check()


@pytest.mark.parametrize("role", ROLES)
def test_a_job_that_has_begun_does_not_run_without_the_record_of_it(deployed, role):
    """As after a backup was put back on another machine: the record lies beside the store, and is in no backup."""
    terms = begun_job(deployed, role, "cut")
    said = {where: dict(meetings) for where, meetings in deployed.sent.items()}
    for path in deployed.nodes[role].transcripts.iterdir():
        path.unlink()
    for _ in range(2):
        deployed.meet(terms.id)
    assert states(deployed, terms.id) == (JobState.FAILED, JobState.FAILED)
    assert status(deployed, role, terms.id).problem.type == "urn:sedml:replay"
    # The other one repeats a word that it had said; this one says nothing.
    assert not [where for where in deployed.sent if where[0] == role and where not in said and where[3] != "over"]


def test_records_go_with_the_inputs(tmp_path):
    made = deployment(tmp_path / "kept-nothing")
    terms = voted_job(made)
    assert made.meet(terms.id) == ["done", "done"]
    for node in made.nodes:
        retention.sweep(node)
        assert list(node.transcripts.iterdir()) == []
    made.close()


def test_the_commitment_alone_stops_other_noise(deployed, monkeypatch):
    """With the salts taken out of the roster, a server with other noise is still found out."""
    from sedml.mpc.prg import Seed
    from sedml.service.server.jobs.records import update

    terms = begun_job(deployed, 1, "cut")
    node = deployed.nodes[0]
    with node.store.write() as connection:
        update(connection, terms.id, sealed_noise=node.vault.seal(terms.id, "noise", Seed.random().key))
    deployed.meet(terms.id)
    deployed.meet(terms.id)
    assert JobState.FAILED in states(deployed, terms.id)


@pytest.mark.parametrize("kind", ["after", *(pytest.param(kind, marks=thorough) for kind in ("before", "cut"))])
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
    begin = meeting._begin

    def deleted_meanwhile(side, ours):
        if side.node.role == 0:
            lifecycle.delete(side.node, REQUESTER, terms.id)
        return begin(side, ours)

    monkeypatch.setattr(meeting, "_begin", deleted_meanwhile)
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
    faults = deployed.sites[1].faults
    faults.after, faults.kind = faults.points + AFTER_THE_ROSTER, "cut"
    deployed.meet(terms.id)
    faults.after = None
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
    voting.data_file(node, REQUESTER, terms.id).unlink()
    assert voting.expect_data(node, REQUESTER, terms.id) == terms.data_bytes
    publish(node, terms)
    assert voting.data_file(node, REQUESTER, terms.id).exists()


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
        voting.accept_ballot(node, caller, terms.id, ballot.name, ballot.halves[0])
    assert status(deployed, 0, terms.id).votes == 0


def test_a_teacher_sees_its_ballot_and_not_how_the_job_went(deployed):
    terms = voted_job(deployed)
    deployed.meet(terms.id)
    seen = lifecycle.status(deployed.nodes[0], Caller("t0", "teacher"), terms.id)
    assert len(seen.ballot) == 64
    assert (seen.roster, seen.task, seen.answered, seen.budget) == (None, None, 0, None)
    assert lifecycle.status(deployed.nodes[0], Caller("else", "teacher"), terms.id).ballot is None


def test_many_teachers_at_once_see_what_each_would_see_alone(deployed):
    node, terms = deployed.nodes[0], voted_job(deployed)
    other = terms_for(8, title="another")
    publish(node, other)
    asked = [(Caller(name, "teacher"), job) for name in ("t0", "t1", "else") for job in (terms.id, other.id)]
    together = lifecycle.teachers_statuses(node, asked)
    assert together == [lifecycle.status(node, *one) for one in asked]
    assert len({found.ballot for found in together}) == 3  # of two teachers on one job, and none
    unknown, known = lifecycle.teachers_statuses(node, [(asked[0][0], "0" * 32), asked[0]])
    assert isinstance(unknown, NotFoundError)
    assert known == together[0]
    with pytest.raises(ForbiddenError):
        lifecycle.teachers_statuses(node, [asked[0], (REQUESTER, terms.id)])


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
