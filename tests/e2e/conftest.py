"""Both servers as processes of their own, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_servers import Live, make_kits

from postgres_server import Postgres

SURE = (70.0, 0.5)
"""So large that two dozen samples may have hardly any noise."""
TIGHT = {"s0": (20.0, 1e-5), "s1": (4.4, 1e-5)}
"""At S1 there is room for one job of 64 samples and a sigma of 20, and not for two."""


@pytest.fixture(scope="session")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory, where there is such a thing: databases wait for the disk at every commit."""
    shared = Path("/dev/shm")
    if not os.access(shared, os.W_OK):
        yield tmp_path_factory.mktemp("e2e")
        return
    with tempfile.TemporaryDirectory(prefix="sedml-", dir=shared) as folder:
        yield Path(folder)


def settings_of(**both: object) -> dict[str, dict]:
    """Settings of both servers for tests: in a hurry, and with inputs that stay for the test to look at."""
    common = {
        "log_level": "debug",
        "keep_inputs": "1d",
        "rate_per_second": 100_000,
        "rate_burst": 100_000,
        "anonymous_rate_per_second": 100_000,
        "anonymous_rate_burst": 100_000,
        "budgets": {"teachers": (20.0, 1e-5), "sure": SURE},
    }
    return {name: common | {"budgets": common["budgets"] | {"tight": TIGHT[name]}} | both for name in TIGHT}


def deployed(kits: Path, settings: dict[str, dict], **options: bool) -> Iterator[Live]:
    """Both servers from their first start to their last breath."""
    live = Live(make_kits(kits, settings), **options)
    try:
        live.start()
        yield live
    except BaseException:
        for server in live.servers:
            if server.running:
                server.kill()
        raise
    live.stop()
    live.check_logs()


def on_postgres(settings: dict[str, dict], postgres: Postgres, name: str) -> dict[str, dict]:
    """The same settings, with the stores of both in a PostgreSQL server."""
    return {server: {"database": postgres.new(f"{name}_{server}"), **settings[server]} for server in settings}


@pytest.fixture(scope="session")
def sqlite_servers(memory: Path) -> Iterator[Live]:
    yield from deployed(memory / "sqlite", settings_of())


@pytest.fixture(scope="session")
def postgresql_servers(memory: Path, postgres: Postgres) -> Iterator[Live]:
    yield from deployed(memory / "postgresql", on_postgres(settings_of(), postgres, "e2e"))


@pytest.fixture(params=["sqlite", "postgresql"])
def live(request: pytest.FixtureRequest) -> Iterator[Live]:
    """A deployment that many tests use one after the other; each makes its own jobs."""
    servers: Live = request.getfixturevalue(f"{request.param}_servers")
    yield servers
    servers.check_logs()


@pytest.fixture
def served(sqlite_servers: Live) -> Iterator[Live]:
    """The same, for what has nothing to do with the kind of database."""
    yield sqlite_servers
    sqlite_servers.check_logs()
