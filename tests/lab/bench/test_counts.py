"""Counts that no machine changes: rounds, bytes, opened bits, gates and dealt bits of a table of tasks."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from counted_costs import count_costs
from sedml.errors import ShareError
from sedml.lab.paper.two_noise_task import Task

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
WRITE = "python benchmarks/figures.py --counts-only"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The file that the command writes which the tests name."""
    target = tmp_path_factory.mktemp("counts") / "counts.json"
    command = [sys.executable, BENCHMARKS / "figures.py", "--counts-only", "--counts", target]
    subprocess.run(command, check=True)
    return target.read_text()


@pytest.fixture(scope="module")
def found(written):
    return json.loads(written)


def differences(known, found):
    """Every count that is not what it was, one line each."""
    before, after = dict(_leaves(known)), dict(_leaves(found))
    return [
        f"{name}: was {before.get(name, 'not there')}, is {after.get(name, 'not there')}"
        for name in [*before, *(name for name in after if name not in before)]
        if before.get(name) != after.get(name)
    ]


def _leaves(tree, path=""):
    for key, value in tree.items():
        name = f"{path} / {key}" if path else str(key)
        if isinstance(value, dict):
            yield from _leaves(value, name)
        else:
            yield name, value


def check(known, found):
    if changed := differences(known, found):
        lines = [f"{len(changed)} counts have changed:", *changed, f"If that is meant, write them again: {WRITE}"]
        pytest.fail("\n".join(lines), pytrace=False)


def test_the_counts_are_those_that_were_committed(found):
    check(json.loads((BENCHMARKS / "counts.json").read_text()), found)


def test_the_command_that_the_test_names_writes_the_file(written):
    assert written == (BENCHMARKS / "counts.json").read_text()


def test_opened_bits_are_the_bytes_without_the_frames(found):
    costs = found["paper, 1,000 x 10 counts"]
    # 31 leaves, 30 nodes of 3 bits but 5 of 2, 32 bits for the conversion, and t in the ring.
    assert costs["opened_bits"]["threshold"] == 1000 * (31 + 30 * 3 - 5 + 32 + 32)
    assert sum(costs["rounds"][phase] for phase in ("highest", "threshold", "label")) == costs["rounds"]["total"]


def test_a_gadget_that_loses_a_consensus_is_not_counted(monkeypatch):
    monkeypatch.setattr("counted_costs.run_job", lambda *_: (np.array([-1]), None))
    with pytest.raises(ShareError):
        count_costs(Task(3, 16, 5, 3, 1.0, 1.0))
