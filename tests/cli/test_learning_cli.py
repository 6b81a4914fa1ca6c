"""`sedml run` and `sedml data`."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sedml.cli import app
from sedml.errors import FileFormatError, InputError
from support.cli_calls import invoke
from support.tiers import thorough

pytestmark = thorough

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_run_leaves_result_labels_and_report(tmp_path):
    result = invoke("run", EXAMPLES / "digits.toml", "--out", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["experiment"]["split"] == "skewed"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"result.json", "labels.npy", "index.html"}


def test_run_finds_data_where_it_is_told_and_can_leave_out_the_votes(tmp_path, data_dir):
    (tmp_path / "svhn.toml").write_text(
        'dataset = "svhn"\ndata_dir = "/nowhere"\nteachers = 4\nteacher = "sklearn.naive_bayes.GaussianNB"\n'
        "queries = 40\nthreshold = 0.3\nsigma = 0.5\n"
    )
    options = ["--data-dir", data_dir, "--out", tmp_path / "out", "--public", "--json"]
    result = invoke("run", tmp_path / "svhn.toml", *options)
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)["accuracies"]) == {
        "labels given",
        "student",
        "student told every public label",
    }


def test_data_fetch_keeps_what_is_there(data_dir):
    if not (data_dir / "mnist").is_dir():
        pytest.skip("no MNIST files")
    result = invoke("data", "fetch", "mnist", "--data-dir", data_dir, "--json")
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["files"]) == 4


def test_data_fetch_explains_an_unknown_name(tmp_path):
    with pytest.raises((InputError, FileFormatError)):
        CliRunner().invoke(app, ["data", "fetch", "cifar", "--data-dir", str(tmp_path)], catch_exceptions=False)


def test_run_says_whether_what_it_cost_is_private(tmp_path):
    loud = (EXAMPLES / "digits.toml").read_text()
    (tmp_path / "loud.toml").write_text(loud)
    (tmp_path / "quiet.toml").write_text(loud.replace("sigma = 8.0", "sigma = 800.0"))
    for name, verdict in (("loud", "Not private: with epsilon 12"), ("quiet", "Private: with epsilon 0.")):
        result = invoke("run", tmp_path / f"{name}.toml", "--out", tmp_path / "out")
        assert result.exit_code == 0, result.output
        assert verdict in " ".join(result.stdout.split())
