"""`sedml bench aggregate`: what it reports of the protocol that a deployment runs."""

import json
import subprocess
import sys

import numpy as np

from sedml.lab.bench.protocol import StageReport
from support.cli_calls import invoke
from support.tiers import thorough

ROUNDS = 4
"""With the votes there."""


def test_every_label_is_checked_and_every_stage_reported():
    options = ["--samples", 70, "--classes", 10, "--teachers", 20, "--repeat", 2, "--transport", "memory", "--json"]
    result = invoke("bench", "aggregate", *options)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert set(report) == set(StageReport.__dataclass_fields__)
    assert report["matches_ideal"] is True
    assert report["repeat"] == 2
    stages = report["stages"]
    assert list(stages) == ["set_up", "prepare", "votes", "total"]
    assert stages["votes"]["rounds"] == ROUNDS
    for what in ("seconds", "rounds", "bytes"):
        assert all(cost[what] > 0 for cost in stages.values())
        assert stages["total"][what] == stages["prepare"][what] + stages["votes"][what]
    assert min(report["bucket"], report["ands"]) > 0


@thorough
def test_two_processes_over_tls_and_a_delay():
    """In a process of its own, as the server processes import the main module again."""
    command = [sys.executable, "-c", "from sedml.cli import main; main()", "bench", "aggregate"]
    options = ["--samples", "200", "--repeat", "1", "--json", "--latency-ms", "1"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    assert report["matches_ideal"] is True
    assert report["stages"]["votes"]["seconds"] >= ROUNDS * 1e-3
    assert report["peak_rss_mb"] > 0


def test_wrong_labels_are_told(monkeypatch):
    monkeypatch.setattr("sedml.lab.bench.protocol.ideal_labels", lambda task, *_: np.full(task.samples, 99))
    result = invoke("bench", "aggregate", "--samples", 20, "--transport", "memory", "--repeat", 1)
    assert result.exit_code == 3
    assert "WRONG" in result.output
