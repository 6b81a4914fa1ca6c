"""A requester fills a server's disk with other people's votes, which are up to a hundred thousand times its own data.

It is promised no more ballots than `max_ballot_bytes_per_requester` can hold; votes leave the last part of the disk to
whatever makes room; and that needs little room, however much it deletes.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa
import structlog

from sedml.errors import NoRoomError, NoRoomForVotesError, StoreError
from sedml.service.kits import token_hash
from sedml.service.problems import error_of, problem_of
from sedml.service.server import data_room, public_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle, retention, voting
from sedml.service.server.ops import accounts, health
from sedml.service.server.storage.tables import ballot_pages, jobs
from sedml.service.server_messages import Enrolment
from sedml.service.states import JobState
from support.deployment import REQUESTER, Crash, deployment, make_ballot, publish, status, terms_for
from support.disk_remains import remains, sealed_inputs
from support.two_servers import deployed, server_settings

__all__ = ["deployed", "server_settings"]

MEGABYTE = 10**6
OPERATOR = Caller("operator-s1", "operator")
LARGE = {"samples": 60_000, "classes": 50, "sigma": 16_000.0}  # 12.4 MB for S1


def enrol(node, *names: str) -> None:
    for name in names:
        accounts.enrol(node, OPERATOR, name, Enrolment(role="teacher", token_hash=token_hash(f"sedml_{name}")))


def vote(node, terms, teacher: str = "teacher"):
    ballot = make_ballot(teacher, np.zeros(terms.samples, np.int16), terms, random.Random(1))
    return ballot.send(node, terms.id)


def pages(node) -> int:
    with node.store.read() as connection:
        return connection.execute(sa.select(sa.func.count()).select_from(ballot_pages)).scalar_one()


class TestARequester:
    @pytest.fixture(params=[0, 1])
    def role(self, request) -> int:
        return request.param

    @pytest.fixture
    def server_settings(self, role) -> dict[str, object]:
        return {"max_ballot_bytes_per_requester": 6 * terms_for(1000).ballot.sizes[role], "max_teachers": 3}

    def test_is_promised_so_many_ballots_and_no_more(self, deployed, role):
        node = deployed.nodes[role]
        enrol(node, "anna", "ben", "clara", "dora")

        def create(requester: Caller = REQUESTER):
            terms = terms_for(1000, sigma=16_000.0, requester=requester.name)
            lifecycle.create(node, requester, terms.id, terms)
            return terms

        first, _ = create(), create()  # of three ballots each: this server takes no more
        with pytest.raises(NoRoomError, match=r"from 3 teachers, more than the") as refused:
            create()
        assert "max_ballot_bytes_per_requester" in refused.value.do
        create(Caller("requester-2", "requester"))
        lifecycle.create(node, REQUESTER, first.id, first)  # asked again, since the answer was lost
        lifecycle.delete(node, REQUESTER, first.id)
        create()
        for name in ("clara", "dora"):
            accounts.revoke(node, OPERATOR, name)
        create()
        with pytest.raises(NoRoomError, match="from 2 teachers"):
            create()


@pytest.fixture
def disk(deployed, monkeypatch) -> SimpleNamespace:
    """The disk of S1, with as much free as the test says."""
    free = SimpleNamespace(bytes=1 << 40)
    monkeypatch.setattr(data_room.shutil, "disk_usage", lambda _: SimpleNamespace(free=free.bytes))
    return free


def test_votes_leave_room_to_deletes_and_revocations(deployed, disk):
    node = deployed.nodes[1]
    enrol(node, "mallory")
    terms = terms_for(8)
    publish(node, terms)
    first, _ = vote(node, terms)
    disk.bytes = node.settings.disk_reserve // 8 + 1
    before = pages(node), public_log.page(node, OPERATOR, 0).size
    with pytest.raises(NoRoomForVotesError, match="nothing of yours was taken") as refused:
        vote(node, terms, "ben")
    with pytest.raises(NoRoomForVotesError):
        voting.expect_ballot(node, Caller("ben", "teacher"), terms.id, bytes(32).hex())
    assert (pages(node), public_log.page(node, OPERATOR, 0).size) == before
    assert status(deployed, 1, terms.id).votes == 1
    assert vote(node, terms) == (first, False), "what was taken stays so"
    problem = problem_of(refused.value)
    assert (problem.status, error_of(problem).passing) == (503, True), "clients wait and try again"
    assert health.readiness(node).ready, "there is room for a vote, and not for this one"
    disk.bytes -= 1
    assert (health.readiness(node).ready, health.readiness(node).checks["disk"]) == (False, "full")
    accounts.revoke(node, OPERATOR, "mallory")
    assert lifecycle.delete(node, OPERATOR, terms.id).deleted
    disk.bytes = 1 << 40
    other = terms_for(8)
    publish(node, other)
    assert vote(node, other, "ben")[1]


def test_a_database_elsewhere_has_a_disk_of_its_own(deployed, disk, monkeypatch):
    disk.bytes = 0
    node = deployed.nodes[1]
    assert not data_room.takes_votes(node)
    monkeypatch.setattr(data_room, "file_of", lambda _: None)
    assert data_room.takes_votes(node)


@pytest.fixture
def logs(deployed, monkeypatch) -> list[int]:
    """How long the log of S1's database is, each time before it is emptied."""
    monkeypatch.setattr(retention, "_TOGETHER", MEGABYTE)
    store, lengths = deployed.nodes[1].store, []
    empty, file = store.empty_log, deployed.nodes[1].settings.data_dir / "server.db-wal"

    def watched() -> bool:
        lengths.append(file.stat().st_size)
        return empty()

    monkeypatch.setattr(store, "empty_log", watched)
    return lengths


def of_three_ballots(deployed, **values):
    """A job at S1 with three ballots of 1.6 MB each, and what is kept of those."""
    node, terms = deployed.nodes[1], terms_for(8000, classes=50, sigma=16_000.0, **values)
    publish(node, terms)
    for teacher in ("anna", "ben", "clara"):
        vote(node, terms, teacher)
    with node.store.read() as connection:
        return terms, sealed_inputs(connection, terms.id)


def test_a_delete_needs_little_room_and_gives_room_back(deployed, logs):
    node = deployed.nodes[1]
    terms, secrets = of_three_ballots(deployed)
    node.store.empty_log()
    logs.clear()
    file = node.settings.data_dir / "server.db"
    assert file.stat().st_size > 4 * MEGABYTE
    assert lifecycle.delete(node, OPERATOR, terms.id).deleted
    assert pages(node) == 0
    assert max(logs) < 1.5 * MEGABYTE
    assert file.stat().st_size < MEGABYTE
    assert remains(node.settings.data_dir, secrets) == {}


def test_a_delete_that_is_cut_off_goes_on_at_the_next_sweep(deployed, logs):
    site, node = deployed.sites[1], deployed.nodes[1]
    terms, secrets = of_three_ballots(deployed)
    all_pages = pages(node)
    site.faults.arm(2)
    with pytest.raises(Crash):
        lifecycle.delete(node, OPERATOR, terms.id)
    node = site.restart()
    assert status(deployed, 1, terms.id).deleted
    assert 0 < pages(node) < all_pages
    retention.sweep(node)
    assert pages(node) == 0
    assert remains(node.settings.data_dir, secrets) == {}


def test_whoever_reads_holds_up_a_delete_only_where_room_is_short(deployed, logs, disk):
    node = deployed.nodes[1]
    terms, _ = of_three_ballots(deployed)
    before = pages(node)
    disk.bytes = 0
    with node.store.read() as reading:
        reading.execute(sa.select(ballot_pages.c.page)).first()
        lifecycle.delete(node, OPERATOR, terms.id)
        assert before > pages(node) > 0
        disk.bytes = 1 << 40
        retention.sweep(node)
        assert pages(node) == 0


def test_one_job_that_cannot_be_ended_does_not_stop_the_sweep(deployed, monkeypatch):
    node = deployed.nodes[1]
    bad, good = terms_for(8), terms_for(8)
    for terms in (bad, good):
        publish(node, terms)
        vote(node, terms)
        lifecycle.close(node, REQUESTER, terms.id)
    deployed.later(days=30)
    node.time.hear(node.clock().timestamp())
    write = public_log.write

    def full(connection, node, actor, action, subject, *rest, **more):
        assert not list(node.public_data.iterdir()), "there would have been room"
        if subject == bad.id:
            raise StoreError("full", "")
        return write(connection, node, actor, action, subject, *rest, **more)

    with monkeypatch.context() as patched, structlog.testing.capture_logs() as entries:
        patched.setattr(public_log, "write", full)
        retention.sweep(node)
    assert [(one["event"], one["job"]) for one in entries if one["log_level"] == "error"] == [
        ("retention.failed", bad.id)
    ]
    assert status(deployed, 1, good.id).state is JobState.EXPIRED
    assert pages(node) == 1
    retention.sweep(node)
    assert status(deployed, 1, bad.id).state is JobState.EXPIRED
    assert pages(node) == 0


def test_where_times_cannot_be_set_anew_nothing_ends_by_age_and_ballots_go_all_the_same(deployed, monkeypatch):
    node = deployed.nodes[1]
    given_up, due = terms_for(8), terms_for(8)
    for terms in (given_up, due):
        publish(node, terms)
        vote(node, terms)
    with node.store.write() as connection:
        retention.delete_inputs(connection, given_up.id)
    deployed.later(days=30)
    node.time.hear(node.clock().timestamp())
    with node.store.write() as connection:
        connection.execute(sa.update(jobs).values(times_doubted=True))
    before = status(deployed, 1, due.id)

    def full() -> None:
        raise StoreError("full", "")

    with monkeypatch.context() as patched:
        patched.setattr(retention, "_set_times_anew", lambda _: full())
        retention.sweep(node)
    assert status(deployed, 1, due.id) == before
    assert pages(node) == 1


@pytest.fixture
def small_disk(tmp_path) -> Path:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=120m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_on_a_real_disk_of_120_megabytes(small_disk, tmp_path):
    """Votes are cast until none is taken, and another program takes what it can of the rest."""
    (tmp_path / "servers").mkdir()
    (tmp_path / "servers" / "s1").symlink_to(small_disk)
    made = deployment(tmp_path / "servers", disk_reserve="60MB", keep_inputs="1d")
    node = made.nodes[1]

    def free() -> float:
        return shutil.disk_usage(small_disk).free / MEGABYTE

    enrol(node, "mallory")
    made_jobs = [terms_for(**LARGE) for _ in range(12)]
    for terms in made_jobs:
        publish(node, terms)
    voted, taken = [], iter(made_jobs)
    with suppress(NoRoomForVotesError):
        while vote(node, terms := next(taken)):
            voted.append(terms)
    assert voted
    assert free() > 33
    with (small_disk / "other").open("wb", buffering=0) as other, suppress(OSError):
        while free() > 8:
            other.write(bytes(1 << 16))
    assert not health.readiness(node).ready
    accounts.revoke(node, OPERATOR, "mallory")
    assert lifecycle.delete(node, OPERATOR, voted[0].id).deleted
    assert free() > 15, "as much as the ballot took"
    made.later(days=30)
    node.time.hear(node.clock().timestamp())
    retention.sweep(node)
    retention.sweep(node)
    assert status(made, 1, voted[1].id).state is JobState.EXPIRED
    assert pages(node) == 0
    (small_disk / "other").unlink()
    assert free() > 115
    again = terms_for(**LARGE, deadline=int(node.clock().timestamp()) + 3600)
    publish(node, again)
    assert vote(node, again)[1]
    made.close()
