"""The ledger's database: its schema, and the error for books that are damaged."""

from __future__ import annotations

from pathlib import Path

from sedml.database import Database, Schema
from sedml.errors import LedgerError, SedmlError
from sedml.privacy.ledger.schema import MIGRATIONS, SCHEMA_VERSION, TABLES

__all__ = ["blob", "damaged", "open_database"]

_SCHEMA = Schema(
    name="ledger",
    tables=TABLES,
    version=SCHEMA_VERSION,
    error=LedgerError,
    migrations=MIGRATIONS,
    again="Then repeat the call: with the same job and terms nothing is charged twice.",
    restore=(
        "Put back the newest backup, and charge every job since. Do not start an empty ledger for teachers that "
        "have answered before: what they have spent would be forgotten."
    ),
)


def open_database(where: str | Path, timeout: float) -> Database:
    """Open or create it."""
    return Database(where, timeout, _SCHEMA)


def damaged(what: str) -> SedmlError:
    """The books do not add up."""
    return _SCHEMA.damaged(what)


def blob(value: object) -> bytes:
    """Bytes out of the database; SQLite may hand out anything from a damaged file."""
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    raise damaged("a stored value is not bytes")
