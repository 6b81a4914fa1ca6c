"""`sedml vote --watch` as a process of its own, against both servers: it votes, lives through an outage, and stops."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import sedml
from support.live_servers import Live
from support.server_process import WITHIN
from support.tiers import thorough


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Knows the class from the first column, as `Live.create` writes it."""
    samples = np.column_stack([np.arange(30) % 3, np.zeros(30)])
    joblib.dump(KNeighborsClassifier(1).fit(samples * [1, 0], np.arange(30) % 3), tmp_path / "model.joblib")
    return tmp_path / "model.joblib"


@contextmanager
def watching(live: Live, model: Path, number: int, *options: str) -> Iterator[subprocess.Popen[str]]:
    kit = live.kits / f"teacher-{number:03}"
    shutil.rmtree(kit / "votes", ignore_errors=True)  # other tests vote with these kits
    arguments = ["vote", "--watch", "--kit", str(kit), "--model", str(model), "--interval", "0.05", *options]
    command = [sys.executable, "-m", "sedml", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def events_about(process: subprocess.Popen[str], wanted: set[tuple[str, str | None]]) -> list[dict]:
    """Lines until all of these (event, job) were heard of."""
    heard, missing = [], set(wanted)
    assert process.stdout is not None
    for line in process.stdout:
        heard.append(json.loads(line))
        missing.discard((heard[-1]["event"], heard[-1]["job"]))
        if not missing:
            return heard
    raise AssertionError(f"it ended before {missing}: {process.stderr and process.stderr.read()}")


def stop(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Tell it to; it ends well."""
    process.send_signal(number)
    _, error = process.communicate(timeout=WITHIN)
    assert process.returncode == 0, error
    assert "Traceback" not in error


@thorough
def test_a_watch_votes_through_an_outage_and_stops_at_ctrl_c(served: Live, model: Path):
    limits = ("--max-epsilon", "5", "--max-total-epsilon", "1000", "--json")
    with watching(served, model, 17, *limits) as process:
        cheap = served.create(8)
        dear = served.create(64, sigma=5.0, cohort="sure", epsilon=60.0)
        heard = events_about(process, {("voted", cheap.id), ("skipped", dear.id)})
        (skipped,) = [event for event in heard if event["job"] == dear.id]
        assert "one job may cost 5" in skipped["reason"]
        served.s1.hang_up()
        served.s1.process.send_signal(signal.SIGTERM)
        served.s1.wait_ended()
        events_about(process, {("away", None)})
        served.s1.start()
        served.s1.wait_ready()
        events_about(process, {("back", None)})
        later = served.create(8)
        heard = events_about(process, {("voted", later.id)})
        assert not any(event["job"] in (cheap.id, dear.id) for event in heard)
        stop(process, signal.SIGINT)
    for terms in (cheap, later):
        assert sedml.Teacher(served.kits / "teacher-017").receipt(terms.id).complete
    for terms in (cheap, dear, later):
        sedml.Requester(served.kits / "requester-1").delete(terms.id)
