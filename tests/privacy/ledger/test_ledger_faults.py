"""Locked, damaged, full, unreachable: a clear error, nothing half-done, and no label in any message."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from sedml.errors import LedgerError
from sedml.privacy.ledger import Ledger
from support import ledger_children as children
from support.tiers import thorough

SECRET = 2718281828459045235


def fill(where: str | Path) -> None:
    """Two cohorts with jobs in every state, and labels."""
    with Ledger.open(where) as ledger:
        for cohort in ("c", "d"):
            ledger.set_budget(cohort, 2.0, 1e-5)
            for number in range(8):
                ledger.reserve(cohort, f"job {number}", 0.004 + number / 1000, 1e-10, terms=b"terms")
            ledger.cancel(cohort, "job 0")
            for number in range(4, 8):
                ledger.start(cohort, f"job {number}")
            ledger.remember(cohort, "job 7", [bytes([n]) * 32 for n in range(100)], [n % 10 for n in range(100)])


def sql(where: str, *statements: str) -> None:
    engine = sa.create_engine(where)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


# ---- Locked -----------------------------------------------------------------------------------------


def test_a_lock_that_is_not_let_go(where):
    with Ledger.open(where, timeout=0.02) as ledger:
        ledger.set_budget("c", 2.0, 1e-5)
        before = ledger.status("c")
        with closing(Hold(where)):
            for call in (
                lambda: ledger.reserve("c", "j", 0.01),
                lambda: ledger.set_budget("d", 1.0, 1e-5) if "sqlite" in where else ledger.reserve("c", "k", 0.01),
            ):
                with pytest.raises(LedgerError, match="locked by another process"):
                    call()
            assert ledger.status("c") == before  # reading goes on
        ledger.reserve("c", "j", 0.01)
        assert len(ledger.jobs("c")) == 1


class Hold:
    """Somebody else in the middle of writing to the cohort."""

    def __init__(self, where: str) -> None:
        self._engine = sa.create_engine(where)
        self._connection = self._engine.connect()
        if "sqlite" in where:
            self._connection.exec_driver_sql("BEGIN IMMEDIATE")
        self._connection.exec_driver_sql("UPDATE sedml_ledger_cohorts SET writes = writes")

    def close(self) -> None:
        self._connection.close()
        self._engine.dispose()


def test_an_exclusively_locked_file_cannot_be_opened(tmp_path):
    path = tmp_path / "l.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(LedgerError, match="locked by another process"):
            Ledger.open(path, timeout=0.02)
    with Ledger.open(path) as ledger:
        ledger.set_budget("c", 2.0, 1e-5)


# ---- Damaged ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("contents", [b"\x00" * 4096, b"not a database, but long enough to look at" * 99])
def test_a_file_that_is_no_ledger(tmp_path, contents):
    path = tmp_path / "l.db"
    path.write_bytes(contents)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(path)
    assert path.read_bytes() == contents


def test_a_ledger_that_was_cut_off(tmp_path):
    fill(tmp_path / "l.db")
    whole = (tmp_path / "l.db").read_bytes()
    for size in range(100, len(whole), 4096 // 2):
        (tmp_path / "l.db").write_bytes(whole[:size])
        with pytest.raises(LedgerError):
            use(tmp_path / "l.db")


def use(where: str | Path) -> dict[str, float]:
    """What the ledger charges to its cohorts."""
    with Ledger.open(where) as ledger:
        charged = {}
        for cohort in ("c", "d"):
            rho = ledger.status(cohort).rho
            ledger.jobs(cohort)
            ledger.known(cohort, [bytes([n]) * 32 for n in range(100)])
            charged[cohort] = rho.spent + rho.reserved
            assert rho.budget <= 0.1081
        return charged


def test_a_flipped_byte_is_noticed_or_does_not_matter(tmp_path):
    original, path = tmp_path / "original.db", tmp_path / "l.db"
    fill(original)
    truth = use(original)
    contents = original.read_bytes()
    used = [at for at, byte in enumerate(contents) if byte]  # most of a small file is empty
    dice = random.Random(1)
    noticed = 0
    for at in dice.sample(used, 80):
        damaged = bytearray(contents)
        damaged[at] ^= dice.choice([1, 2, 4, 16, 64, 128, 255])
        path.write_bytes(damaged)
        try:
            assert use(path) == truth
        except LedgerError:
            noticed += 1
        for rest in tmp_path.glob("l.db-*"):
            rest.unlink()
    assert noticed > 10


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM sedml_ledger_jobs WHERE name = 'job 6'",
        "UPDATE sedml_ledger_jobs SET rho = 0 WHERE name = 'job 6'",
        "UPDATE sedml_ledger_jobs SET rho = rho + 1 WHERE name = 'job 6'",
        "UPDATE sedml_ledger_jobs SET state = 'cancelled' WHERE name = 'job 6'",
        "UPDATE sedml_ledger_jobs SET state = 'lost' WHERE name = 'job 0'",
        "UPDATE sedml_ledger_cohorts SET rho_spent = 0",
        "UPDATE sedml_ledger_cohorts SET rho_reserved = 0, distance_reserved = 0",
        "UPDATE sedml_ledger_cohorts SET rho_limit = rho_limit * 2",
        "UPDATE sedml_ledger_cohorts SET distance_limit = distance_limit * 2",
        "UPDATE sedml_ledger_cohorts SET distance_bits = distance_bits - 1",
        "UPDATE sedml_ledger_cohorts SET epsilon = 1.9",
        "UPDATE sedml_ledger_cohorts SET delta = 0.0",
        "UPDATE sedml_ledger_answers SET label = fingerprint",
    ],
)
def test_books_that_do_not_add_up_are_noticed(where, damage):
    fill(where)
    sql(where, damage)
    with pytest.raises(LedgerError, match="damaged"):
        use(where)


def test_tables_of_another_version(where):
    fill(where)
    sql(where, "UPDATE sedml_ledger_version SET version = 5")
    with pytest.raises(LedgerError, match="tables of version 5; this is version 4"):
        Ledger.open(where)


def test_tables_without_a_version_were_not_finished(where):
    fill(where)
    sql(where, "DELETE FROM sedml_ledger_version")
    with Ledger.open(where) as ledger:
        assert len(ledger.jobs("c")) == 8


# ---- Full -------------------------------------------------------------------------------------------


def test_a_database_that_may_not_grow(tmp_path):
    with Ledger.open(tmp_path / "l.db") as ledger:
        ledger.set_budget("c", 2.0, 1e-5)
        ledger.reserve("c", "j", 0.01)
        ledger.start("c", "j")
        before, granted = ledger.status("c"), []
        keys = [number.to_bytes(32, "big") for number in range(5_000)]

        def limit(connection: sa.Connection) -> None:
            connection.exec_driver_sql("PRAGMA max_page_count = 20")

        sa.event.listen(ledger._database._engine, "begin", limit)
        with pytest.raises(LedgerError, match="disk is full"):
            ledger.remember("c", "j", keys, [1] * len(keys))
        assert ledger.known("c", keys) == [None] * len(keys)
        assert ledger.status("c") == before
        jobs = (ledger.reserve("c", f"job {number}", 1e-9, terms=bytes(2000)) for number in range(1000))
        with pytest.raises(LedgerError, match="disk is full"):
            granted.extend(jobs)
        assert ledger.jobs("c")[1:] == granted
        sa.event.remove(ledger._database._engine, "begin", limit)

    with Ledger.open(tmp_path / "l.db") as ledger:
        ledger.remember("c", "j", keys, [1] * len(keys))
        assert None not in ledger.known("c", keys)


@pytest.mark.parametrize("room", [70_000, 150_000])
def test_a_full_disk(tmp_path, room):
    path = tmp_path / "l.db"
    with Ledger.open(path) as ledger:
        ledger.set_budget("c", 2.0, 1e-5)
    done = subprocess.run(
        [sys.executable, "-W", "error", children.__file__, "fill_disk", str(path), str(room)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    error, jobs = json.loads(done.stdout)
    assert "disk is full" in error
    with Ledger.open(path) as ledger:
        # All that was granted is charged; what failed is not.
        assert len(ledger.jobs("c")) == int(jobs)
        assert ledger.status("c").rho.reserved == pytest.approx(int(jobs) * 1e-6, rel=1e-5)
        ledger.reserve("c", "now there is room", 0.01)


# ---- Unreachable ------------------------------------------------------------------------------------


@thorough
def test_a_server_that_dies_before_the_commit(postgres):
    with Ledger.open(postgres.new("dies")) as ledger:
        ledger.set_budget("c", 2.0, 1e-5)
        ledger.reserve("c", "before", 0.01)

        def crash(_: sa.Connection) -> None:
            postgres.crash()

        sa.event.listen(ledger._database._engine, "commit", crash, once=True)
        try:
            with pytest.raises(LedgerError, match="could not be used"):
                ledger.reserve("c", "j", 0.01)
            with pytest.raises(LedgerError, match="could not be used"):
                ledger.status("c")
        finally:
            postgres.start()
        assert [job.job for job in ledger.jobs("c")] == ["before"]
        ledger.reserve("c", "j", 0.01)
        assert ledger.status("c").rho.reserved == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        (":memory:", "in memory"),
        ("sqlite:///file:x?mode=memory&uri=true", "in memory"),
        ("nonsense://user:secret@host/x", "no driver"),
        ("postgresql+nonsense://user:secret@host/x", "no driver"),
        ("postgresql://user:secret@host:port/x", "malformed"),
        ("postgresql+psycopg://user:secret@/x?host=/nowhere", "could not be used"),
        ("", "path or a database address"),
        (None, "path or a database address"),
        (7, "path or a database address"),
    ],
)
def test_addresses_that_cannot_be_used(where, said):
    with pytest.raises(LedgerError, match=said) as caught:
        Ledger.open(where)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_paths_that_cannot_be_used(tmp_path):
    for path in (tmp_path, tmp_path / "no folder" / "l.db", tmp_path / ("x" * 300)):
        with pytest.raises(LedgerError, match="cannot be"):
            Ledger.open(path)


@pytest.mark.parametrize("timeout", [-1.0, float("nan"), float("inf"), True])
def test_bad_timeouts(tmp_path, timeout):
    with pytest.raises(LedgerError, match="timeout"):
        Ledger.open(tmp_path / "l.db", timeout=timeout)


# ---- Secrets ----------------------------------------------------------------------------------------


def test_no_label_in_an_error(where):
    # The databases put the row into their own message here, and SQLAlchemy adds the parameters.
    fill(where)
    if "sqlite" in where:
        shout = "CREATE TRIGGER t BEFORE INSERT ON sedml_ledger_answers BEGIN SELECT RAISE(ABORT, 'no'); END"
    else:
        shout = "ALTER TABLE sedml_ledger_answers ADD CHECK (length(fingerprint) > 1)"
    sql(where, shout)
    with Ledger.open(where) as ledger:
        with pytest.raises(LedgerError, match="could not be used") as caught:
            ledger.remember("c", "job 7", [b"x"], [SECRET])
        assert ledger.known("c", [b"x"]) == [None]
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + str(vars(caught.value))
    assert str(SECRET) not in shown
    assert SECRET.to_bytes(8, "big").hex() not in shown
    assert "INSERT" not in shown


def test_no_label_in_an_error_about_labels(tmp_path):
    fill(tmp_path / "l.db")
    with Ledger.open(tmp_path / "l.db") as ledger, pytest.raises(ValueError, match="label") as caught:
        ledger.remember("c", "job 7", [b"x"], [float(SECRET)])
    assert str(SECRET)[:8] not in str(caught.value)


def test_a_copy_of_an_open_ledger_is_not_needed_to_read_it(where):
    """Two ledgers on one database see each other's writes at once."""
    with Ledger.open(where) as one, Ledger.open(where) as other:
        one.set_budget("c", 2.0, 1e-5)
        other.reserve("c", "j", 0.01)
        assert one.jobs("c") == other.jobs("c") != []
