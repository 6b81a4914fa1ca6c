"""Of several replicas of a server, one drives the jobs: who that is, and who comes after it."""

from __future__ import annotations

import time

import pytest
import sqlalchemy as sa

from sedml.errors import InputError, StoreError
from sedml.service.kits import ServerKit
from sedml.service.server.ops import leadership
from sedml.service.server.ops.leadership import Leadership, let_go, take
from sedml.service.server.storage.tables import leases
from support.deployment import Clock, Site, shared_kits
from support.tiers import DATABASES


class Work:
    """Notes whether it is done."""

    def __init__(self, log: list[str], fails: bool = False) -> None:
        self.log, self.fails = log, fails

    def start(self) -> None:
        if self.fails:
            raise InputError("The port is taken.", "Take another.")
        self.log.append("start")

    def stop(self) -> None:
        self.log.append("stop")


@pytest.fixture(params=DATABASES)
def replicas(request, tmp_path):
    """Two nodes of one server."""
    settings = {"data_dir": tmp_path, "replicated": True, "lease": 60.0}
    if request.param == "postgresql":
        settings["database"] = request.getfixturevalue("postgres").new(f"lease_{abs(hash(str(tmp_path)))}")
    kit, clock = ServerKit.load(shared_kits() / "s0"), Clock()
    sites = [Site(kit, settings, clock) for _ in range(2)]
    nodes = [site.start() for site in sites]
    yield nodes, clock
    for node in nodes:
        node.close()


def expire(node) -> None:
    """As if its holder had not been heard of for so long, by the clock of the database."""
    with node.store.write() as connection:
        connection.execute(sa.update(leases).values(until=leases.c.until - 1000.0))


def test_one_has_it_until_it_expires_or_is_left(replicas):
    (one, other), _ = replicas
    assert take(one, "a")
    assert not take(other, "b")
    assert take(one, "a"), "renewed"
    expire(one)
    assert take(other, "b")
    assert not take(one, "a")
    let_go(one, "a")
    assert not take(one, "a"), "only its holder can leave it"
    let_go(other, "b")
    assert take(one, "a")


def test_the_others_know_when_the_peer_was_heard_of(replicas):
    (one, other), clock = replicas
    one.peer.hear()
    clock.later(seconds=20)
    start = time.monotonic()
    assert take(one, "a")
    assert not take(other, "b")
    # The database has a clock of its own, which is this machine's.
    assert 19.0 < other.peer.silent_seconds() < 21.0 + time.monotonic() - start
    assert other.peer.verdict() == "ok"


def test_work_is_done_by_one_and_taken_over(replicas):
    (one, other), _ = replicas
    first, second = [], []
    leads, follows = Leadership(one, lambda: Work(first)), Leadership(other, lambda: Work(second))
    for _ in range(2):
        leads.turn()
        follows.turn()
    assert (first, second) == (["start"], [])
    assert (one.leads.is_set(), other.leads.is_set()) == (True, False)
    expire(one)
    follows.turn()
    leads.turn()
    assert (first, second) == (["start", "stop"], ["start"])
    assert (one.leads.is_set(), other.leads.is_set()) == (False, True)
    follows.stop()
    leads.turn()
    assert (first, second) == (["start", "stop", "start"], ["start", "stop"])
    leads.stop()


def test_who_cannot_begin_leaves_it_to_others(replicas):
    (one, other), _ = replicas
    log: list[str] = []
    Leadership(one, lambda: Work(log, fails=True)).turn()
    assert not one.leads.is_set()
    assert take(other, "b")


def test_who_is_cut_off_from_the_store_rests_once_its_time_is_over(replicas, monkeypatch):
    (one, _), clock = replicas
    log: list[str] = []
    leads = Leadership(one, lambda: Work(log))
    leads.turn()

    def gone(*_):
        raise StoreError("The store is gone.", "Wait.")

    monkeypatch.setattr(leadership, "take", gone)
    clock.later(seconds=50)
    leads.turn()
    assert log == ["start"]
    clock.later(seconds=11)
    leads.turn()
    assert log == ["start", "stop"]


def test_a_server_by_itself_leads(tmp_path):
    node = Site(ServerKit.load(shared_kits() / "s0"), {"data_dir": tmp_path}, Clock()).start()
    assert node.leads.is_set()
    assert not node.settings.replicated
    node.close()
