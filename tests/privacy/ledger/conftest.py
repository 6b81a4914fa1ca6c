"""Every ledger test that uses these fixtures runs on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sedml.privacy.ledger import Ledger
from support.ledger_children import DELTA, EPSILON
from support.postgres_server import Postgres
from support.tiers import DATABASES

_numbers = itertools.count()


@pytest.fixture(params=DATABASES)
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes addresses of databases without any table."""
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path / f'ledger{next(_numbers)}.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return lambda: server.new(f"ledger{next(_numbers)}")


@pytest.fixture
def where(fresh: Callable[[], str]) -> str:
    return fresh()


@pytest.fixture
def ledger(where: str) -> Iterator[Ledger]:
    """With one cohort, "c"."""
    with Ledger.open(where) as opened:
        opened.set_budget("c", EPSILON, DELTA)
        yield opened
