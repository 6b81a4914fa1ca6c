"""What an install without extras is good for: all that teachers and requesters do; the rest says what it needs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sedml.extras import _EXTRAS
from sedml.service.terms import Terms
from support.bare_environment import Bare, make_bare
from support.live_servers import Live, deployed, settings_of
from support.tiers import thorough

CORE = "core"
COMMANDS = {
    "account add": CORE,
    "account list": CORE,
    "account revoke": CORE,
    "aggregate": CORE,
    "log": CORE,
    "receipts": CORE,
    "witness": CORE,
    "evidence": CORE,
    "budget": CORE,
    "bench aggregate": CORE,
    "bench deployment": "server",
    "certify": CORE,
    "console": "console",
    "data fetch": CORE,
    "demo": "learn",
    "doctor": CORE,
    "enrol": CORE,
    "job create": CORE,
    "job delete": CORE,
    "job fetch": CORE,
    "job labels": CORE,
    "job list": CORE,
    "job run": CORE,
    "job status": CORE,
    "privacy audit": CORE,
    "privacy plan": CORE,
    "privacy report": CORE,
    "provision": CORE,
    "rekey": CORE,
    "reproduce": "learn",
    "rotate": CORE,
    "run": "learn",
    "serve": "server",
    "shard": CORE,
    "train": "learn",
    "up": "server",
    "vote": CORE,
}
"""Every command there is, and what it needs: a new one has to be put here."""

TERMS = "--classes 3 --threshold 3 --sigma 1.8 --epsilon 60 --delta 0.09 --cohort sure --min-teachers 4"
TRUTH = np.arange(12) % 3
TEACHERS = ("teacher-001", "teacher-002", "teacher-003", "teacher-004")

_LEAVES = """
import json
from typer.main import get_command
from sedml.cli import app

def leaves(command, path):
    if not hasattr(command, "commands"):
        return [path]
    return [leaf for name, below in command.commands.items() for leaf in leaves(below, [*path, name])]

print(json.dumps([" ".join(leaf) for leaf in leaves(get_command(app), [])]))
"""
_ABSENT = """
import json, sys
from importlib.util import find_spec

print(json.dumps([name for name in json.load(sys.stdin) if find_spec(name) is not None]))
"""
_CALLS = """
import json, sys
from sedml.errors import MissingExtraError

answers = []
for call in json.load(sys.stdin):
    try:
        exec(call, {})
        answers.append("")
    except MissingExtraError as error:
        answers.append(str(error))
print(json.dumps(answers))
"""


def install(bare: Bare, extra: str) -> str:
    return f"Run: {bare.folder}/bin/python -m pip install 'sedml-pate[{extra}]'"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    return make_bare(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Both servers, from the environment of the tests, which has all that they need."""
    yield from deployed(tmp_path_factory.mktemp("deployment") / "kits", settings_of())


def test_no_library_of_an_extra_is_there(bare: Bare):
    assert json.loads(bare.python(_ABSENT, json.dumps(list(_EXTRAS)))) == []
    assert len(bare.distributions) < 30, bare.distributions


def test_without_a_compiler_numpy_does_what_the_kernel_would(bare: Bare, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SEDML_KERNEL")
    said = bare.sedml("--version").splitlines()[1]
    assert said == "kernel: NumPy (no kernel in C was built at install, which takes a C compiler)"
    monkeypatch.setenv("SEDML_KERNEL", "on")
    (refused,) = bare.all_of([["bench", "aggregate", "--samples", "9", "--repeat", "1", "--transport", "memory"]])
    assert (refused.code, "no kernel in C" in refused.err) == (2, True)


def test_every_command_is_known_and_shows_its_help(bare: Bare):
    assert sorted(json.loads(bare.python(_LEAVES))) == sorted(COMMANDS)
    groups = sorted({name.rpartition(" ")[0] for name in COMMANDS})
    lines = [[*name.split(), "--help"] for name in [*groups, *COMMANDS]]
    for line, answer in zip(lines, bare.all_of(lines), strict=True):
        assert answer.code == 0, (line, answer.err)
        assert "Usage: " in answer.out, line
        assert answer.err == "", line


def test_a_command_that_needs_an_extra_says_which(bare: Bare, tmp_path: Path):
    (tmp_path / "experiment.toml").write_text("seed = 1\n")
    arguments = {
        "bench deployment": [],
        "console": ["--kit", str(tmp_path / "kit")],
        "demo": ["--out", str(tmp_path / "out")],
        "reproduce": ["table1", "--quick", "--out", str(tmp_path / "out")],
        "run": [str(tmp_path / "experiment.toml"), "--out", str(tmp_path / "out")],
        "serve": [str(tmp_path / "s0")],
        "train": [str(tmp_path / "parts"), "--label", "y", "--out", str(tmp_path / "out")],
        "up": [],
    }
    assert set(arguments) == {name for name, extra in COMMANDS.items() if extra != CORE}
    answers = bare.all_of([[*name.split(), *given] for name, given in arguments.items()])
    for name, answer in zip(arguments, answers, strict=True):
        assert (answer.code, answer.last) == (2, install(bare, COMMANDS[name])), (name, answer.err)
        assert ", which is not installed.\n" in answer.err, name
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.toml"]


def test_an_option_that_needs_an_extra_says_which(bare: Bare, live: Live, tmp_path: Path):
    np.save(tmp_path / "votes.npy", np.zeros((3, 4), np.int64))
    (tmp_path / "votes.parquet").write_bytes(b"PAR1")
    (tmp_path / "model.joblib").write_bytes(b"")
    terms = "--classes 2 --threshold 2 --sigma 2.5 --delta 1e-5 --budget 50"
    voter = live.kits / TEACHERS[0]
    needs = [
        ("server", f"aggregate {tmp_path / 'votes.npy'} {terms} --ledger {tmp_path / 'ledger.db'} --json"),
        ("parquet", f"aggregate {tmp_path / 'votes.parquet'} {terms}"),
        ("parquet", f"aggregate {tmp_path / 'votes.npy'} {terms} --out {tmp_path / 'labels.parquet'}"),
        ("learn", f"vote --job 0 --model {tmp_path / 'model.joblib'} --kit {voter}"),
    ]
    for (extra, line), answer in zip(needs, bare.all_of([line.split() for _, line in needs]), strict=True):
        assert (answer.code, answer.last) == (2, install(bare, extra)), (line, answer.err)
    assert not (tmp_path / "ledger.db").exists()
    assert not (tmp_path / "labels.npy").exists()


def test_a_call_that_needs_an_extra_says_which(bare: Bare):
    budget = "sedml.CohortBudget('ledger.db', 'teachers', 100.0, 1e-5)"
    terms = "classes=2, threshold=2, sigma=5.0"
    experiment = "from sedml.learn.experiment import Experiment, run_experiment"
    needs = [
        ("SQLAlchemy", "server", "import sedml; sedml.fingerprint"),
        ("SQLAlchemy", "server", f"import sedml; sedml.aggregate([[0], [0]], budget={budget}, {terms})"),
        ("SQLAlchemy", "server", "from sedml.privacy.ledger import Ledger"),
        ("SQLAlchemy", "server", "from sedml.database import Database"),
        ("prometheus-client", "server", "from sedml.service.server import serve; serve('kits/s0')"),
        ("scikit-learn", "learn", "from sedml.learn.student import spread_labels"),
        ("scikit-learn", "learn", "from sedml.learn.teachers import train_teachers"),
        ("scipy", "learn", f"{experiment}; run_experiment(Experiment())"),
    ]
    answers = json.loads(bare.python(_CALLS, json.dumps([call for *_, call in needs])))
    for (library, extra, call), answer in zip(needs, answers, strict=True):
        assert answer == f"This needs {library}, which is not installed. {install(bare, extra)}", call


def test_commands_of_one_machine(bare: Bare, tmp_path: Path):
    np.save(tmp_path / "votes.npy", np.tile(TRUTH, (40, 1)))
    (tmp_path / "patients.csv").write_text("id,age\n" + "".join(f"{k},50\n" for k in range(60)))
    kits = tmp_path / "kits"
    addresses = "--servers 127.0.0.1:1,127.0.0.1:2"
    job = "--classes 3 --threshold 0.6 --sigma 1"
    lines = [
        f"aggregate {tmp_path / 'votes.npy'} {job} --delta 1e-5 --out {tmp_path / 'labels.npy'}",
        f"provision --out {kits} {addresses} --teachers 1",
        f"enrol clinic-7 {addresses} --ca {kits / 'authority' / 'ca.pem'} --out {tmp_path / 'clinic-7'}",
        f"certify {kits / 's0'} --authority {kits / 'authority'}",
        f"shard {tmp_path / 'patients.csv'} --by id --parts 2 --out {tmp_path / 'parts'}",
        f"shard --check {tmp_path / 'parts'}",
        "privacy report --samples 10 --sigma 40 --delta 1e-5",
        "privacy plan --epsilon 2 --delta 1e-5 --samples 100 --teachers 50",
        "privacy audit --runs 20000",
        "bench aggregate --samples 50 --teachers 5 --repeat 1 --transport memory",
    ]
    for line, answer in zip(lines, bare.all_of([line.split() for line in lines]), strict=True):
        assert answer.code == 0, (line, answer.err)
    assert np.load(tmp_path / "labels.npy").tolist() == TRUTH.tolist()
    (unknown,) = bare.all_of([["data", "fetch", "nothing", "--data-dir", str(tmp_path)]])
    assert unknown.code == 2
    assert "pip install" not in unknown.err


@thorough
def test_a_job_from_its_creation_to_its_deletion(bare: Bare, live: Live, tmp_path: Path):
    np.save(tmp_path / "samples.npy", np.column_stack([TRUTH, -TRUTH]).astype(np.float32))
    requester, operator = kit(live, "requester-1"), kit(live, "operator-s0")
    create = ["job", "create", "--data", str(tmp_path / "samples.npy"), *TERMS.split(), "--deadline", "1h", "--json"]
    terms = Terms.model_validate(json.loads(bare.sedml(*create, *requester))["terms"])

    votes = np.tile(TRUTH, (len(TEACHERS), 1))
    voting = []
    for name, row in zip(TEACHERS, votes, strict=True):
        np.save(tmp_path / f"{name}.npy", row)
        ballot = ["--job", terms.id, "--predictions", str(tmp_path / f"{name}.npy")]
        voting.append(subprocess.Popen(bare.command("vote", *ballot, *kit(live, name)), stdout=subprocess.DEVNULL))
    assert [process.wait(120) for process in voting] == [0] * len(TEACHERS)

    bare.sedml("job", "run", terms.id, *requester)
    bare.sedml("job", "labels", terms.id, "--out", str(tmp_path / "labels.npy"), *requester)
    labels = np.load(tmp_path / "labels.npy")
    live.check_labels(terms, votes, labels)
    assert (labels == TRUTH).any()

    servers = ",".join(f"127.0.0.1:{server.kit.port}" for server in live.servers)
    authority, joining = str(live.kits / "authority" / "ca.pem"), tmp_path / "clinic-7"
    others = [
        ["enrol", "clinic-7", "--servers", servers, "--ca", authority, "--out", str(joining)],
        ["account", "add", str(joining / "enrolment.json"), *operator],
        ["job", "list", *requester],
        ["job", "status", terms.id, *requester],
        ["job", "fetch", terms.id, "--out", str(tmp_path / "fetched.npy"), *kit(live, TEACHERS[0])],
        ["job", "delete", terms.id, *requester],
        ["rotate", *kit(live, TEACHERS[1])],
        ["doctor", *kit(live, TEACHERS[1])],
        ["account", "list", *operator],
        ["log", *operator],
        ["budget", *operator],
        ["job", "list", *operator],
        ["account", "revoke", TEACHERS[2], *operator],
    ]
    for line, answer in zip(others, bare.all_of(others), strict=True):
        assert answer.code == 0, (line, answer.err)
    np.testing.assert_array_equal(np.load(tmp_path / "fetched.npy"), np.load(tmp_path / "samples.npy"))


def kit(live: Live, name: str) -> list[str]:
    return ["--kit", str(live.kits / name)]
