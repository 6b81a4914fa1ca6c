"""A deployment as its people handle it: set up, used and looked after by the commands, with settings as they come."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import joblib
import numpy as np
import pytest
import sqlalchemy as sa
from sklearn.tree import DecisionTreeClassifier

from sedml.cli import main
from sedml.service.server.storage.tables import ballot_pages
from support.live_servers import Live
from support.server_process import free_ports

MOST_MEMORY = 150_000_000
TERMS = "--classes 3 --threshold 8 --sigma 8 --epsilon 20 --delta 0.001 --min-teachers 16 --deadline 1h"
TRUTH = np.array([*range(3)] * 6 + [-1, -1])
"""The class of each sample; on the last two everybody abstains."""


@pytest.fixture(scope="module")
def started(place: Path) -> Iterator[Live]:
    """Made by `sedml provision` in a folder of its own, and run by `sedml serve`."""
    folder = place / "day"
    folder.mkdir()
    ports = [f"127.0.0.1:{port}" for port in free_ports(3)]
    options = ["--teachers", "16", "--budget-epsilon", "20", "--budget-delta", "0.001"]
    provision = ["provision", "--servers", ",".join(ports[:2]), "--link", ports[2], *options]
    subprocess.run([sys.executable, "-m", "sedml", *provision], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    live = Live(folder / "kits")
    with live.running():
        live.idle = [server.resident for server in live.servers]
        yield live


@pytest.fixture
def day(started: Live, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """In the folder where the kits are, so that commands find them."""
    monkeypatch.chdir(started.kits.parent)
    monkeypatch.setenv("COLUMNS", "200")
    yield started
    started.check_logs()


@pytest.fixture
def sedml(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Type a command; what it prints. It must end with the exit code 0, or the one that is said."""

    def run(line: str, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["sedml", *line.split()])
        try:
            main()
            ended = 0
        except SystemExit as end:
            ended = end.code or 0
        printed = capsys.readouterr()
        assert ended == code, printed.out + printed.err
        return printed.out if code == 0 else printed.err

    return run


def test_a_server_that_waits_needs_little_memory(day: Live):
    assert max(day.idle) < MOST_MEMORY
    assert min(day.idle) > 10_000_000  # so that this is not the memory of something else


def test_a_job_by_the_commands_from_its_creation_to_its_deletion(day: Live, sedml, tmp_path):
    samples = np.column_stack([TRUTH, -TRUTH]).astype(np.float32)
    np.savez("public.npz", x=samples)
    joblib.dump(DecisionTreeClassifier(random_state=0).fit(samples, TRUTH), "model.joblib")
    np.save("predictions.npy", TRUTH)
    for kit in ("requester-1", "teacher-001", "s0", "s1"):
        checks = json.loads(sedml(f"doctor --kit kits/{kit} --json"))
        assert checks["healthy"], checks

    job = json.loads(sedml(f"job create --data public.npz {TERMS} --json"))["id"]
    assert job in sedml("job list --kit kits/teacher-001 --json")
    sedml(f"vote --kit kits/teacher-001 --job {job} --model model.joblib")
    sedml(f"vote --kit kits/teacher-002 --job {job} --predictions predictions.npy")
    sedml(f"vote --kit kits/teacher-002 --job {job} --predictions predictions.npy")
    assert "2 teachers have voted" in sedml(f"job run {job}", code=1)
    day.vote(job, np.tile(TRUTH, (14, 1)), first=3)
    assert '"votes": 16' in sedml(f"job status {job} --json")
    assert "voting" in sedml(f"job status {job[:8]}")

    # One of them as a command of its own, as a person would.
    command = [sys.executable, "-m", "sedml", "job", "run", job, "--out", "labels.npy", "--json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["answered"] == 18
    np.testing.assert_array_equal(np.load("labels.npy"), TRUTH)
    sedml(f"job labels {job} --out again.npy")
    np.testing.assert_array_equal(np.load("again.npy"), TRUTH)

    assert inputs_left(day, job) == [0, 0]
    for server in day.servers:
        assert day.status(job, server)["budget"]["rho_spent"] > 0.0
    sedml(f"job delete {job}")
    sedml(f"job delete {job}")
    assert "deleted" in sedml(f"job labels {job}", code=1)
    listed = day.s0.ask("GET", "/v1/log", day.token("operator-s0", "s0")).document["entries"]
    done = [entry["opened"]["action"] for entry in listed if entry["opened"]["subject"] == job]
    votes = 16 * ["vote"]  # and of labels that are fetched again within an hour one entry
    assert done == ["create", "publish", *votes, "close", "roster", "start", "finish", "fetch", "delete"]


def inputs_left(live: Live, job: str) -> list[int]:
    """Pages of ballots that each server still has: none, once both have their labels."""
    found = []
    with live.stores() as nodes:
        for node in nodes:
            with node.store.read() as connection:
                query = sa.select(sa.func.count()).where(ballot_pages.c.job == job)
                found.append(connection.execute(query).scalar_one())
    return found
