"""The interface with a core in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from starlette.testclient import TestClient

from sedml.service.server.http import guard
from sedml.service.server.http.app import App
from support.http_fake import FakeCore, settings


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> FakeCore:
    fake = FakeCore()
    fake.install(monkeypatch)
    return fake


@pytest.fixture
def app(core: FakeCore, tmp_path: Path) -> App:
    return App(core.node(settings(tmp_path)))


@pytest.fixture
def client(app: App) -> TestClient:
    return TestClient(app)


@pytest.fixture(autouse=True)
def _no_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "_LINGER", 0.05)


@pytest.fixture(autouse=True)
def log() -> Iterator[list[dict]]:
    with structlog.testing.capture_logs() as entries:
        yield entries
