"""The commands as a person or a script runs them."""

import json

import numpy as np
import pytest

from sedml.files import load_predictions
from sedml.release import release_hash
from support.cli_calls import exit_code, invoke
from support.tiers import thorough

ARGUMENTS = ["--classes", "3", "--threshold", "0.6", "--sigma", "0.2"]


@pytest.fixture
def predictions(tmp_path):
    path = tmp_path / "predictions.npy"
    np.save(path, np.repeat([[0, 1, 2, 0, -1]], 9, axis=0))
    return path


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "parquet"])
def test_aggregate_writes_the_labels(predictions, tmp_path, suffix):
    out = tmp_path / f"labels.{suffix}"
    result = invoke("aggregate", predictions, *ARGUMENTS, "--out", out)
    assert result.exit_code == 0, result.output
    assert "consensus" in result.output
    assert "4 samples (80.0%)" in result.output
    if suffix == "npy":
        labels = np.load(out)
        assert labels.dtype == np.int64
        assert labels.tolist() == [0, 1, 2, 0, -1]
    else:
        assert out.stat().st_size > 0


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_aggregate_reads_other_formats(predictions, tmp_path, suffix):
    path = tmp_path / f"same.{suffix}"
    votes = load_predictions(predictions)
    if suffix == "csv":
        np.savetxt(path, votes, fmt="%d", delimiter=",")
    else:
        np.savez(path, predictions=votes, labels=votes[0])
    result = invoke("aggregate", path, *ARGUMENTS, "--json")
    assert json.loads(result.stdout)["answered"] == 4


def test_aggregate_prints_one_json_document(predictions):
    result = invoke("aggregate", predictions, *ARGUMENTS, "--json")
    document = json.loads(result.stdout)
    assert set(document["phases"]) == {"set-up", "preparation", "votes"}
    assert document["rounds"] == sum(phase["rounds"] for phase in document["phases"].values())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--classes", "2"], "0 to 1"),
        (["--sigma", "0"], "sigma"),
        (["--threshold", "0"], "threshold"),
        (["--threshold", "most"], "threshold 'most' is not a number"),
        (["--out", "nowhere/labels.npy"], "folder"),
        (["--out", "labels.txt"], ".npy"),
    ],
)
def test_bad_input_is_explained_with_exit_code_2_and_no_labels(
    monkeypatch, capsys, tmp_path, predictions, arguments, text
):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    code = exit_code(monkeypatch, "aggregate", predictions, *ARGUMENTS, *arguments)
    error = capsys.readouterr().err
    assert code == 2
    assert "error:" in error
    assert text in error
    assert "Traceback" not in error
    assert set(tmp_path.iterdir()) == before


def test_a_missing_file_is_explained(monkeypatch, capsys, tmp_path):
    assert exit_code(monkeypatch, "aggregate", tmp_path / "none.npy", *ARGUMENTS) == 2
    assert "none.npy" in capsys.readouterr().err


def test_a_count_as_threshold_is_a_count(predictions):
    result = invoke("aggregate", predictions, *ARGUMENTS, "--threshold", "7", "--json")
    assert json.loads(result.stdout)["threshold"] == 7


@pytest.mark.parametrize("command", [["aggregate"], ["bench", "aggregate"], ["demo"], ["run"]])
def test_every_help_text_has_an_example(command):
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output


@thorough
def test_demo_teaches_a_student_and_writes_its_report(tmp_path):
    result = invoke("demo", "--dataset", "digits", "--out", tmp_path / "report", "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["same_as_plain"] is True
    assert document["accuracies"]["student"] > document["accuracies"]["a teacher alone, mean"]
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") == 5
    assert "http" not in page.replace("http-equiv", "")
    assert json.loads((tmp_path / "report" / "result.json").read_text(encoding="utf-8")) == document
    assert len(np.load(tmp_path / "report" / "labels.npy")) == document["asked"]


def test_version():
    version, kernel, release = invoke("--version").output.splitlines()
    assert version.startswith("sedml ")
    assert kernel.startswith(("kernel: C (AES with ", "kernel: NumPy ("))
    assert release == f"release: {release_hash()}"
