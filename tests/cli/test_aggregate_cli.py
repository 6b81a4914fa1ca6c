"""`sedml aggregate`: what it refuses before it spends anything, what it warns of, and where the labels go."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from sedml.files import check_labels_file
from sedml.privacy.ledger import Ledger
from support.cli_calls import exit_code, invoke

TERMS = ["--classes", "3", "--threshold", "0.6", "--sigma", "40"]
BUDGET = ["--ledger", "ledger.sqlite", "--budget", "2", "--delta", "1e-5"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    np.save("p.npy", np.repeat(np.arange(30)[np.newaxis] % 3, 50, axis=0))
    return tmp_path


def spent():
    with Ledger.open("ledger.sqlite") as ledger:
        return ledger.status("teachers").rho.spent


def refused(monkeypatch, capsys, *arguments):
    assert exit_code(monkeypatch, "aggregate", "p.npy", *TERMS, *BUDGET, *arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error:")
    assert not Path("ledger.sqlite").exists()
    return error


def test_a_ledger_is_not_charged_for_labels_that_nothing_keeps(monkeypatch, capsys):
    error = refused(monkeypatch, capsys)
    assert "--out" in error
    assert "--json" in error


@pytest.mark.parametrize(
    ("out", "text"),
    [
        ("nowhere/labels.npy", "folder of nowhere/labels.npy does not exist"),
        ("labels.txt", "Use one of .npy"),
        ("labels", "no suffix"),
        ("folder.npy", "Is a directory"),
        ("p.npy/labels.npy", "does not exist"),
        ("x" * 250 + ".npy", "too long"),
    ],
)
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_an_out_that_cannot_be_written_is_refused_before_anything_is_spent(monkeypatch, capsys, out, text, as_json):
    Path("folder.npy").mkdir()
    assert text in refused(monkeypatch, capsys, "--out", out, *as_json)


def test_an_out_that_needs_a_library_is_refused_before_anything_is_spent(monkeypatch, capsys):
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "pip install 'sedml-pate[parquet]'" in refused(monkeypatch, capsys, "--out", "labels.parquet")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused_before_anything_is_spent(monkeypatch, capsys, folder):
    (folder / "locked").mkdir(mode=0o500)
    assert "Permission denied" in refused(monkeypatch, capsys, "--out", "locked/labels.npy")


def test_the_check_of_a_place_leaves_nothing_and_keeps_the_old_file(folder):
    (folder / "labels.npy").write_text("old")
    before = sorted(folder.iterdir())
    check_labels_file("labels.npy")
    check_labels_file("other.csv")
    assert sorted(folder.iterdir()) == before
    assert (folder / "labels.npy").read_text() == "old"


def test_a_document_without_a_file_holds_the_labels():
    done = invoke("aggregate", "p.npy", *TERMS, *BUDGET, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    assert document["out"] is None
    assert len(document["labels"]) == 30
    assert spent() > 0
    done = invoke("aggregate", "p.npy", *TERMS, "--json", "--out", "labels.npy")
    assert "labels" not in json.loads(done.stdout)


def test_warnings_are_lines_on_standard_error(monkeypatch, capsys):
    np.save("one.npy", np.zeros((1, 5), int))
    arguments = ["aggregate", "one.npy", *TERMS, "--sigma", "0.1", "--delta", "1e-5", "--json"]
    assert exit_code(monkeypatch, *arguments) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith("warning: There is only one teacher")
    assert json.loads(captured.out)["teachers"] == 1
    assert ".py" not in captured.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--threshold", "1"], "Write 1.0 for all"),
        (["--threshold", "180"], "lifts no count that far"),
        (["--delta", "0.5"], "well below"),
        (["--delta", "1e-300"], "nine sigmas"),
    ],
)
def test_absurd_terms_are_refused_before_anything_is_spent(monkeypatch, capsys, options, text):
    assert text in refused(monkeypatch, capsys, "--out", "labels.npy", *options)


def test_all_teachers_as_a_fraction():
    done = invoke("aggregate", "p.npy", *TERMS, "--threshold", "1.0", "--json")
    assert json.loads(done.stdout)["threshold"] == 50


def test_rows_of_one_organisation_are_its_votes():
    np.save("rows.npy", np.tile(np.arange(20) % 3, (24, 1)))
    terms = ["--classes", "3", "--threshold", "0.6", "--sigma", "0.5", "--delta", "1e-5"]
    done = invoke("aggregate", "rows.npy", *terms, "--unit", "patient", "--votes", "6", "--json")
    found = json.loads(done.stdout)
    assert (found["teachers"], found["votes"], found["threshold"]) == (4, 6, 15)
    assert found["privacy"]["unit"] == {"name": "patient", "votes": 6, "spread": 1}
    shown = invoke("aggregate", "rows.npy", *terms, "--unit", "patient", "--votes", "6").output
    assert "4 organisations x 6 votes" in shown
    assert "epsilon for each patient" in shown
