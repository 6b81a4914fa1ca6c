"""Measuring other engines: the protocol with a worker, honest and not, and the engines themselves where installed."""

import json
import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import SedmlError
from sedml.lab.peers import ENGINES, Engine, install, run_peers
from sedml.lab.peers.environments import find_python

THRESHOLD = 6

GOOD = """
import json, sys
import numpy as np
source, target, variant, repeat = sys.argv[1:]
work = np.load(source)
reached = work["counts"].max(axis=0) + work["g"] >= work["threshold"]
found = np.where(reached, (work["counts"] + work["g_i"]).argmax(axis=0), -1).tolist()
answer = {"labels": [found] * int(repeat), "seconds": [3.0, 1.0, 2.0][: int(repeat)], "bytes": 1234, "rounds": 5,
          "versions": {"fake": "1.2", variant: "3"}}
"""
WRITE = "open(target, 'w').write(json.dumps(answer))\n"


@pytest.fixture
def job():
    counts = np.array([[5, 1, 4, 9], [5, 9, 3, 0], [0, 0, 3, 1]], np.int32)
    g = np.array([1, 0, 1, -4])
    g_i = np.array([[0, 0, -2, 0], [0, 0, 0, 0], [0, 0, 4, 9]])
    return counts, THRESHOLD, g, g_i


@pytest.fixture
def environments(tmp_path, monkeypatch):
    """An empty folder for the engines' environments."""
    monkeypatch.setenv("SEDML_PEERS_DIR", str(tmp_path / "environments"))
    return tmp_path / "environments"


@pytest.fixture
def fake(tmp_path, environments):
    """Makes an engine of a worker's script, installed in an environment that is this one."""

    def make(script: str, name: str = "fake") -> Engine:
        (tmp_path / f"{name}_worker.py").write_text(script)
        _script(environments / name / "bin" / "python", f'exec {sys.executable} "$@"')
        return Engine(name=name, variants={"plain": "nobody"}, worker=f"{name}_worker", home=tmp_path)

    return make


def test_a_worker_is_measured_and_checked(job, fake):
    heard = []
    [result] = run_peers(*job, engines=[fake(GOOD + WRITE)], repeat=3, progress=lambda what, *_: heard.append(what))
    assert heard == ["fake plain, 4 samples"]
    assert (result.engine, result.variant, result.trust) == ("fake", "plain", "nobody")
    assert (result.samples, result.classes) == (4, 3)
    assert (result.seconds, result.bytes, result.rounds) == (2.0, 1234, 5)
    assert result.matches_ideal is True
    assert result.skipped is None
    assert result.measured == "here"
    assert result.version == "fake 1.2, plain 3"


@pytest.mark.parametrize(
    "fault",
    [
        "answer['labels'] = [found, found, [*found[:-1], 0]]",
        "answer['labels'] = [[*found, -1]] * 3",
        "answer['labels'] = [found[:-1]] * 3",
    ],
)
def test_one_wrong_label_of_one_run_is_told(job, fake, fault):
    [result] = run_peers(*job, engines=[fake(f"{GOOD}{fault}\n{WRITE}")], repeat=3)
    assert result.matches_ideal is False
    assert result.seconds == 2.0


def test_a_crash_is_a_reason_and_the_others_are_measured(job, fake):
    crash = "print('noise')\nraise MemoryError('the ring is too wide')\n"
    failed, measured = run_peers(*job, engines=[fake(crash), fake(GOOD + WRITE, "sound")], repeat=1)
    assert failed.skipped == "it failed: MemoryError: the ring is too wide"
    assert (failed.seconds, failed.bytes, failed.matches_ideal, failed.version) == (None, None, None, None)
    assert measured.skipped is None
    assert measured.matches_ideal is True


@pytest.mark.parametrize(
    "fault",
    [
        "answer = [1]",
        "del answer['bytes']",
        "answer['seconds'] = []",
        "answer['seconds'] = [1.0]",
        "answer['labels'] = found",
        "answer['labels'] = 'none'",
        "answer['labels'] = [found, found[:-1], found]",
    ],
)
def test_nonsense_is_no_answer(job, fake, fault):
    [result] = run_peers(*job, engines=[fake(f"{GOOD}{fault}\n{WRITE}")], repeat=3)
    assert result.skipped is not None
    assert "answer" in result.skipped
    assert result.seconds is None


def test_a_worker_that_hangs_is_ended_with_all_its_processes(job, fake):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(120)
        party = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]})).recv(1)"
        hang = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {party!r}])\n"
        [result] = run_peers(*job, engines=[fake(hang)], timeout=5.0)
        assert result.skipped == "it did not answer within 5 s"
        connection, _ = server.accept()
        with connection:
            connection.settimeout(120)
            # Nobody holds the other end: not the worker, nor the party it started.
            assert connection.recv(1) == b""


def test_an_engine_that_is_nowhere_is_skipped_with_the_way_to_install_it(job, fake, environments):
    engine = fake(GOOD + WRITE)
    (environments / "fake" / "bin" / "python").unlink()
    [result] = run_peers(*job, engines=[engine])
    assert result.skipped == "it is not installed; sedml.lab.peers.install('fake') installs it"
    assert result.trust == "nobody"


def test_a_worker_sees_nothing_of_this_interpreters_path(job, fake, monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "stray.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "elsewhere"))
    [result] = run_peers(*job, engines=[fake("import stray\n")])
    assert result.skipped == "it failed: ModuleNotFoundError: No module named 'stray'"


def test_what_is_quoted_is_marked_and_only_for_its_size():
    counts, zeros = np.ones((10, 1000), np.int32), np.zeros(1000, np.int64)
    quotes = run_peers(counts, 1, zeros, np.zeros_like(counts), engines=[ENGINES["mp-spdz"]])
    assert {quoted.variant: (quoted.seconds, quoted.bytes) for quoted in quotes} == {
        "dealer-ring": (0.042, 730_000),
        "semi-bin": (0.069, 14_700_000),
        "semi2k": (0.113, 30_000_000),
        "tinier": (5.5, 764_000_000),
    }
    for quoted in quotes:
        assert (quoted.measured, quoted.matches_ideal, quoted.skipped) == ("elsewhere", None, None)
    for other in run_peers(counts[:, :9], 1, zeros[:9], np.zeros_like(counts[:, :9]), engines=[ENGINES["mp-spdz"]]):
        assert other.skipped is not None
        assert other.seconds is None


def _script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_installing_makes_an_environment_with_pinned_versions(tmp_path, environments):
    log = tmp_path / "log"
    # Plays both the interpreter that makes the environment and the one inside it.
    body = f'echo "$@" >> {log}\nif [ "$2" = venv ]; then mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; fi'
    python = _script(tmp_path / "python", body)
    made = install("spu", python=str(python))
    assert made == environments / "spu" / "bin" / "python"
    venv, pip = log.read_text().splitlines()
    assert venv == f"-m venv --clear {made.parents[1]}"
    assert pip.endswith(" ".join(ENGINES["spu"].requirements))


def test_a_failed_installation_says_why_and_leaves_nothing(tmp_path, environments):
    make = 'if [ "$2" = venv ]; then mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; exit 0; fi\n'
    refuse = "echo 'ERROR: No matching distribution found for spu' >&2; echo hint >&2; exit 1"
    python = _script(tmp_path / "python", make + refuse)
    with pytest.raises(SedmlError, match="could not be installed: ERROR: No matching distribution"):
        install("spu", python=str(python))
    assert find_python(ENGINES["spu"]) is None
    assert not any(environments.iterdir())


def test_every_engine_is_pinned_and_says_whom_to_trust():
    for name, engine in ENGINES.items():
        assert engine.name == name
        assert all(len(trust) > 40 for trust in engine.variants.values())
        assert all("==" in pin for pin in engine.requirements)
        assert bool(engine.worker) != bool(engine.quotes)
        if engine.worker:
            assert (engine.home / f"{engine.worker.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize(
    ("name", "variant"),
    [(name, variant) for name, engine in ENGINES.items() if engine.worker for variant in engine.variants],
)
@pytest.mark.parametrize("passing", [True, False])
def test_the_engines_that_are_installed_give_the_ideal_labels(job, name, variant, passing):
    engine = ENGINES[name]
    if find_python(engine) is None:
        pytest.skip(f"{name} is not installed: sedml.lab.peers.install({name!r}), or set SEDML_PEERS_DIR")
    counts, threshold, g, g_i = job
    only = replace(engine, variants={variant: engine.variants[variant]})
    [result] = run_peers(counts, threshold if passing else 1000, g, g_i, engines=[only], repeat=1, timeout=300.0)
    assert result.skipped is None
    assert result.matches_ideal is True
    assert result.seconds is not None
    assert result.seconds > 0
    assert json.dumps(result.version)
    if sys.platform == "linux":
        assert result.bytes is not None
        assert result.bytes > 0
    assert "PYTHONPATH" not in os.environ or str(engine.home) not in os.environ["PYTHONPATH"]
