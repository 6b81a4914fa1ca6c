"""How databases are opened, each so that what was committed stays, and what was deleted does not.

SQLite: write-ahead log, synchronous=FULL, and BEGIN IMMEDIATE for whatever writes, so that two writers never
interleave.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.pool import ConnectionPoolEntry

from sedml.database.versioned_tables import Schema

BRIEFLY = 0.05
"""Seconds that emptying the log may hold up whoever writes."""
_PAUSE = 0.01
_GIVEN_BACK = 2048  # pages of SQLite's file at a time
_TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"


def url_of(where: str | Path, schema: Schema) -> sa.URL:
    """Where a database is, from a path or an address."""
    if not isinstance(where, str | Path) or not str(where):
        raise schema.error(f"A {schema.name} cannot be a {type(where).__name__}.", "Pass a path or a database address.")
    if isinstance(where, Path) or "://" not in where:
        return sa.URL.create("sqlite", database=str(where))
    try:
        return sound_url(where)
    except (sa.exc.ArgumentError, ValueError):  # its message has the whole address, password and all
        raise schema.error(
            f"The database address of the {schema.name} is malformed.",
            f"Use one such as sqlite:///{schema.name}.db or postgresql://user@host/name.",
        ) from None


def sound_url(text: str) -> sa.URL:
    """The address of a database; of PostgreSQL, by the driver that is installed."""
    url = sa.make_url(text)
    # SQLAlchemy 2.0 takes this to mean the older driver.
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def open_engine(url: sa.URL, timeout: float, schema: Schema) -> sa.Engine:
    """What makes connections that lose nothing, once a commit was reported."""
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, timeout, schema)
    arguments = {"connect_timeout": max(2, math.ceil(timeout))} if "psycopg" in url.get_driver_name() else {}
    engine = sa.create_engine(
        url,
        hide_parameters=True,
        isolation_level="READ COMMITTED",
        pool_pre_ping=True,
        connect_args=arguments,
    )
    if engine.dialect.name == "postgresql":

        @sa.event.listens_for(engine, "connect")
        def _connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
            with _closed_on_error(connection), closing(connection.cursor()) as cursor:
                cursor.execute(f"SET lock_timeout = {max(1, round(timeout * 1000))}")
                cursor.execute("SHOW synchronous_commit")
                # With "off" a commit may be lost after it was reported, and the charge for a released label.
                if cursor.fetchall()[0][0] == "off":
                    cursor.execute("SET synchronous_commit = on")
                connection.commit()

    return engine


def _sqlite(url: sa.URL, timeout: float, schema: Schema) -> sa.Engine:
    if url.database in (None, "", ":memory:") or url.query:
        raise schema.error(
            f"A {schema.name} in memory, or in a file with options, was asked for: it may forget what it was told.",
            "Use a path, or sqlite:/// and a path.",
        )
    _create_private(Path(str(url.database)), schema)
    engine = sa.create_engine(url, hide_parameters=True, connect_args={"timeout": timeout})

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # sqlite3 shall not begin transactions by itself
        with _closed_on_error(connection), closing(connection.cursor()) as cursor:
            _write_ahead(cursor, timeout)
            cursor.execute("PRAGMA synchronous = FULL")
            cursor.execute("PRAGMA foreign_keys = ON")
            cursor.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten
            cursor.execute("PRAGMA temp_store = MEMORY")  # what is sorted, ballots too, goes to no other file

    @sa.event.listens_for(engine, "begin")
    def _begins(connection: sa.Connection) -> None:
        reads = connection.get_execution_options().get("sedml_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


def _write_ahead(cursor: DBAPICursor, timeout: float) -> None:
    """Keep a write-ahead log, and a new file such that it can shrink.

    SQLite does not wait for others by itself here, whatever its time-out.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            cursor.execute("PRAGMA page_count")
            if cursor.fetchall() == [(0,)]:
                cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE)


def checkpoint(engine: sa.Engine) -> bool:
    """Empty the log, outside of any transaction; false if others are in the way for longer than a moment."""
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        patience = _answer(cursor, "PRAGMA busy_timeout")
        cursor.execute(f"PRAGMA busy_timeout = {round(BRIEFLY * 1000)}")
        try:
            # The log first: to give back free pages, and to move others into their places, takes some of it again.
            emptied = _answer(cursor, _TRUNCATE) == 0
            if emptied and _answer(cursor, "PRAGMA freelist_count"):
                # `execute` would take one step of it, a page, and no more.
                cast(sqlite3.Cursor, cursor).executescript(f"PRAGMA incremental_vacuum({_GIVEN_BACK})")
                emptied = _answer(cursor, _TRUNCATE) == 0
            return emptied
        finally:
            cursor.execute(f"PRAGMA busy_timeout = {patience}")


def _answer(cursor: DBAPICursor, query: str) -> object:
    cursor.execute(query)
    return cursor.fetchall()[0][0]


@contextmanager
def _closed_on_error(connection: DBAPIConnection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _create_private(path: Path, schema: Schema) -> None:
    """Create the file for its owner only, as it holds secrets; one that exists is left as it is."""
    try:
        # Never open an existing one here: closing it would drop the locks of this process's other connections.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise schema.error(
            f"The {schema.name} {path} cannot be created ({error.strerror}).",
            "Check that its folder exists, and that this user may write there.",
        ) from None
