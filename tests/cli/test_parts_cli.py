"""`sedml shard` and `sedml train` as people and scripts call them."""

import json

import numpy as np
import pytest

from support.cli_calls import document, done, exit_code, invoke
from support.parts_data import patients, write_csv

SHARD = ("shard", "patients.csv", "--by", "pid", "--parts", "4", "--out", "parts")


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "patients.csv", patients())


def test_from_records_to_models(tmp_path):
    shown = done(*SHARD)
    assert "1,200 records of" in shown
    assert "Every unit is in one part." in shown
    assert "No unit is in more than one part." in done("shard", "--check", "parts")
    assert "4 models (forest) are in models" in done(
        "train", "parts", "--label", "y", "--model", "forest", "--param", "n_estimators=5", "--out", "models"
    )
    assert sorted(path.name for path in (tmp_path / "models").iterdir())[1:] == [
        f"part-0{k}.joblib" for k in range(1, 5)
    ]
    trained = document("train", "parts", "--label", "y", "--out", "models")
    made = document("shard", "--check", "parts")
    assert made["ok"] is True
    assert made["problems"] == []
    assert (
        trained["parts"]["digest"]
        == made["digest"]
        == json.loads((tmp_path / "parts/manifest.json").read_text())["digest"]
    )
    assert all("PAT" not in text for text in (shown, json.dumps(made), json.dumps(trained)))


def test_a_unit_in_two_parts_ends_with_code_3(tmp_path):
    done(*SHARD)
    lines = (tmp_path / "parts/part-01.csv").read_text().splitlines()
    with (tmp_path / "parts/part-02.csv").open("a") as stream:
        stream.write(f"{lines[1]}\n")
    result = invoke("shard", "--check", "parts")
    assert result.exit_code == 3
    assert "wrong: part-02.csv is not as it was made." in result.output
    assert "wrong: Units in more than one part: 1 (1 in 2 parts; between parts 1 and 2: 1)." in result.output
    assert "PAT" not in result.output
    found = json.loads(invoke("shard", "--check", "parts", "--json").stdout)
    assert (found["ok"], found["overlaps"], found["pairs"]) == (False, {"2": 1}, [[1, 2, 1]])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("shard patients.csv --by pid", "--parts"),
        ("shard patients.csv --by pid --parts 4 --out parts --spread 2", "--check"),
        ("shard patients.csv --by ward --parts 4 --out parts", "without an id in 'ward'"),
        ("shard patients.csv --by pid --parts 99 --out parts", "1 to 64"),
        ("shard --check .", "--by"),
        ("train . --label y --out models --by pid --param C", "NAME=VALUE"),
        ("train nowhere --label y --out models", "not a folder"),
    ],
)
def test_bad_input_is_explained_with_exit_code_2(monkeypatch, capsys, tmp_path, arguments, told):
    assert exit_code(monkeypatch, *arguments.split()) == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert "PAT" not in shown
    assert [path.name for path in tmp_path.iterdir()] == ["patients.csv"]


def test_a_part_that_abstains_is_said(tmp_path):
    data = patients()
    (tmp_path / "mine").mkdir()
    write_csv(tmp_path / "mine/a.csv", data)
    write_csv(
        tmp_path / "mine/b.csv", data | {"pid": np.array([f"Q{k}" for k in range(1200)]), "y": np.zeros(1200, int)}
    )
    shown = done("train", "mine", "--by", "pid", "--label", "y", "--out", "models")
    assert "part-02.joblib abstains from every vote: fewer than two classes." in shown
