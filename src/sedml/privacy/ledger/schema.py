"""The ledger's database: its tables, the states of a job, and the error for books that are damaged.

Books are kept twice: every job has its charge, every cohort the totals. They change in one transaction, and
whoever reads a cohort adds up its jobs and compares, so a lost or damaged row is noticed and not forgiven.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TypeVar

import sqlalchemy as sa

from sedml.database import Schema
from sedml.errors import InputError, LedgerError, SedmlError

T = TypeVar("T")

_CHUNK = 4096  # parameters in one statement: SQLite takes 32,766, PostgreSQL 65,535


class State(StrEnum):
    """Where a job is. In the first two states it is charged, and from the last two nothing leads on."""

    RESERVED = "reserved"
    STARTED = "started"
    CANCELLED = "cancelled"


TABLES = sa.MetaData()


class _Bytes(sa.LargeBinary):
    """Bytes that the drivers take as they are: with a million labels the detour by `Binary` is felt."""

    def bind_processor(self, dialect: sa.Dialect) -> None:
        return None


_Key = _Bytes(64).with_variant(sa.VARBINARY(64), "mysql", "mariadb")
_Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite numbers rows by itself only for INTEGER


def _amounts(*names: str) -> list[sa.Column[int]]:
    return [sa.Column(name, sa.BigInteger, sa.CheckConstraint(f"{name} >= 0"), nullable=False) for name in names]


versions = sa.Table(
    "sedml_ledger_version", TABLES, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False)
)

cohorts = sa.Table(
    "sedml_ledger_cohorts",
    TABLES,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("name", sa.String(200), nullable=False, unique=True),
    # Writing to a cohort's row is what locks the cohort, on every database.
    sa.Column("writes", sa.BigInteger, nullable=False),
    # Whom the budget protects: an organisation, or a patient whose data it holds.
    sa.Column("unit", sa.String(40), nullable=False),
    sa.Column("epsilon", sa.Double, nullable=False),
    sa.Column("delta", sa.Double, nullable=False),
    sa.Column("sampler_share", sa.Double, nullable=False),
    sa.Column("distance_bits", sa.Integer, nullable=False),
    sa.Column("renyi_order", sa.Double, nullable=False),
    *_amounts("rho_limit", "distance_limit", "rho_spent", "distance_spent", "rho_reserved", "distance_reserved"),
    sa.CheckConstraint("rho_spent + rho_reserved <= rho_limit"),
    sa.CheckConstraint("distance_spent + distance_reserved <= distance_limit"),
)

jobs = sa.Table(
    "sedml_ledger_jobs",
    TABLES,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("cohort", sa.ForeignKey(cohorts.c.id), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("terms", sa.LargeBinary, nullable=False),
    sa.Column("state", sa.String(20), nullable=False),
    *_amounts("rho", "distance"),
    sa.UniqueConstraint("cohort", "name"),
)

answers = sa.Table(
    "sedml_ledger_answers",
    TABLES,
    sa.Column("cohort", sa.ForeignKey(cohorts.c.id), primary_key=True),
    sa.Column("fingerprint", _Key, primary_key=True),
    sa.Column("job", sa.ForeignKey(jobs.c.id), nullable=False),
    sa.Column("label", sa.LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# Who was counted in which job. A teacher belongs to the cohort of the first that was not cancelled.
seats = sa.Table(
    "sedml_ledger_seats",
    TABLES,
    sa.Column("teacher", sa.String(200), primary_key=True),
    sa.Column("job", sa.ForeignKey(jobs.c.id), primary_key=True, index=True),
)

limits = sa.Table(
    "sedml_ledger_limits",
    TABLES,
    sa.Column("teacher", sa.String(200), primary_key=True),
    sa.Column("epsilon", sa.Double, nullable=False),
)


SCHEMA = Schema(
    name="ledger",
    tables=TABLES,
    version=4,
    error=LedgerError,
    again="Then repeat the call: with the same job and terms nothing is charged twice.",
    restore=(
        "Put back the newest backup, and charge every job since. Do not start an empty ledger for teachers that "
        "have answered before: what they have spent would be forgotten."
    ),
    older=(
        "It does not say whom its budgets protect, and its charges cannot be carried over. Keep it, tell the teachers "
        "what it says with the release that wrote it, and promise them a new budget in a new ledger: the two promises "
        "add up."
    ),
)


def damaged(what: str) -> SedmlError:
    """The books do not add up."""
    return SCHEMA.damaged(what)


def blob(value: object) -> bytes:
    """Bytes out of the database; SQLite may hand out anything from a damaged file."""
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    raise damaged("a stored value is not bytes")


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """The values by as many as one statement takes."""
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


def check_name(kind: str, name: object) -> None:
    """Raise unless it is a short text that every database can hold."""
    if not isinstance(name, str) or not 1 <= len(name) <= 200 or not name.isprintable():
        raise InputError(
            f"The name of a {kind} is empty, longer than 200 characters, or not printable.",
            f"Use a short name for the {kind}.",
        )
