"""The audit log as a chain: every line has a digest of itself and of the line before it, under the key of the kit.

Who can write to the database and lacks the kit cannot change, remove, insert or move a line so that the digests still
fit. Lines that are cut off at the end leave a chain that fits: that shows to whoever has noted the head, the number and
digest of the newest line, before.

One writer at a time has the end of the chain, until its transaction ends. So numbers become visible in their order, and
whoever reads on after a number misses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from sedml.service.server.storage.tables import SCHEMA, audit
from sedml.service.server.storage.vault import Vault

__all__ = ["BEGINNING", "append", "chain_older", "ends_under", "first_wrong", "newest", "rekey"]

BEGINNING = ""
"""What comes before the first line, in place of a digest."""

# Built once: every ballot needs them.
_INSERT = sa.insert(audit)
_LOCK = sa.select(SCHEMA.versions).with_for_update()
_NEWEST = sa.select(audit.c.number, audit.c.digest).order_by(audit.c.number.desc()).limit(1)


def append(connection: sa.Connection, vault: Vault, lines: Iterable[dict[str, Any]]) -> None:
    """Add lines to a transaction, which takes no other lock after this: lines of all jobs wait for its end."""
    if connection.dialect.name != "sqlite":  # which has one writer anyway
        connection.execute(_LOCK).all()
    last, digest = newest(connection) or (0, BEGINNING)
    chained = []
    for number, line in enumerate(lines, start=last + 1):
        digest = _digest(vault, digest, line | {"number": number})
        chained.append({**line, "number": number, "digest": digest})
    connection.execute(_INSERT, chained)


def newest(connection: sa.Connection, before: int | None = None) -> tuple[int, str] | None:
    """Number and digest of the newest line, or of the newest with at most this number."""
    query = _NEWEST if before is None else _NEWEST.where(audit.c.number <= before)
    row = connection.execute(query).one_or_none()
    return None if row is None else (row.number, row.digest)


def first_wrong(vault: Vault, digest: str, rows: Iterable[sa.RowMapping]) -> int | None:
    """The number of the first of these consecutive lines that does not fit what is before it."""
    for row in rows:
        if row["digest"] != _digest(vault, digest, row):
            return int(row["number"])
        digest = row["digest"]
    return None


def chain_older(connection: sa.Connection, vault: Vault, time: float, server: str) -> None:
    """Chain what an earlier version wrote, and say so in a line of its own.

    Whoever blanks all digests gets the same done to a forged log. That line, not asked for by any upgrade, gives it
    away, and so does a head that was noted.
    """
    chained = connection.execute(sa.select(audit.c.number).where(audit.c.digest != BEGINNING).limit(1)).first()
    rows = [] if chained else connection.execute(sa.select(audit).order_by(audit.c.number)).mappings().all()
    _chain(connection, vault, rows)
    if rows:
        line = {"at": time, "actor": server, "action": "chain", "subject": "audit", "outcome": f"{len(rows)} lines"}
        append(connection, vault, [line])


def rekey(connection: sa.Connection, old: Vault, new: Vault) -> int | None:
    """Chain all lines under a new key; or none, and the number of the first that does not fit under the old one."""
    rows = connection.execute(sa.select(audit).order_by(audit.c.number)).mappings().all()
    wrong = first_wrong(old, BEGINNING, rows)
    if wrong is None:
        _chain(connection, new, rows)
    return wrong


def ends_under(connection: sa.Connection, vault: Vault) -> bool:
    """Whether the newest line, if there is one, was written under this key."""
    rows = connection.execute(sa.select(audit).order_by(audit.c.number.desc()).limit(2)).mappings().all()
    before = rows[1]["digest"] if len(rows) == 2 else BEGINNING
    return bool(rows) and first_wrong(vault, before, rows[:1]) is None


def _chain(connection: sa.Connection, vault: Vault, rows: Iterable[sa.RowMapping]) -> None:
    digest = BEGINNING
    for row in rows:
        digest = _digest(vault, digest, row)
        connection.execute(sa.update(audit).where(audit.c.number == row["number"]).values(digest=digest))


def _digest(vault: Vault, before: str, line: sa.RowMapping | dict[str, Any]) -> str:
    values = [line[name] for name in ("number", "at", "actor", "action", "subject", "outcome")]
    return vault.digest("audit", "chain", json.dumps([before, *values]).encode())
