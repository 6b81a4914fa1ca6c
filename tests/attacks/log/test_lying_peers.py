"""What a lying server does to the other one's log, alarms and clients; and what stores and clocks do to them."""

from __future__ import annotations

import dataclasses
import random
import threading

import numpy as np
import pytest
import sqlalchemy as sa
import structlog

from sedml.errors import LogError, NotCosignedError, SedmlError
from sedml.mpc.channel import memory_pair
from sedml.service.kits import ServerKit
from sedml.service.log.merkle import Tree
from sedml.service.log.notes import Checkpoint, parse
from sedml.service.server import public_log
from sedml.service.server.jobs import lifecycle
from sedml.service.server.link import cosigning, greeting
from sedml.service.server.live.log_tree import LogTree
from sedml.service.server.ops import health
from sedml.service.server.run import meeting
from sedml.service.server.run.runner import attempt
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import log
from sedml.service.states import JobState
from support.client_parties import Job
from support.deployment import (
    REQUESTER,
    Clock,
    Deployment,
    Site,
    conflict_of,
    make_ballot,
    open_job,
    shared_kits,
)
from support.log_lies import accept_restored, alarms, as_server, put_back_one, restart, size, teacher
from support.postgres_server import postgres
from support.snapshots import keep

__all__ = ["postgres"]


def grow(made, node, count=3):
    for _ in range(count):
        public_log.record(node, "x", "y", "z", "w")
    made.greet()


def shown(made, patch, root=None, entries=None):
    """S1 shows another checkpoint once."""

    def lie(real, node, connection):
        true = real(node, connection)
        if entries is not None:
            return Checkpoint(true.origin, entries, public_log.tree_of(node, connection).root(entries))
        return Checkpoint(true.origin, true.size, root)

    with patch.context() as here:
        as_server(here, public_log, "checkpoint_of", 1, lie)
        with pytest.raises(LogError):
            made.greet()


def test_nonsense_about_a_job_that_is_done_raises_one_alarm(parties, deployed, data_file, monkeypatch):
    job = Job(parties, data_file).id
    deployed.close(job)
    honest, liar = deployed.s0.node, deployed.s1.node
    real = meeting._progress

    def progress(side):
        if side.node.role == 0:
            return real(side)
        table = np.full((len(list(side.task.blocks)), 2), 99, np.uint32)
        side.channel.exchange(0, "progress", [table, np.array([1, 0], np.uint32)])
        return [], meeting._Pace(1, 0)

    monkeypatch.setattr(meeting, "_progress", progress)
    before = size(honest)
    for _ in range(5):
        ends = memory_pair(bytes(16), timeout=30.0)

        def call(end=ends[1]):
            with end, pytest.raises(SedmlError):
                meeting.meet(liar, job, end)

        thread = threading.Thread(target=call)
        thread.start()
        with ends[0] as end:
            assert attempt(honest, job, lambda end=end: meeting.meet(honest, job, end)) == "over"
        thread.join()
    assert deployed.s0.state(job) is JobState.DONE
    assert alarms(honest) == ["s1"]
    assert size(honest) - before <= 2


def test_alarms_are_told_however_many_there_were_before(parties, deployed, data_file, monkeypatch):
    made, honest, node = deployed._made, deployed.s0.node, deployed.s1.node
    parties.create(data_file)
    made.greet()
    for count in range(1, 17):
        shown(made, monkeypatch, bytes([count]) * 32)
        made.greet()
    counted = health.figures(honest)["alarms_total"]
    with node.store.write() as connection:  # and now in earnest
        connection.execute(sa.update(log).where(log.c.number == 2).values(hash=bytes(32)))
        log_rows.keep(connection, "own", None)
    restart(node)
    with structlog.testing.capture_logs() as said:
        for _ in range(3):
            with pytest.raises(LogError):
                made.greet()
    told = [one["shown"] for one in said if one["event"] == "log.alarm" and one["log"] == "s1"]
    assert told == [f"{conflict_of(honest).size}:{conflict_of(honest).root}"] * 2, "at both servers"
    assert health.figures(honest)["alarms_total"] == counted + 1
    assert public_log.head(honest, 0).conflict in public_log.head(honest, 0).forks
    assert len(alarms(honest)) == 5, "of 1, 2, 4, 8 and 16: its log is not filled"


def test_each_restore_is_told_at_both_servers(parties, deployed, kits, data_file, tmp_path):
    made, honest, node = deployed._made, deployed.s0.node, deployed.s1.node
    parties.create(data_file)
    made.greet()
    kept = tmp_path / "kept"
    keep(made, kept)
    grow(made, node, 20)
    for number in range(1, 6):
        (tmp_path / f"work{number}").mkdir()
        put_back_one(made, 1, kept, tmp_path / f"work{number}")
        with structlog.testing.capture_logs() as said, pytest.raises(LogError):
            made.greet()
        assert sum(one["event"] == "log.alarm" for one in said) == 2, number
        accept_restored(kits, honest)
        made.greet()
        made.greet()
        grow(made, node)
        kept = tmp_path / f"kept{number}"
        keep(made, kept)
        grow(made, node)


def test_what_is_accepted_is_what_is_shown_now(parties, deployed, kits, data_file, tmp_path, monkeypatch):
    """The last thing that a liar shows is not what an honest restore is held against."""
    made, honest, node = deployed._made, deployed.s0.node, deployed.s1.node
    parties.create(data_file)
    made.greet()
    kept = size(node)
    keep(made, tmp_path / "kept")
    grow(made, node)
    shown(made, monkeypatch, bytes([7]) * 32)
    put_back_one(made, 1, tmp_path / "kept", tmp_path)
    with pytest.raises(LogError):
        made.greet()
    assert (conflict_of(honest).size, public_log.head(honest, 0).proven) == (kept, kept)
    accept_restored(kits, honest)
    made.greet()


def test_the_newest_of_two_backups_is_what_is_accepted(parties, deployed, kits, data_file, tmp_path):
    """S1 is put back to one backup, and to a better one before that is accepted; and grows meanwhile."""
    made, honest, node = deployed._made, deployed.s0.node, deployed.s1.node
    parties.create(data_file)
    made.greet()
    keep(made, tmp_path / "worse")
    for backup in ("better", "newest"):
        for _ in range(4):
            public_log.record(node, "x", "y", "z", "w")
        keep(made, tmp_path / backup)
    made.greet()
    found = []
    for backup in ("worse", "better"):
        (tmp_path / f"work-{backup}").mkdir()
        put_back_one(made, 1, tmp_path / backup, tmp_path / f"work-{backup}")
        public_log.record(node, "x", "y", "z", "w")
        with node.store.read() as connection:
            checkpoint = public_log.checkpoint_of(node, connection)
        with structlog.testing.capture_logs() as said:
            for _ in range(3):
                with pytest.raises(LogError):
                    made.greet()
                public_log.record(node, "x", "y", "z", "w")
        told = [one["shown"] for one in said if one["event"] == "log.alarm" and one["log"] == "s1"]
        found.append((f"{checkpoint.size}:{checkpoint.root.hex()}", set(told)))
    assert all(told == {one} for one, told in found), "each is told as it was, however it has grown"
    assert f"{conflict_of(honest).size}:{conflict_of(honest).root}" == found[1][0]
    accept_restored(kits, honest)
    made.greet()


def test_a_fork_is_kept_whatever_was_shown_before(parties, deployed, data_file, monkeypatch):
    """Its own earlier checkpoints, which do fit, take no place: they were merely old."""
    made, honest = deployed._made, deployed.s0.node
    parties.create(data_file)
    grow(made, deployed.s1.node, 12)
    for entries in range(1, 9):
        shown(made, monkeypatch, entries=entries)
        made.greet()
    shown(made, monkeypatch, bytes([9]) * 32)
    made.greet()
    forks = [parse(one)[0] for one in public_log.head(honest, 0).forks]
    assert [one.root for one in forks] == [bytes([9]) * 32]


@pytest.mark.parametrize("off", [0, 600])
def test_cosignatures_do_not_creep_into_the_future(parties, deployed, kits, data_file, monkeypatch, off):
    """S1 may also say that its own clock is off, so that S0 doubts its one."""
    made = deployed._made
    parties.create(data_file)
    made.greet()
    began = times = int(made.clock().timestamp())

    def late(real, node, known, there):
        nonlocal times
        times += 80_000
        return real(node, known, there)[0], times, node.kit.log_signer.cosign(there.checkpoint, times)

    with monkeypatch.context() as patch:
        as_server(patch, cosigning, "_examine", 1, late)
        as_server(patch, greeting, "now", 1, lambda real, node: real(node) - off)
        made.greet()
        for _ in range(3):
            with pytest.raises(LogError, match="yet to come"):
                made.greet()
    assert teacher(kits).log()["s0"].cosigned_at <= began + 86_400


def test_the_first_cosignature_is_not_dated_by_a_clock_that_runs_ahead(parties, deployed, data_file, monkeypatch):
    made, node = deployed._made, deployed.s0.node
    true = made.clock().timestamp()
    made.clock.jump(hours=10)
    with monkeypatch.context() as patch:
        as_server(patch, greeting, "now", 1, lambda real, node: real(node) - 36_000)
        made.greet()
        first = int(_last(node))
        assert abs(first - true) < 60
    made.clock.reset()
    for one in made.nodes:
        one.time.hear(made.clock().timestamp())
    grow(made, deployed.s1.node)
    assert int(_last(node)) >= first


@pytest.mark.parametrize("theirs", [-5.0, -1e300, 1e300])
def test_a_clock_that_no_calendar_has_stops_nobody(parties, deployed, data_file, monkeypatch, theirs):
    made, node = deployed._made, deployed.s0.node
    parties.create(data_file)
    made.greet()
    with node.store.write() as connection:
        log_rows.keep(connection, "last", None)
    restart(node)
    with monkeypatch.context() as patch:
        as_server(patch, greeting, "now", 1, lambda real, node: theirs)
        grow(made, deployed.s1.node)
    grow(made, deployed.s1.node)


def _last(node):
    with node.store.read() as connection:
        return log_rows.kept(connection, "last")[0]


def test_a_store_that_lost_entries_and_grew_is_noticed_by_the_running_server(parties, deployed, kits, data_file):
    """As when a standby of PostgreSQL takes over: it never had the newest entries, which nobody had cosigned yet."""
    made, node = deployed._made, deployed.s0.node
    parties.create(data_file)
    made.greet()
    count = size(node)
    for _ in range(2):
        public_log.record(node, "lost", "b", "c", "d")
    with node.store.read() as connection:
        public_log.checkpoint_of(node, connection)
    with node.store.write() as connection:
        connection.execute(sa.delete(log).where(log.c.number >= count))
    grow(made, node)
    with node.store.read() as connection:
        true, own = Tree(log_rows.hashes(connection, 0)), parse(log_rows.kept(connection, "own")[0])[0]
    assert own.root == true.root(own.size)
    assert teacher(kits).log()["s0"].checkpoint == own


def test_a_replica_that_read_lost_entries_gives_no_proofs_of_them(parties, deployed, kits, data_file):
    made, node = deployed._made, deployed.s0.node
    parties.create(data_file)
    made.greet()
    count, replica = size(node), dataclasses.replace(node, log=LogTree())
    for _ in range(5):
        public_log.record(node, "lost", "b", "c", "d")
    with node.store.read() as connection:
        public_log.tree_of(replica, connection)
    with node.store.write() as connection:
        connection.execute(sa.delete(log).where(log.c.number >= count))
    grow(made, node)
    assert public_log.head(replica, count) == public_log.head(node, count)


def test_what_counts_as_cosigned_is_what_the_store_has(parties, deployed, data_file):
    made, node = deployed._made, deployed.s0.node
    parties.create(data_file)
    grow(made, node, 30)
    with node.store.write() as connection:
        log_rows.keep(connection, "own", None)
    with node.store.read() as connection, pytest.raises(NotCosignedError):
        public_log.check_cosigned(node, connection, 1)


@pytest.fixture
def on_postgres(postgres, tmp_path, request):
    clock = Clock()
    sites = tuple(
        Site(
            kit,
            {
                "data_dir": tmp_path / kit.name,
                "database": postgres.new(f"store_{kit.name}_{len(request.node.name)}"),
                "ledger": postgres.new(f"ledger_{kit.name}_{len(request.node.name)}"),
            },
            clock,
        )
        for kit in (ServerKit.load(shared_kits() / name) for name in ("s0", "s1"))
    )
    for site in sites:
        site.start()
    made = Deployment(sites, clock)
    yield made
    made.close()


@pytest.mark.thorough
def test_a_log_that_grows_while_it_is_read_is_not_taken_for_a_forged_one(on_postgres, monkeypatch):
    made, node = on_postgres, on_postgres.nodes[0]
    made.greet()
    paused, go, found = threading.Event(), threading.Event(), []

    def slowly(real):
        def read(connection, *args):
            result = real(connection, *args)
            if threading.current_thread() is thread and not paused.is_set():
                paused.set()
                go.wait(60)
            return result

        return read

    def look():
        with node.store.read() as connection:
            found.append(public_log.checkpoint_of(node, connection).size)

    thread = threading.Thread(target=look)
    for name in ("kept", "newest"):
        monkeypatch.setattr(log_rows, name, slowly(getattr(log_rows, name)))
    thread.start()
    assert paused.wait(60)
    grow(made, node)
    go.set()
    thread.join()
    assert found == [size(node)]


@pytest.mark.thorough
def test_a_job_that_is_created_again_during_a_vote_stops_nobody(on_postgres, monkeypatch):
    made, node = on_postgres, on_postgres.nodes[0]
    terms = open_job(made)
    ballot = make_ballot("teacher-b", np.zeros((1, terms.samples), np.int16), terms, random.Random(2))
    real, ready, go, outcomes = public_log.write_all, threading.Event(), threading.Event(), {}

    def slow(*args, **options):
        if args[3] == "vote":
            ready.set()
            go.wait(2.0)  # if the other one holds what the vote needs next, it waits for the vote's own
        return real(*args, **options)

    def vote():
        outcomes["vote"] = ballot.send(node, terms.id)[1]

    def again():
        assert ready.wait(60)
        outcomes["create"] = lifecycle.create(node, REQUESTER, terms.id, terms)[1]
        go.set()

    monkeypatch.setattr(public_log, "write_all", slow)
    threads = [threading.Thread(target=one) for one in (vote, again)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert outcomes == {"vote": True, "create": False}
