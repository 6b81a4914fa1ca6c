"""Durable transactions on SQLite, PostgreSQL or another database, and clear errors from them.

SQLite: write-ahead log, synchronous=FULL, and BEGIN IMMEDIATE for whatever writes, so that two writers never
interleave. Elsewhere whoever writes locks the row it decides by first; READ COMMITTED is then enough. What is deleted
is overwritten in SQLite's file, and lies in its log until `empty_log`, which gives its room back to the file system.

A `Schema` is a set of tables with a version. It is created where there is none, moved forward step by step where it
is older, and refused where it is newer. Drivers put values, and so labels and shares, into their messages: only their
error codes are passed on.
"""

from __future__ import annotations

import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from sedml.errors import MissingExtraError, SedmlError
from sedml.extras import explain_missing

with explain_missing():
    import sqlalchemy as sa
    from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
    from sqlalchemy.pool import ConnectionPoolEntry

__all__ = ["Database", "Schema"]

_PAUSE = 0.01
_BRIEFLY = 0.05  # seconds that emptying the log may hold up whoever writes
_GIVEN_BACK = 2048  # pages of SQLite's file at a time
_TRUNCATE = "PRAGMA wal_checkpoint(TRUNCATE)"
_CAUSES = (  # the beginning of SQLite's name or PostgreSQL's number of an error, what it means, what to do
    ("SQLITE_BUSY SQLITE_LOCKED SQLITE_PROTOCOL 55P03 40", "is locked by another process",
     "Wait for that process to end, or allow a longer timeout. {again}"),
    ("SQLITE_FULL SQLITE_IOERR SQLITE_NOLFS 53100 58030", "could not be written: the disk is full or failing",
     "Make room, or replace the disk. {again}"),
    ("SQLITE_NOTADB SQLITE_CORRUPT SQLITE_SCHEMA SQLITE_FORMAT XX001 XX002", "is damaged, or is no {name}",
     "{restore}"),
    ("SQLITE_CANTOPEN SQLITE_READONLY SQLITE_PERM SQLITE_AUTH 28 3D 42501", "cannot be opened for writing",
     "Check that its folder exists, its name, and that this user may write it."),
)  # fmt: skip


@dataclass(frozen=True)
class Schema:
    """Tables of one kind, their version, and what to say when something is wrong with them."""

    name: str
    tables: sa.MetaData
    version: int
    error: type[SedmlError]
    again: str
    """What repeating a call that failed does."""
    restore: str
    """What to do about a damaged database."""
    older: str = "Use the release of sedml that wrote it."
    """What to do about a version that no migration leads on from."""
    migrations: Mapping[int, Callable[[sa.Connection], None]] = field(default_factory=dict)
    """The change from version n to n + 1."""

    @property
    def versions(self) -> sa.Table:
        """The table that holds the version, one of `tables`."""
        return self.tables.tables[f"sedml_{self.name}_version"]

    def damaged(self, what: str) -> SedmlError:
        """What the tables say cannot be."""
        return self.error(f"The {self.name} is damaged: {what}.", self.restore)


class Database:
    """An open database whose tables are of the schema's version. Any number of threads may use it."""

    def __init__(self, where: str | Path, timeout: float, schema: Schema) -> None:
        if isinstance(timeout, bool) or not 0.0 <= timeout <= 86_400.0:
            raise schema.error(f"A timeout of {timeout} seconds was given.", "Use 0 to 86,400 seconds.")
        self._schema = schema
        self._closed = False
        # SQLite lets one write at a time, and those that wait sleep longer and longer: better to queue here.
        self._turn = threading.Lock()
        self._process = os.getpid()
        url = _url(where, schema)
        self._queues = url.get_backend_name() == "sqlite"
        self.name = url.render_as_string(hide_password=True)
        try:
            with explain_missing():
                self._engine = _engine(url, timeout, schema)
            self._reader = self._engine.execution_options(sedml_reads=True)
        except MissingExtraError:
            raise
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            raise schema.error(
                f"There is no driver for the database of {self.name} ({type(error).__name__}).",
                "Install it, or use a file or a postgresql:// address.",
            ) from None
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def read(self) -> AbstractContextManager[sa.Connection]:
        """One transaction that writes nothing."""
        return self._transaction(self._reader)

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """One transaction: committed durably when the block ends, and undone if it raises."""
        self._after_fork()
        with self._turn if self._queues else nullcontext(), self._transaction(self._engine) as connection:
            yield connection

    def empty_log(self) -> bool:
        """Cut SQLite's log to nothing, once all of it is in the file; whether that was possible.

        A log is written again from its beginning, so that what was deleted would lie behind that for ever. Whoever
        reads an older state keeps the log: try again later. Other databases look after their own.
        """
        self._before_use()
        if not self._queues:
            return True
        if not self._turn.acquire(timeout=_BRIEFLY):
            return False
        try:
            return _checkpoint(self._engine)
        except (sa.exc.SQLAlchemyError, sqlite3.Error):  # what was deleted stays so; the next write tells what is wrong
            return False
        finally:
            self._turn.release()

    def close(self) -> None:
        """Close all connections; calling it again does nothing."""
        self._closed = True
        self._engine.dispose()

    @contextmanager
    def _transaction(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        self._before_use()
        try:
            with engine.begin() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise self._explained(error) from None
        except UnicodeError:  # all text that goes in is sound, and sqlite3 chokes even on SQLite's messages
            raise self._schema.damaged("text in it cannot be read") from None

    def _before_use(self) -> None:
        if self._closed:
            raise self._schema.error(f"The {self._schema.name} was closed.", "Open it again.")
        self._after_fork()

    def _after_fork(self) -> None:
        """Neither a connection nor a lock that somebody holds may cross a fork."""
        if self._process != os.getpid():
            self._engine.dispose(close=False)
            self._turn = threading.Lock()
            self._process = os.getpid()

    def _explained(self, error: sa.exc.SQLAlchemyError) -> SedmlError:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
        schema = self._schema
        words = {"again": schema.again, "restore": schema.restore, "name": schema.name}
        for prefixes, what, do in _CAUSES:
            if code is not None and code.startswith(tuple(prefixes.split())):
                what, do = what.format(**words), do.format(**words)
                return schema.error(f"The {schema.name} {self.name} {what} ({code}).", do)
        return schema.error(
            f"The {schema.name} {self.name} could not be used ({code or type(cause).__name__}).",
            f"Check that its database runs and can be reached. {schema.again}",
        )

    def _prepare(self) -> None:
        """Check the file; create the tables if there are none, or move them to this version; refuse newer ones."""
        with self.read() as connection:
            if connection.dialect.name == "sqlite":
                found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
                if found != "ok":
                    raise self._schema.damaged("SQLite's own check found an error")
            version = self._version(connection)
        if version is None:
            self._create()
        elif version < self._schema.version:
            self._migrate()
        with self.read() as connection:
            version = self._version(connection)
        if version != self._schema.version:
            older = version is not None and version < self._schema.version
            raise self._schema.error(
                f"The {self._schema.name} {self.name} has tables of version {version}; "
                f"this is version {self._schema.version}.",
                self._schema.older if older else "Use the release of sedml that wrote it.",
            )

    def _create(self) -> None:
        try:
            with self.write() as connection:
                # The version goes in last: tables without one were not all created.
                self._schema.tables.create_all(connection)
                if self._version(connection) is None:
                    connection.execute(sa.insert(self._schema.versions).values(version=self._schema.version))
        except self._schema.error:
            # Another process may have created them at the same moment, which only SQLite makes us wait for.
            with self.read() as connection:
                if self._version(connection) is None:
                    raise

    def _migrate(self) -> None:
        """All steps to this version in one transaction, or none."""
        with self.write() as connection:
            # Writing the row locks it, so that of two processes that start at once, one finds it done.
            connection.execute(sa.update(self._schema.versions).values(version=self._schema.versions.c.version))
            version = self._version(connection)
            while version is not None and version in self._schema.migrations and version < self._schema.version:
                self._schema.migrations[version](connection)
                version += 1
                connection.execute(sa.update(self._schema.versions).values(version=version))

    def _version(self, connection: sa.Connection) -> int | None:
        versions = self._schema.versions
        if not sa.inspect(connection).has_table(versions.name):
            return None
        return connection.execute(sa.select(sa.func.max(versions.c.version))).scalar()


def _url(where: str | Path, schema: Schema) -> sa.URL:
    if not isinstance(where, str | Path) or not str(where):
        raise schema.error(f"A {schema.name} cannot be a {type(where).__name__}.", "Pass a path or a database address.")
    if isinstance(where, Path) or "://" not in where:
        return sa.URL.create("sqlite", database=str(where))
    try:
        url = sa.make_url(where)
        # SQLAlchemy 2.0 takes this to mean the older driver.
        return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
    except (sa.exc.ArgumentError, ValueError):  # its message has the whole address, password and all
        raise schema.error(
            f"The database address of the {schema.name} is malformed.",
            f"Use one such as sqlite:///{schema.name}.db or postgresql://user@host/name.",
        ) from None


def _engine(url: sa.URL, timeout: float, schema: Schema) -> sa.Engine:
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


def _checkpoint(engine: sa.Engine) -> bool:
    """Empty the log, outside of any transaction; false if others are in the way for longer than a moment."""
    with closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        patience = _answer(cursor, "PRAGMA busy_timeout")
        cursor.execute(f"PRAGMA busy_timeout = {round(_BRIEFLY * 1000)}")
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
