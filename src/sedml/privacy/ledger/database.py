"""Durable transactions on SQLite, PostgreSQL or another database, and clear errors from them.

SQLite: write-ahead log, synchronous=FULL, and BEGIN IMMEDIATE for whatever writes, so that two writers never
interleave. Elsewhere whoever writes locks the cohort's row first; READ COMMITTED is then enough.

Drivers put values, and so labels, into their messages: only their error codes are passed on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from sedml.errors import LedgerError
from sedml.privacy.ledger.schema import SCHEMA_VERSION, TABLES, versions

__all__ = ["Database", "blob", "damaged"]

_AGAIN = "Then repeat the call: with the same job and terms nothing is charged twice."
_DAMAGED = (
    "Put back the newest backup, and charge every job since. Do not start an empty ledger for teachers that "
    "have answered before: what they have spent would be forgotten."
)
_CAUSES = (  # the beginning of SQLite's name or PostgreSQL's number of an error, what it means, what to do
    ("SQLITE_BUSY SQLITE_LOCKED SQLITE_PROTOCOL 55P03 40", "is locked by another process",
     f"Wait for that process to end, or pass a longer timeout. {_AGAIN}"),
    ("SQLITE_FULL SQLITE_IOERR SQLITE_NOLFS 53100 58030", "could not be written: the disk is full or failing",
     f"Make room, or replace the disk. {_AGAIN}"),
    ("SQLITE_NOTADB SQLITE_CORRUPT SQLITE_SCHEMA SQLITE_FORMAT XX001 XX002", "is damaged, or is no ledger", _DAMAGED),
    ("SQLITE_CANTOPEN SQLITE_READONLY SQLITE_PERM SQLITE_AUTH 28 3D 42501", "cannot be opened for writing",
     "Check that its folder exists, its name, and that this user may write it."),
)  # fmt: skip


def damaged(what: str) -> LedgerError:
    """The books do not add up."""
    return LedgerError(f"The ledger is damaged: {what}.", _DAMAGED)


def blob(value: object) -> bytes:
    """Bytes out of the database; SQLite may hand out anything from a damaged file."""
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    raise damaged("stored bytes are none")


class Database:
    """An open ledger database whose tables are of this version. Any number of threads may use it."""

    def __init__(self, where: str | Path, timeout: float) -> None:
        if isinstance(timeout, bool) or not 0.0 <= timeout <= 86_400.0:
            raise LedgerError(f"A timeout of {timeout} seconds was given.", "Use 0 to 86,400 seconds.")
        self._closed = False
        self._process = os.getpid()
        url = _url(where)
        self.name = url.render_as_string(hide_password=True)
        try:
            self._engine = _engine(url, timeout)
            self._reader = self._engine.execution_options(sedml_reads=True)
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            raise LedgerError(
                f"There is no driver for the database of {self.name} ({type(error).__name__}).",
                "Install it, or use a file or a postgresql:// address.",
            ) from None
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """One transaction that writes nothing."""
        with self._transaction(self._reader) as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """One transaction: committed durably when the block ends, and undone if it raises."""
        with self._transaction(self._engine) as connection:
            yield connection

    def close(self) -> None:
        """Close all connections; calling it again does nothing."""
        self._closed = True
        self._engine.dispose()

    @contextmanager
    def _transaction(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        if self._closed:
            raise LedgerError("The ledger was closed.", "Open it again.")
        if self._process != os.getpid():  # a connection must not cross a fork
            self._engine.dispose(close=False)
            self._process = os.getpid()
        try:
            with engine.begin() as connection:
                yield connection
        except sa.exc.SQLAlchemyError as error:
            raise self._explained(error) from None
        except UnicodeError:  # all text that goes in is sound, and sqlite3 chokes even on SQLite's messages
            raise damaged("text in it cannot be read") from None

    def _explained(self, error: sa.exc.SQLAlchemyError) -> LedgerError:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        code = getattr(cause, "sqlite_errorname", None) or getattr(cause, "sqlstate", None)
        for prefixes, what, do in _CAUSES:
            if code is not None and code.startswith(tuple(prefixes.split())):
                return LedgerError(f"The ledger {self.name} {what} ({code}).", do)
        return LedgerError(
            f"The ledger {self.name} could not be used ({code or type(cause).__name__}).",
            f"Check that its database runs and can be reached. {_AGAIN}",
        )

    def _prepare(self) -> None:
        """Check the file; create the tables if there are none; refuse those of another version."""
        with self.read() as connection:
            if connection.dialect.name == "sqlite":
                found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
                if found != "ok":
                    raise damaged("SQLite's own check found an error")
            version = _version(connection)
        if version is None:
            try:
                with self.write() as connection:
                    # The version goes in last: tables without one were not all created.
                    TABLES.create_all(connection)
                    if _version(connection) is None:
                        connection.execute(sa.insert(versions).values(version=SCHEMA_VERSION))
            except LedgerError:
                # Another process may have created them at the same moment, which only SQLite makes us wait for.
                with self.read() as connection:
                    if _version(connection) is None:
                        raise
            with self.read() as connection:
                version = _version(connection)
        if version != SCHEMA_VERSION:
            raise LedgerError(
                f"The ledger {self.name} has tables of version {version}; this is version {SCHEMA_VERSION}.",
                "Use the release of sedml that wrote it, or move it over with that of the newer version.",
            )


def _version(connection: sa.Connection) -> int | None:
    if not sa.inspect(connection).has_table(versions.name):
        return None
    return connection.execute(sa.select(sa.func.max(versions.c.version))).scalar()


def _url(where: str | Path) -> sa.URL:
    if not isinstance(where, str | Path) or not str(where):
        raise LedgerError(f"A ledger cannot be a {type(where).__name__}.", "Pass a path or a database address.")
    if isinstance(where, Path) or "://" not in where:
        return sa.URL.create("sqlite", database=str(where))
    try:
        url = sa.make_url(where)
        # SQLAlchemy 2.0 takes this to mean the older driver.
        return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
    except (sa.exc.ArgumentError, ValueError):  # its message has the whole address, password and all
        raise LedgerError(
            "The database address of the ledger is malformed.",
            "Use one such as sqlite:///ledger.db or postgresql://user@host/name.",
        ) from None


def _engine(url: sa.URL, timeout: float) -> sa.Engine:
    if url.get_backend_name() == "sqlite":
        return _sqlite(url, timeout)
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


def _sqlite(url: sa.URL, timeout: float) -> sa.Engine:
    if url.database in (None, "", ":memory:") or url.query:
        raise LedgerError(
            "A ledger in memory, or in a file with options, was asked for: it may forget what was spent.",
            "Use a path, or sqlite:/// and a path.",
        )
    _create_private(Path(str(url.database)))
    engine = sa.create_engine(url, hide_parameters=True, connect_args={"timeout": timeout})

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # sqlite3 shall not begin transactions by itself
        with _closed_on_error(connection), closing(connection.cursor()) as cursor:
            cursor.execute("PRAGMA journal_mode = WAL")
            cursor.execute("PRAGMA synchronous = FULL")
            cursor.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def _begins(connection: sa.Connection) -> None:
        reads = connection.get_execution_options().get("sedml_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def _closed_on_error(connection: DBAPIConnection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _create_private(path: Path) -> None:
    """Create the file for its owner only, as it will hold labels; one that exists is left as it is."""
    try:
        # Never open an existing one here: closing it would drop the locks of this process's other connections.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise LedgerError(
            f"The ledger {path} cannot be created ({error.strerror}).",
            "Check that its folder exists, and that this user may write there.",
        ) from None
