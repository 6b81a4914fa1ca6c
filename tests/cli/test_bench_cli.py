"""`sedml bench aggregate`: what it reports of a deployment's protocol, and of the laboratory's beside it."""

import json
import subprocess
import sys

import numpy as np
import pytest

from sedml.lab.bench.protocol import StageReport
from support.cli_calls import invoke
from support.tiers import thorough

ROUNDS = {"authenticated": 4, "fused": 22, "garbled": 3}
"""With the votes there."""


@pytest.mark.parametrize("protocol", ROUNDS)
def test_every_label_is_checked_and_every_stage_reported(protocol):
    options = ["--samples", 70, "--classes", 10, "--teachers", 20, "--repeat", 2, "--transport", "memory", "--json"]
    result = invoke("bench", "aggregate", *options, "--protocol", protocol)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert set(report) == set(StageReport.__dataclass_fields__)
    assert report["matches_ideal"] is True
    assert (report["protocol"], report["repeat"]) == (protocol, 2)
    stages = report["stages"]
    assert list(stages) == ["set_up", "prepare", "votes", "total"]
    assert stages["votes"]["rounds"] == ROUNDS[protocol]
    for what in ("seconds", "rounds", "bytes"):
        assert all(cost[what] > 0 for cost in stages.values())
        assert stages["total"][what] == stages["prepare"][what] + stages["votes"][what]
    assert (report["bucket"] is not None) == (report["ands"] is not None) == (protocol == "authenticated")


@thorough
@pytest.mark.parametrize("protocol", ["authenticated", "fused"])
def test_two_processes_over_tls_and_a_delay(protocol):
    """In a process of its own, as the server processes import the main module again."""
    command = [sys.executable, "-c", "from sedml.cli import main; main()", "bench", "aggregate", "--protocol", protocol]
    options = ["--samples", "200", "--repeat", "1", "--json", "--latency-ms", "1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["matches_ideal"] is True
    assert report["stages"]["votes"]["seconds"] >= ROUNDS[protocol] * 1e-3
    assert report["peak_rss_mb"] > 0


def test_wrong_labels_are_told(monkeypatch):
    monkeypatch.setattr("sedml.lab.bench.protocol.ideal_labels", lambda task, *_: np.full(task.samples, 99))
    result = invoke("bench", "aggregate", "--samples", 20, "--transport", "memory", "--repeat", 1)
    assert result.exit_code == 3
    assert "WRONG" in result.output
