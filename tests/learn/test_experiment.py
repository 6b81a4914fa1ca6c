"""Experiments from the data to the student, and what is reported of them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import BudgetExceededError, FileFormatError, InputError
from sedml.lab.report.experiment_page import document, page, write_results
from sedml.learn.experiment import Experiment, read_experiment, run_experiment

QUICK = Experiment(teachers=20, queries=120, threshold=0.4, sigma=2.0)
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def followed():
    """An experiment, and the stages that it told of."""
    heard = []
    return run_experiment(QUICK, lambda what, _done, _total: heard.append(what)), heard


@pytest.fixture(scope="module")
def outcome(followed):
    return followed[0]


def test_secure_and_plain_labels_are_the_same_for_the_same_noise(outcome):
    assert outcome.same_as_plain


def test_the_student_beats_its_teachers_mean(outcome):
    assert outcome.accuracies["student"] > outcome.teacher_accuracies["a teacher alone, mean"]
    assert outcome.answered > 60
    assert outcome.task.samples == 120


def test_the_split_and_the_training_follow_from_the_seed(outcome):
    again = run_experiment(QUICK)
    assert np.array_equal(again.counts, outcome.counts)
    assert np.array_equal(again.truth, outcome.truth)
    other = run_experiment(replace(QUICK, seed=9))
    assert not np.array_equal(other.counts, outcome.counts)


def test_results_are_written_whole(outcome, tmp_path):
    write_results(outcome, tmp_path / "new" / "folder")
    found = json.loads((tmp_path / "new" / "folder" / "result.json").read_text(encoding="utf-8"))
    assert found == json.loads(json.dumps(document(outcome)))
    assert np.array_equal(np.load(tmp_path / "new" / "folder" / "labels.npy"), outcome.labels)


def test_the_page_escapes_what_the_config_says(outcome):
    evil = replace(QUICK, name="<script>alert(1)</script>")
    good, bad = (page(replace(outcome, experiment=evil, same_as_plain=same)) for same in (True, False))
    assert "<script>" not in good + bad
    assert "Every label is the one" in good
    assert "WARNING" in bad


@pytest.mark.parametrize("semi", [True, False])
@pytest.mark.parametrize("split", ["even", "skewed"])
def test_other_splits_and_students(split, semi):
    found = run_experiment(replace(QUICK, split=split, semi_supervised=semi, seed=2))
    assert found.same_as_plain


def test_predictions_from_a_file(tmp_path, outcome):
    votes = np.tile(np.arange(599) % 10, (12, 1))
    np.save(tmp_path / "votes.npy", votes)
    found = run_experiment(replace(QUICK, teacher="votes.npy", data_dir=str(tmp_path)))
    assert found.task.teachers == 12
    assert found.counts.max() == 12


def test_networks_as_teachers_and_student(tmp_path):
    pytest.importorskip("torch", reason="needs the optional extra torch")
    config = replace(
        QUICK,
        teachers=6,
        teacher="cnn:small",
        teacher_params={"steps": 40, "augmentation": {"shift": 0.05}},
        sigma=0.5,
        student="cnn",
        student_params={"members": 1, "steps": 30, "network": "small"},
    )
    found = run_experiment(config)
    assert found.same_as_plain
    assert set(found.accuracies) >= {"student", "labels given"}
    (tmp_path / "teachers.ckpt").write_text("damaged")
    with pytest.raises(FileFormatError, match="not a whole checkpoint"):
        run_experiment(replace(config, checkpoint=str(tmp_path / "teachers.ckpt")))
    with pytest.raises(InputError, match="nonsense"):
        run_experiment(replace(config, teacher_params={"nonsense": 1}))


def test_the_pipeline_runs_on_real_svhn(data_dir):
    config = replace(
        QUICK,
        dataset="svhn",
        data_dir=str(data_dir),
        teachers=8,
        teacher="sklearn.linear_model.RidgeClassifier",
        teacher_params={"alpha": 100.0},
        queries=60,
        threshold=0.3,
        sigma=0.5,
    )
    found = run_experiment(config)
    assert found.same_as_plain
    assert found.images.shape[1:] == (32, 32, 3)
    assert "data:image/svg" in page(found)


def test_a_budget_is_kept_before_anything_is_opened(monkeypatch):
    monkeypatch.setattr("sedml.learn.experiment.run_votes", lambda *_a, **_k: pytest.fail("the job was run"))
    with pytest.raises(BudgetExceededError):
        run_experiment(replace(QUICK, budget=1.0))


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "no-such-set"},
        {"teachers": 5000},
        {"teacher": "sklearn.linear_model.LinearRegression"},
        {"teacher": "no.such.Model", "teacher_params": {}},
        {"split": "fair"},
        {"public": 0},
        {"threshold": 0.0},
        {"sigma": 0.0},
        {"delta": 0.0},
        {"teacher_params": {"nonsense": 1}},
    ],
)
def test_what_makes_no_sense_is_explained(change):
    with pytest.raises(InputError):
        run_experiment(replace(QUICK, **change))


def test_no_consensus_at_all_is_explained():
    with pytest.raises(InputError, match="no labels"):
        run_experiment(replace(QUICK, threshold=80))


@pytest.mark.parametrize("name", ["digits.toml", "mnist.toml"])
def test_the_examples_can_be_read(name):
    assert read_experiment(EXAMPLES / name).dataset == name.removesuffix(".toml")


@pytest.mark.parametrize("text", ["name = ", 'colour = "red"', "\x00"])
def test_a_bad_config_is_explained(tmp_path, text):
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises((InputError, FileFormatError)):
        read_experiment(tmp_path / "bad.toml")
    with pytest.raises(FileFormatError):
        read_experiment(tmp_path / "none.toml")
