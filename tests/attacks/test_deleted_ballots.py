"""Both disks and both kits are stolen after ballots were deleted: nothing of them may lie in any file.

SQLite overwrites what is deleted, but its log keeps every earlier state until it is emptied.
"""

import random
import re
import shutil
import sqlite3
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
import structlog

from sedml.database import Database
from sedml.service.kits import ServerKit
from sedml.service.server.jobs import lifecycle, retention
from sedml.service.server.storage import tables
from sedml.service.states import JobState
from support.deployment import (
    REQUESTER,
    Clock,
    Site,
    deployment,
    make_ballot,
    publish,
    shared_kits,
    states,
    terms_for,
)
from support.disk_remains import rebuilt_votes, remains, sealed_inputs, sealed_labels
from support.tiers import thorough

TINY = 12
OVER_PAGES = 2_000  # samples of a ballot that fills more than a page of SQLite's


@pytest.fixture
def disks(tmp_path):
    return tmp_path / "disks"


@pytest.fixture
def deployed(disks):
    made = deployment(disks)
    yield made
    made.close()


@pytest.fixture
def deleted(monkeypatch):
    """All sealed inputs that were deleted so far, of both servers."""
    seen = set()
    delete = retention.delete_inputs

    def watched(connection, job):
        seen.update(sealed_inputs(connection, job))
        delete(connection, job)

    monkeypatch.setattr(retention, "delete_inputs", watched)
    return seen


def voted(deployed, samples=TINY):
    """An open job of three teachers, and their votes."""
    rng = random.Random(1)
    terms = terms_for(samples, sigma=4000.0)
    for node in deployed.nodes:
        publish(node, terms)
    votes = {f"t{number}": np.array(rng.choices(range(-1, 3), k=samples), np.int16) for number in range(3)}
    for teacher, row in votes.items():
        ballot = make_ballot(teacher, row, terms, rng)
        for node in deployed.nodes:
            ballot.send(node, terms.id)
    return terms, votes


def run(deployed, terms):
    for node in deployed.nodes:
        lifecycle.close(node, REQUESTER, terms.id)
    assert deployed.meet(terms.id) == ["done", "done"]


def sweep(deployed):
    for node in deployed.nodes:
        retention.sweep(node)


def test_where_the_log_is_left_every_vote_is_found(deployed, disks, deleted, tmp_path, monkeypatch):
    """The search below would find what there is."""
    monkeypatch.setattr(Database, "empty_log", lambda _: False)
    terms, votes = voted(deployed)
    run(deployed, terms)
    for _ in range(4):
        run(deployed, voted(deployed)[0])
    assert remains(disks, deleted) == {"server.db-wal": len(deleted)}
    found = rebuilt_votes(deployed.nodes, terms, tmp_path)
    assert found.keys() == votes.keys()
    for teacher, row in votes.items():
        np.testing.assert_array_equal(found[teacher], row)


@pytest.mark.parametrize("samples", [TINY, OVER_PAGES])
def test_nothing_is_left_of_a_finished_job(deployed, disks, deleted, tmp_path, samples):
    terms, _ = voted(deployed, samples)
    run(deployed, terms)
    assert len(deleted) == 2 * 3 * terms.ballot.page_count
    assert remains(disks, deleted) == {}
    assert rebuilt_votes(deployed.nodes, terms, tmp_path) == {}


@thorough
def test_nothing_is_left_of_five_jobs_of_which_some_wait(deployed, disks, deleted):
    waiting, _ = voted(deployed)
    made = [voted(deployed, samples)[0] for samples in (TINY, 3000, OVER_PAGES, TINY)]
    for terms in made:
        run(deployed, terms)
    assert len(deleted) == sum(2 * 3 * terms.ballot.page_count for terms in made)
    assert remains(disks, deleted) == {}
    run(deployed, waiting)
    assert remains(disks, deleted) == {}


@pytest.mark.parametrize("samples", [TINY, pytest.param(OVER_PAGES, marks=thorough)])
def test_nothing_is_left_when_servers_killed_after_deleting_have_started_again(
    deployed, disks, deleted, tmp_path, monkeypatch, samples
):
    at_the_kill = tmp_path / "at the kill"
    shutil.copytree(disks, at_the_kill)
    terms, _ = voted(deployed, samples)
    with monkeypatch.context() as patched:
        patched.setattr(Database, "empty_log", lambda _: False)
        run(deployed, terms)
        shutil.copytree(disks, at_the_kill, dirs_exist_ok=True)
    assert remains(at_the_kill, deleted) == {"server.db-wal": len(deleted)}
    again = deployment(at_the_kill)
    assert remains(at_the_kill, deleted) == {}
    assert states(again, terms.id) == (JobState.DONE, JobState.DONE)
    again.close()


def test_whoever_reads_while_a_job_ends_holds_up_the_overwriting_and_nothing_else(deployed, disks, deleted):
    terms, _ = voted(deployed)
    with ExitStack() as readers:
        for node in deployed.nodes:
            readers.enter_context(node.store.read()).execute(sa.select(tables.jobs.c.id)).all()
        run(deployed, terms)
        assert remains(disks, deleted) == {"server.db-wal": len(deleted)}
        with structlog.testing.capture_logs() as entries:
            sweep(deployed)
        assert [entry["event"] for entry in entries] == 2 * ["retention.log_kept"]
        assert remains(disks, deleted) == {"server.db-wal": len(deleted)}
    sweep(deployed)
    assert remains(disks, deleted) == {}


def test_nothing_is_left_of_a_job_that_was_deleted(deployed, disks, deleted):
    terms, _ = voted(deployed)
    for node in deployed.nodes:
        lifecycle.delete(node, REQUESTER, terms.id)
    assert len(deleted) == 2 * 3
    assert remains(disks, deleted) == {}


def test_nothing_is_left_of_a_job_that_has_expired(deployed, disks, deleted):
    voted(deployed)
    for days in (2, 7):  # it closes, and then is not run
        deployed.later(days=days)
        sweep(deployed)
    assert len(deleted) == 2 * 3
    assert remains(disks, deleted) == {}


def test_nothing_is_left_of_inputs_that_were_kept_for_a_while(disks, deleted):
    made = deployment(disks, keep_inputs="1h")
    run(made, voted(made)[0])
    made.later(hours=2)
    sweep(made)
    assert len(deleted) == 2 * 3
    assert remains(disks, deleted) == {}
    made.close()


@pytest.mark.parametrize("by_requester", [True, False])
def test_nothing_is_left_of_label_shares(deployed, disks, by_requester):
    terms, _ = voted(deployed)
    run(deployed, terms)
    shares = set().union(*map(sealed_labels, deployed.nodes))
    assert remains(disks, shares) == {"server.db": len(shares)}
    if by_requester:
        for node in deployed.nodes:
            lifecycle.delete(node, REQUESTER, terms.id)
    else:
        deployed.later(days=31)
        sweep(deployed)
    assert remains(disks, shares) == {}


def test_a_log_that_another_process_writes_is_emptied_later(tmp_path):
    store = Database(tmp_path / "server.db", 30.0, tables.SCHEMA)
    log = tmp_path / "server.db-wal"
    with closing(sqlite3.connect(tmp_path / "server.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert not store.empty_log()
        assert log.stat().st_size
        other.execute("COMMIT")
        assert store.empty_log()
        assert log.stat().st_size == 0
    with store.read() as connection:  # the very connection that emptied the log: it waits for others as before
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 30_000
    store.close()


def test_ballots_that_are_sorted_go_to_no_other_file(tmp_path):
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
    store = Database(tmp_path / "server.db", 30.0, tables.SCHEMA)
    with store.read() as connection:
        rows = connection.exec_driver_sql(f"{numbers} SELECT randomblob(5000) FROM n ORDER BY -i")
        rows.fetchone()
        opened = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    assert any("server.db" in name for name in opened)
    assert not any("etilqs" in name for name in opened)  # as SQLite calls its temporary files, which it unlinks at once
    store.close()


@thorough
def test_nothing_is_left_on_postgresql_after_the_commands_that_are_documented(tmp_path, postgres):
    import psycopg

    page = (Path(__file__).parents[2] / "docs" / "how-to" / "operate" / "backups.md").read_text()
    documented = re.findall(r"-c '([^']+)'", page)
    address = {"host": str(postgres.folder), "user": "sedml", "dbname": "postgres"}
    site = Site(
        ServerKit.load(shared_kits() / "s1"), {"data_dir": tmp_path, "database": postgres.new("remains")}, Clock()
    )
    node, terms, rng = site.start(), terms_for(OVER_PAGES, sigma=4000.0), random.Random(1)
    publish(node, terms)
    for number in range(3):
        make_ballot(f"t{number}", np.zeros(OVER_PAGES, np.int16), terms, rng).send(node, terms.id)
    with node.store.read() as connection:
        secrets = sealed_inputs(connection, terms.id)
    lifecycle.delete(node, REQUESTER, terms.id)
    node.close()
    with psycopg.connect(**address, autocommit=True, options="-c search_path=remains") as superuser:
        superuser.execute("CHECKPOINT")
        assert sum(remains(postgres.folder / "data", secrets).values()) >= len(secrets), "or the search finds nothing"
        superuser.execute("ALTER SYSTEM SET wal_recycle = off")
        superuser.execute("SELECT pg_reload_conf()")
        for command in documented:
            superuser.execute(command)
    assert remains(postgres.folder / "data", secrets) == {}


@thorough
def test_postgresql_looks_after_its_own_log(postgres):
    store = Database(postgres.new("own_log"), 30.0, tables.SCHEMA)
    assert store.empty_log()
    store.close()
