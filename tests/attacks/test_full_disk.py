"""A requester fills a server's disk with public data: by jobs that are refused, by uploads that race, by slow readers.

Whatever it does, it has no more than `max_data_bytes_per_requester` there, and what is left of the disk stays for votes
and for whoever has to delete and revoke.
"""

from __future__ import annotations

import hashlib
import os
import random
import secrets
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sedml.errors import NoRoomError, SedmlError, StoreError
from sedml.service.server import data_room
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle, public_data, retention
from sedml.service.server.ops import health
from sedml.service.states import JobState
from sedml.service.terms import Terms
from support.deployment import DATA, REQUESTER, closed_job, make_ballot, open_job, status, terms_for
from support.live_servers import Live, make_kits, settings_of
from support.server_process import until
from support.tiers import thorough
from support.two_servers import deployed, server_settings

__all__ = ["deployed", "server_settings"]

MEGABYTE = 10**6
OPERATOR = Caller("operator-s0", "operator")


def data_of(node, terms: Terms) -> Path:
    return node.public_data / f"{terms.id}.data"


@pytest.fixture
def disk(deployed, monkeypatch) -> SimpleNamespace:
    """The disk of S0, with as much free as the test says, less what uploads hold of it."""
    node, free = deployed.nodes[0], SimpleNamespace(bytes=1 << 40)

    def usage(_: object) -> SimpleNamespace:
        files = [*node.incoming.iterdir(), *node.public_data.iterdir()]
        return SimpleNamespace(free=free.bytes - sum(512 * file.stat().st_blocks for file in files))

    monkeypatch.setattr(data_room.shutil, "disk_usage", usage)
    return free


def test_a_job_without_a_result_keeps_no_data(deployed):
    terms = closed_job(deployed, min_teachers=3)
    deployed.meet(terms.id)
    for role, node in enumerate(deployed.nodes):
        assert status(deployed, role, terms.id).state is JobState.REFUSED
        assert not data_of(node, terms).exists()
        data_of(node, terms).write_bytes(DATA)  # as a crash leaves it, or an older release
        retention.sweep(node)
        assert not data_of(node, terms).exists()


class TestARequester:
    @pytest.fixture
    def server_settings(self) -> dict[str, object]:
        return {"max_data_bytes_per_requester": 3 * MEGABYTE}

    def test_has_so_much_and_no_more(self, deployed):
        node = deployed.nodes[0]

        def create(**values: object) -> Terms:
            terms = terms_for(8, **{"data_bytes": MEGABYTE} | values)
            lifecycle.create(node, REQUESTER, terms.id, terms)
            return terms

        first, _ = create(), create()
        with pytest.raises(NoRoomError, match=r"2,0\d\d,\d\d\d bytes here.*1,000,000.*3,000,000") as refused:
            create()
        assert "sedml job delete" in refused.value.do
        lifecycle.create(node, REQUESTER, first.id, first)  # asked again, since the answer was lost
        lifecycle.delete(node, REQUESTER, first.id)
        create()
        with pytest.raises(NoRoomError):
            create()

    def test_is_held_to_it_by_jobs_that_are_done(self, deployed):
        terms = closed_job(deployed)
        deployed.meet(terms.id)
        node = deployed.nodes[0]
        assert (status(deployed, 0, terms.id).state, data_of(node, terms).exists()) == (JobState.DONE, True)
        counted = node.settings.max_data_bytes_per_requester - len(DATA) - len(terms.model_dump_json()) - 4096
        large = terms_for(8, data_bytes=counted + 1)
        with pytest.raises(NoRoomError):
            lifecycle.create(node, REQUESTER, large.id, large)
        lifecycle.delete(node, REQUESTER, terms.id)
        lifecycle.create(node, REQUESTER, large.id, large)

    def test_gains_nothing_by_haste(self, deployed):
        def create(_: int) -> bool:
            terms = terms_for(8, data_bytes=MEGABYTE)
            try:
                lifecycle.create(deployed.nodes[0], REQUESTER, terms.id, terms)
            except SedmlError:
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            assert sum(threads.map(create, range(8))) == 2

    def test_pays_for_the_records_of_deleted_jobs(self, deployed):
        """They stay, so that creating and deleting must not go on for ever either."""
        names = tuple(f"{number:04} {'x' * 25}" for number in range(1000))
        taken = []

        def again() -> str:
            terms = terms_for(8, classes=1000, class_names=names)
            lifecycle.create(deployed.nodes[0], REQUESTER, terms.id, terms)
            return lifecycle.delete(deployed.nodes[0], REQUESTER, terms.id).id

        with pytest.raises(NoRoomError):
            taken.extend(again() for _ in range(200))
        assert 50 < len(taken) < 100


def test_the_reserve_is_for_votes_and_for_deleting(deployed, disk):
    node, room = deployed.nodes[0], 1 << 20
    terms, created = open_job(deployed, {"anna": np.zeros(8)}), terms_for(8)
    lifecycle.create(node, REQUESTER, created.id, created)
    disk.bytes = node.settings.disk_reserve + room
    later = terms_for(8, data_bytes=2 * room)
    with pytest.raises(NoRoomError, match="no room for 2,097,152 more bytes"):
        lifecycle.create(node, REQUESTER, later.id, later)
    disk.bytes = node.settings.disk_reserve
    found = health.readiness(node)
    assert found.ready, "votes are taken"
    assert "refused" in found.checks["uploads"]
    ballot = make_ballot("ben", np.zeros(8, np.int16), terms, random.Random(2))
    assert ballot.send(node, terms.id)[1]
    assert lifecycle.delete(node, OPERATOR, terms.id).deleted
    disk.bytes = 1
    found = health.readiness(node)
    assert (found.ready, found.checks["disk"]) == (False, "full")


def test_an_upload_has_its_room_before_its_first_byte(deployed, disk, tmp_path):
    node, size = deployed.nodes[0], 1 << 20
    disk.bytes = node.settings.disk_reserve + size + size // 2
    with (node.incoming / "first.part").open("wb") as first, (node.incoming / "second.part").open("wb") as second:
        data_room.allocate(node, first.fileno(), size)
        with pytest.raises(NoRoomError):
            data_room.allocate(node, second.fileno(), size)


def test_a_delete_frees_the_data_before_it_writes(deployed, monkeypatch):
    node = deployed.nodes[0]
    terms = open_job(deployed)

    def full(*_: object, **__: object) -> None:
        assert not data_of(node, terms).exists(), "there would have been room"
        raise StoreError("full", "")

    monkeypatch.setattr("sedml.service.server.jobs.records.update", full)
    with pytest.raises(StoreError):
        lifecycle.delete(node, OPERATOR, terms.id)
    monkeypatch.undo()
    assert status(deployed, 0, terms.id).state is JobState.OPEN
    file = node.incoming / "again"
    file.write_bytes(DATA)
    public_data.accept(node, REQUESTER, terms.id, file)  # nothing was lost that its owner does not have
    assert data_of(node, terms).read_bytes() == DATA
    assert lifecycle.delete(node, OPERATOR, terms.id).deleted


def test_what_a_replica_that_died_had_half_taken_goes(deployed):
    node = deployed.nodes[0]
    fresh, dead = node.incoming / "fresh.part", node.incoming / "dead.part"
    for file in (fresh, dead):
        file.write_bytes(b"half")
    long_ago = time.time() - 3600
    os.utime(dead, (long_ago, long_ago))
    retention.sweep(node)
    assert (fresh.exists(), dead.exists()) == (True, False)


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@thorough
def test_on_a_real_disk_of_400_megabytes(small_disk, tmp_path):
    """Two requesters go on until nothing more is taken: 40 MB closed at once, then left open, then less."""
    settings = settings_of(max_open_jobs_per_requester=100)
    settings["s0"] |= {"data_dir": str(small_disk), "disk_reserve": "100MB", "max_data_bytes_per_requester": "200MB"}
    live = Live(make_kits(tmp_path / "kits", settings, teachers=4, requesters=2))

    def both(method: str, path: str, who: str, body: object = None) -> int:
        return max(server.ask(method, path, live.token(who, server.name), body).status for server in live.servers)

    def put(who: str, size: int) -> tuple[str, int]:
        data = secrets.token_bytes(size)
        asked = {"requester": who, "min_teachers": 3, "deadline": int(time.time()) + 3600, "data_bytes": size}
        terms = terms_for(64, **asked, data_sha256=hashlib.sha256(data).hexdigest())
        answer = both("PUT", f"/v1/jobs/{terms.id}", who, terms.model_dump_json())
        return terms.id, answer if answer >= 400 else both("PUT", f"/v1/jobs/{terms.id}/data", who, data)

    def free() -> int:
        return shutil.disk_usage(small_disk).free // MEGABYTE

    with live.running():
        early = live.create(64)
        for _ in range(12):
            job, answer = put("requester-1", 40 * MEGABYTE)
            assert (answer, both("POST", f"/v1/jobs/{job}/close", "requester-1")) == (201, 200)
            until(lambda job=job: live.status(job, live.s0)["state"] == "refused", "it is refused")
        sys.stdout.write(f"12 jobs of 40 MB refused: {free()} MB of 419 free\n")
        assert free() > 400
        open_jobs = []
        for who in ("requester-1", "requester-2"):
            for size in (40 * MEGABYTE, 4 * MEGABYTE, 400_000):
                while (made := put(who, size))[1] == 201:
                    open_jobs.append(made[0])
                assert made[1] == 409
            sys.stdout.write(f"{who} has put in what it could: {free()} MB free\n")
        assert 95 <= free() <= 102
        (small_disk / "of another program").write_bytes(bytes(8 * MEGABYTE))
        ready = live.s0.ask("GET", "/readyz")
        sys.stdout.write(f"/readyz: {ready.status} {ready.document['checks']['uploads']}\n")
        assert (ready.status, ready.document["checks"]["uploads"] != "ok") == (200, True)
        live.vote(early.id, np.zeros((3, 64), np.int64))
        operator = live.token("operator-s0", "s0")
        assert live.s0.ask("DELETE", "/v1/accounts/requester-2", operator).status == 200
        # And when that program has taken all the rest: a delete makes the room that it needs itself.
        with (small_disk / "of another program").open("ab", buffering=0) as other, suppress(OSError):
            while True:
                other.write(bytes(4096))
        assert (free(), live.s0.ask("GET", "/readyz").status) == (0, 503)
        assert live.s0.ask("DELETE", f"/v1/jobs/{open_jobs[0]}", operator).status == 200
        sys.stdout.write(f"full, and a job deleted: {free()} MB free\n")
        assert live.s0.ask("GET", "/readyz").status == 200
