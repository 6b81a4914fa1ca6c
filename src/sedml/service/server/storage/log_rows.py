"""The rows of the log: added at the end in the transaction that makes them true, and read.

One writer at a time has the end of the log, until its transaction ends. So numbers become visible in their order, and
whoever reads on after a number misses nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from sedml.service.log.entries import SALT, commitment, entry_hash
from sedml.service.server.storage.tables import SCHEMA, log, notes

# Built once: every ballot needs them.
_INSERT = sa.insert(log)
_LOCK = sa.select(SCHEMA.versions).with_for_update()
_NEWEST = sa.select(log.c.number, log.c.hash).order_by(log.c.number.desc()).limit(1)
_NOTE = sa.select(notes.c.text, notes.c.certificate).where(notes.c.name == sa.bindparam("name"))
_LINE = ("at", "actor", "action", "subject", "outcome")


def append(connection: sa.Connection, lines: Iterable[dict[str, Any]]) -> int:
    """Add lines to a transaction, which takes no other lock after this: lines of all jobs wait for its end.

    The number of the last.
    """
    if connection.dialect.name != "sqlite":  # which has one writer anyway
        connection.execute(_LOCK).all()
    last, _ = newest(connection) or (-1, b"")
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=last + 1):
        salt = secrets.token_bytes(SALT)
        leaf = entry_hash(line["entry"], commitment(salt, *(line[name] for name in _LINE)))
        rows.append({**line, "number": number, "salt": salt, "hash": leaf})
    if rows:
        connection.execute(_INSERT, rows)
    return last + len(rows)


def line_of(row: sa.RowMapping) -> str:
    """The commitment to the line of a row, from what the row says now."""
    return commitment(bytes(row["salt"]), *(row[name] for name in _LINE))


def newest(connection: sa.Connection) -> tuple[int, bytes] | None:
    """Number and hash of the newest entry."""
    row = connection.execute(_NEWEST).one_or_none()
    return None if row is None else (row.number, bytes(row.hash))


def hashes(connection: sa.Connection, start: int) -> Iterable[bytes]:
    """Of all entries from this number on."""
    query = sa.select(log.c.hash).where(log.c.number >= start).order_by(log.c.number)
    return (bytes(one) for one in connection.execute(query).scalars())


def kept(connection: sa.Connection, name: str) -> tuple[str, str | None] | None:
    """A note, and the certificate that is kept with it."""
    row = connection.execute(_NOTE, {"name": name}).one_or_none()
    return None if row is None else (row.text, row.certificate)


def keep(connection: sa.Connection, name: str, text: str | None, certificate: str | None = None) -> None:
    """Put a note in the place of the one of this name, or none."""
    connection.execute(sa.delete(notes).where(notes.c.name == name))
    if text is not None:
        connection.execute(sa.insert(notes).values(name=name, text=text, certificate=certificate))
