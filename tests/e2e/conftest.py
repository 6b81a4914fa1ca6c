"""Both servers as processes of their own, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.live_servers import Live, deployed, on_postgres, settings_of
from support.postgres_server import Postgres
from support.tiers import DATABASES


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where servers live that many tests use."""
    return tmp_path_factory.mktemp("e2e")


@pytest.fixture(scope="session")
def sqlite_servers(place: Path) -> Iterator[Live]:
    yield from deployed(place / "sqlite", settings_of())


@pytest.fixture(scope="session")
def postgresql_servers(place: Path, postgres: Postgres) -> Iterator[Live]:
    yield from deployed(place / "postgresql", on_postgres(settings_of(), postgres, "e2e"))


@pytest.fixture(params=DATABASES)
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
