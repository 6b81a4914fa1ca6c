"""A real PostgreSQL server for tests, where one is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.sweeper import run_folder


class Postgres:
    """A server of our own on a Unix socket in a temporary folder."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries, self.folder = binaries, folder
        self._user: str | None = None
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            self._user = "postgres"
            shutil.chown(folder, "postgres")
        self._run("initdb", "-A", "trust", "-U", "sedml", "--no-sync", "-D", str(folder / "data"))
        self.start()

    def start(self) -> None:
        # Tests kill processes and not the machine, so that fsync would only cost time.
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c max_connections=400"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-w", "-D", str(self.folder / "data"), "-l", log, "-o", options, "start")

    def crash(self) -> None:
        """End all its processes at once; the next start recovers from the log."""
        self._run("pg_ctl", "-w", "-m", "immediate", "-D", str(self.folder / "data"), "stop")

    def url(self, schema: str) -> str:
        return f"postgresql+psycopg://sedml@/postgres?host={self.folder}&options=-csearch_path%3D{schema}"

    def new(self, schema: str) -> str:
        import psycopg

        with psycopg.connect(host=str(self.folder), user="sedml", dbname="postgres", autocommit=True) as c:
            c.execute(f"CREATE SCHEMA {schema}")
        return self.url(schema)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._binaries / program, *arguments],
            user=self._user,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # not a pipe: the server would inherit it and keep it open
            stderr=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.returncode}")


def _binaries() -> Path | None:
    on_path = shutil.which("initdb")
    places = [Path(on_path).parent] if on_path else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places and (places[-1] / "initdb").exists() else None


@contextmanager
def running_postgres() -> Iterator[Postgres | None]:
    """A server until the block ends; None where there is none to be had."""
    binaries = _binaries()
    if binaries is None or find_spec("psycopg") is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=run_folder()))  # short: a socket's path has at most 107 characters
    try:
        server = Postgres(binaries, folder)
        try:
            yield server
        finally:
            server.crash()
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        if server is None:
            pytest.skip("psycopg or a PostgreSQL server is not installed")
        yield server
