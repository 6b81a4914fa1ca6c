"""A ledger that was written by version 1 goes on, and forgets nothing."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sedml.errors import BudgetExceededError, LedgerError
from sedml.privacy.ledger import Ledger, State
from sedml.privacy.ledger.amounts import budget

UNIT = 2.0**-40
LIMIT = 33_539_580_762  # of epsilon 1, delta 1e-5, as version 1 computed it
VERSION_1 = [
    "CREATE TABLE sedml_ledger_version (version INTEGER NOT NULL PRIMARY KEY)",
    """CREATE TABLE sedml_ledger_cohorts (
        id {id} PRIMARY KEY, name VARCHAR(200) NOT NULL UNIQUE, writes BIGINT NOT NULL, epsilon {double} NOT NULL,
        delta {double} NOT NULL, sampler_share {double} NOT NULL, distance_bits INTEGER NOT NULL,
        rho_limit BIGINT NOT NULL CHECK (rho_limit >= 0), distance_limit BIGINT NOT NULL CHECK (distance_limit >= 0),
        rho_spent BIGINT NOT NULL CHECK (rho_spent >= 0), distance_spent BIGINT NOT NULL CHECK (distance_spent >= 0),
        rho_reserved BIGINT NOT NULL CHECK (rho_reserved >= 0),
        distance_reserved BIGINT NOT NULL CHECK (distance_reserved >= 0),
        CHECK (rho_spent + rho_reserved <= rho_limit), CHECK (distance_spent + distance_reserved <= distance_limit))""",
    """CREATE TABLE sedml_ledger_jobs (
        id {id} PRIMARY KEY, cohort {reference} NOT NULL REFERENCES sedml_ledger_cohorts (id),
        name VARCHAR(200) NOT NULL, terms {blob} NOT NULL, state VARCHAR(20) NOT NULL,
        rho_asked BIGINT NOT NULL CHECK (rho_asked >= 0), distance_asked BIGINT NOT NULL CHECK (distance_asked >= 0),
        rho BIGINT NOT NULL CHECK (rho >= 0), distance BIGINT NOT NULL CHECK (distance >= 0),
        UNIQUE (cohort, name), CHECK (rho <= rho_asked AND distance <= distance_asked))""",
    """CREATE TABLE sedml_ledger_answers (
        cohort {reference} NOT NULL REFERENCES sedml_ledger_cohorts (id), fingerprint {blob} NOT NULL,
        job {reference} NOT NULL REFERENCES sedml_ledger_jobs (id), label {blob} NOT NULL,
        PRIMARY KEY (cohort, fingerprint)){without_rowid}""",
    "INSERT INTO sedml_ledger_version VALUES (1)",
    f"INSERT INTO sedml_ledger_cohorts VALUES "
    f"(1, 'c', 7, 1.0, 0.00001, 0.015625, 84, {LIMIT}, 812825570645111808, 1000, 50, 5000000, 300)",
    "INSERT INTO sedml_ledger_jobs VALUES (1, 1, 'settled', {t}, 'settled', 4000, 100, 1000, 50)",
    "INSERT INTO sedml_ledger_jobs VALUES (2, 1, 'running', {t}, 'running', 3000000, 100, 3000000, 100)",
    "INSERT INTO sedml_ledger_jobs VALUES (3, 1, 'reserved', {t}, 'reserved', 2000000, 200, 2000000, 200)",
    "INSERT INTO sedml_ledger_jobs VALUES (4, 1, 'cancelled', {t}, 'cancelled', 9000000, 200, 0, 0)",
    "INSERT INTO sedml_ledger_answers VALUES (1, {key}, 1, {label})",
]
KINDS = {
    "sqlite": {
        "id": "INTEGER NOT NULL", "reference": "INTEGER", "blob": "BLOB", "double": "DOUBLE", "t": "x'74'",
        "key": "x'6b'", "label": "x'690000000000000003'", "without_rowid": " WITHOUT ROWID",
    },
    "postgresql": {
        "id": "BIGSERIAL", "reference": "BIGINT", "blob": "BYTEA", "double": "DOUBLE PRECISION", "t": "'\\x74'",
        "key": "'\\x6b'", "label": "'\\x690000000000000003'", "without_rowid": "",
    },
}  # fmt: skip


def engine_of(where: str) -> sa.Engine:
    return sa.create_engine(where.replace("postgresql://", "postgresql+psycopg://"))


@pytest.fixture
def old(where):
    """The address of a ledger of version 1, with a job in every state."""
    engine = engine_of(where)
    words = KINDS[engine.dialect.name]
    with engine.begin() as connection:
        for statement in VERSION_1:
            connection.exec_driver_sql(statement.format(**words))
        if engine.dialect.name == "postgresql":
            for table in ("cohorts", "jobs"):
                connection.exec_driver_sql(f"SELECT setval('sedml_ledger_{table}_id_seq', 4)")
    engine.dispose()
    return where


def test_nothing_is_forgotten(old):
    with Ledger.open(old) as ledger:
        shown = ledger.status("c")
        assert (shown.epsilon, shown.delta, shown.order) == (1.0, 1e-5, budget(1.0, 1e-5).order)
        assert [part / UNIT for part in (shown.rho.budget, shown.rho.spent, shown.rho.reserved)] == [LIMIT, 1000, 5e6]
        assert [job.state.value for job in ledger.jobs("c")] == [job.job for job in ledger.jobs("c")]
        assert ledger.known("c", [b"k"]) == [3]
        assert ledger.set_budget("c", 1.0, 1e-5) == shown
    with Ledger.open(old) as again:
        assert again.status("c") == shown


def test_jobs_go_on_where_they_were(old):
    with Ledger.open(old) as ledger:
        assert ledger.settle("c", "running").charged_rho == 3e6 * UNIT
        assert ledger.seat("c", "reserved", ["t"]).state is State.RESERVED
        ledger.start("c", "reserved")
        ledger.settle("c", "reserved", 1e6 * UNIT)
        assert ledger.status("c").rho.spent == 4_001_000 * UNIT
        with pytest.raises(LedgerError, match="cancelled"):
            ledger.reserve("c", "cancelled", 9e6 * UNIT, 200 * 2.0**-84, terms=b"t")
        left = ledger.status("c").rho.left
        with pytest.raises(BudgetExceededError):
            ledger.reserve("c", "more", left + UNIT)
        ledger.reserve("c", "last", left, teachers=["t"])
        assert ledger.teacher("t").cohort == "c"


def test_whom_its_jobs_counted_can_be_put_on_record(old):
    with Ledger.open(old) as ledger:
        assert ledger.unseated() == [("c", "settled"), ("c", "running"), ("c", "reserved")]
        ledger.record_seats("c", "running", ["t", "u"])
        ledger.record_seats("c", "running", ["v"])  # known already
        assert ledger.unseated() == [("c", "settled"), ("c", "reserved")]
        ledger.set_budget("d", 1.0, 1e-5)
        assert list(ledger.refusals("d", "j", 0.0, ["t", "u", "v"])) == ["t", "u"]


def test_a_migration_that_breaks_off_leaves_version_1(old, monkeypatch):
    from sedml.privacy.ledger import schema

    def fails(*_, **__):
        raise LedgerError("no", "no")

    with monkeypatch.context() as broken:
        broken.setattr(schema.TABLES, "create_all", fails)
        with pytest.raises(LedgerError):
            Ledger.open(old)
    engine = engine_of(old)
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT version FROM sedml_ledger_version").scalar() == 1
        columns = {column["name"] for column in sa.inspect(connection).get_columns("sedml_ledger_cohorts")}
    engine.dispose()
    assert "renyi_order" not in columns
    with Ledger.open(old) as ledger:
        assert ledger.status("c").rho.spent == 1000 * UNIT
