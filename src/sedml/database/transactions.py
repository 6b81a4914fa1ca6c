"""Reading and writing in transactions, one after the other where a database needs that.

Elsewhere than in SQLite, whoever writes locks the row it decides by first; READ COMMITTED is then enough. What is
deleted is overwritten in SQLite's file, and lies in its log until `empty_log`, which gives its room back to the file
system.

The tables of a `Schema` are created where there are none, moved forward step by step where they are older, and refused
where they are newer. Drivers put values, and so labels and shares, into their messages: only their error codes are
passed on.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import sqlalchemy as sa

from sedml.database.engines import BRIEFLY, checkpoint, open_engine, url_of
from sedml.database.versioned_tables import Schema
from sedml.errors import MissingExtraError, SedmlError
from sedml.extras import explain_missing

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
        url = url_of(where, schema)
        self._queues = url.get_backend_name() == "sqlite"
        self.name = url.render_as_string(hide_password=True)
        try:
            with explain_missing():
                self._engine = open_engine(url, timeout, schema)
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
        if not self._turn.acquire(timeout=BRIEFLY):
            return False
        try:
            return checkpoint(self._engine)
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
