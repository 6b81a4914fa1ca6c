"""Fixtures of tests that look at both servers without clients: a deployment of the test's own, quickly set up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.deployment import Deployment, deployment
from support.open_base_ots import open_base_ots

__all__ = ["deployed", "server_settings"]


@pytest.fixture
def server_settings() -> dict[str, object]:
    """Of both servers, for a module to override: to know which labels are right, a test asks for noise afterwards."""
    return {"keep_inputs": "1d"}


@pytest.fixture
def deployed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server_settings: dict) -> Iterator[Deployment]:
    """Two servers that have just been started."""
    monkeypatch.setattr("sedml.mpc.ot.fresh_deltas.base_ots", open_base_ots)
    made = deployment(tmp_path, **server_settings)
    yield made
    made.close()
