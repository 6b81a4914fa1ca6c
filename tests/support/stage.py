"""Fixtures of tests that call the real applications: kits of a small deployment, and its two servers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import stamina
import structlog
from stamina.instrumentation import set_on_retry_hooks

from sedml.service.kits import provision
from support.deployment import Clock, deployment
from support.open_base_ots import open_base_ots
from support.real_apps import RealDeployment

ADDRESSES = ("s0.example:8440", "s1.example:8441")
BUDGET = (64.0, 0.5)
"""Enough for half a dozen of the jobs that tests make."""
SETTINGS = {
    "budgets": {"guarded": {"epsilon": 1.0, "delta": 1e-5}},
    "max_data_bytes": 1 << 20,
    # To know which labels are right, a test asks for the noise after a job is done.
    "keep_inputs": "1d",
    "processor_share": 1e3,
    "processor_burst": 1e3,
    "anonymous_rate_per_second": 1e6,
    "anonymous_rate_burst": 10**6,
}


@pytest.fixture(scope="session")
def provisioned(tmp_path_factory) -> Path:
    kits = tmp_path_factory.mktemp("deployment") / "kits"
    provision(kits, ADDRESSES, None, 4, 2, budget=BUDGET)
    return kits


@pytest.fixture(scope="session")
def stage(provisioned, tmp_path_factory) -> Iterator[RealDeployment]:
    """Both servers, open from the first test to the last: to start them takes longer than most tests."""
    place = tmp_path_factory.mktemp("servers")
    made = deployment(place, provisioned, Clock(None), **SETTINGS)
    yield RealDeployment(made, place / "kept")
    made.close()


@pytest.fixture
def kits(provisioned, tmp_path) -> Path:
    """The kits of four teachers, two requesters and both operators, in folders of the test's own."""
    return shutil.copytree(provisioned, tmp_path / "kits")


@pytest.fixture
def deployed(stage, monkeypatch) -> Iterator[RealDeployment]:
    """Two new servers that know all of them; calls are tried four times, and at once."""
    stage.renew()
    monkeypatch.setattr("sedml.mpc.ot.fresh_deltas.base_ots", open_base_ots)
    monkeypatch.setattr("sedml.service.client.connection.https", stage.transport)
    set_on_retry_hooks([])
    with stamina.set_testing(True, attempts=4, cap=True), structlog.testing.capture_logs():
        yield stage
    set_on_retry_hooks(None)


@pytest.fixture
def small_blocks(monkeypatch) -> None:
    """Blocks of 8 samples, the smallest there are, so that small jobs have several."""
    monkeypatch.setattr("sedml.protocol.task._BLOCK_ANDS", 1)
