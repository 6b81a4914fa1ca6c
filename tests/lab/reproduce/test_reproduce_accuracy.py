"""Labels, students and the items made of them, on made-up votes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import FileFormatError
from sedml.lab.paper import lab_run
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.two_noises import paper_epsilon
from sedml.lab.reproduce.accuracy import accuracy, threshold
from sedml.lab.reproduce.labelling import Point, Terms, sigma_by_theorem
from sedml.lab.reproduce.students import (
    LabelFile,
    StudentRow,
    digest,
    read_label_file,
    read_students,
    write_label_file,
    write_students,
)
from sedml.lab.reproduce.vote_data import Histograms, mnist_votes, thin


def column(table, key):
    place = [column.key for column in table.columns].index(key)
    return [row[place] for row in table.cells]


@given(st.floats(0.01, 50), st.floats(1e-9, 0.1))
def test_sigma_is_the_one_at_which_the_papers_theorem_says_epsilon(epsilon, delta):
    sigma = sigma_by_theorem(epsilon, delta)
    assert paper_epsilon(sigma, sigma, delta) == pytest.approx(epsilon, rel=1e-6)


def test_a_job_costs_more_privacy_than_a_query():
    task = LabTask(10, 9000, 250, 150, *2 * [sigma_by_theorem(2.04, 1e-5)])
    point = Point("mnist", Terms(250, 0.6, 2.04), task, label_file(), np.zeros(9000))
    assert point.privacy.paper_query == pytest.approx(2.04)
    assert point.privacy.paper_query < point.exact_epsilon < point.privacy.paper_job
    assert point.privacy.epsilon == np.inf


def test_quality_counts_labels_and_right_ones():
    file = LabelFile("point", {"secure": np.array([1, -1, 2, 3]), "plain": np.full(4, -1)}, {})
    point = Point("mnist", Terms(12, 0.6, 2.04), LabTask(10, 4, 12, 8, 1.0, 1.0), file, np.array([1, 0, 2, 0]))
    found = point.quality("secure")
    assert (found.answered, found.accuracy, found.right_of_all) == (3, pytest.approx(2 / 3), 0.5)
    assert point.quality("plain").accuracy is None


# ---- votes -----------------------------------------------------------------------------------------


def test_the_first_teachers_stand_in_unless_a_crew_of_that_size_is_there(made_up, tmp_path):
    few, all_ = mnist_votes(made_up, 6, 60), mnist_votes(made_up, 12, 60)
    assert not few.own
    assert all_.own
    assert np.array_equal(few.votes, all_.votes[:6])
    folder = tmp_path / "mnist_predictions"
    folder.mkdir()
    np.savez(folder / "predictions_6.npz", predictions=np.full((6, 60), 3, np.uint8), labels=np.zeros(60, np.uint8))
    crew = mnist_votes(tmp_path, 6, 60)
    assert crew.own
    assert (crew.votes == 3).all()


@pytest.mark.parametrize(
    "arrays",
    [
        {"predictions": np.zeros((3, 9), np.uint8)},
        {"predictions": np.zeros((3, 9), np.uint8), "labels": np.zeros(8, np.uint8)},
        {"predictions": np.zeros((3, 9)), "labels": np.zeros(9, np.uint8)},
        {"predictions": np.zeros((2, 9), np.uint8), "labels": np.zeros(9, np.uint8)},
    ],
)
def test_damaged_votes_are_refused_without_naming_the_folder(tmp_path, arrays):
    (tmp_path / "mnist_predictions").mkdir()
    np.savez(tmp_path / "mnist_predictions" / "predictions.npz", **arrays)
    with pytest.raises(FileFormatError) as caught:
        mnist_votes(tmp_path, 3, 9)
    assert str(tmp_path) not in str(caught.value)


def test_thinned_histograms_are_hypergeometric():
    counts = np.tile(np.array([[30], [10], [10]]), (1, 4000))
    histograms = Histograms(counts, np.zeros(4000, np.int64), 50)
    some = thin(histograms, 20)
    assert some.shape == counts.shape
    assert (some.sum(axis=0) == 20).all()
    assert (some <= counts).all()
    assert some[0].mean() == pytest.approx(12, abs=0.1)
    assert some[0].var() == pytest.approx(20 * 0.6 * 0.4 * 30 / 49, rel=0.1)
    assert np.array_equal(thin(histograms, 50), counts)
    with pytest.raises(FileFormatError):
        thin(histograms, 51)


# ---- label files and students ----------------------------------------------------------------------


def label_file(name="point", seed=0, size=30):
    rng = np.random.default_rng(seed)
    return LabelFile(
        name, {line: rng.integers(-1, 10, size) for line in ("plain", "secure", "again")}, {"agrees": True}
    )


def row(file, line="secure", seed=0, accuracy=0.9):
    return StudentRow(file.name, line, digest(file.lines[line]), 3, "setting", seed, accuracy)


def test_label_files_and_students_come_back_as_they_were_or_are_refused(tmp_path):
    file = label_file()
    write_label_file(tmp_path, file)
    back = read_label_file(tmp_path / "point.npz")
    assert back.terms == {"agrees": True}
    assert all(np.array_equal(back.lines[line], file.lines[line]) for line in file.lines)
    rows = [row(file, accuracy=1 / 3), row(file, "plain", 1)]
    write_students(tmp_path / "students.csv", rows)
    assert read_students(tmp_path / "students.csv", [back]) == rows
    assert read_students(tmp_path / "students.csv", [label_file("other")]) == []
    with pytest.raises(FileFormatError, match="other labels"):
        read_students(tmp_path / "students.csv", [label_file(seed=2)])


# ---- items -----------------------------------------------------------------------------------------


@pytest.fixture
def no_students(monkeypatch):
    monkeypatch.setattr("sedml.lab.reproduce.sweep._teach", lambda *_: ([], "no torch here"))


@pytest.mark.usefixtures("no_students")
def test_accuracy_shows_both_data_sets_and_why_students_are_missing(settings):
    result = accuracy(settings)
    assert result.agrees
    table, privacy = result.tables
    assert column(table, "dataset") == ["mnist"] * 4 + ["svhn"] * 4
    assert column(table, "teachers") == [6, 12] * 4
    assert all(0 < value <= 1 for value in column(table, "secure_accuracy"))
    assert column(table, "student_secure") == [None] * 8
    assert "no torch here" in result.skipped
    assert column(privacy, "epsilon_query_paper") == pytest.approx([2.04, 8.03] * 2)
    assert any("first K of 250" in line for line in result.measured)
    assert len(list(settings.labels.glob("mnist-*.npz"))) == 4


@pytest.mark.parametrize("item", [accuracy, threshold])
def test_without_data_an_item_is_skipped_and_says_what_is_missing(settings, tmp_path, item):
    result = item(replace(settings, data_dir=tmp_path))
    assert "mnist_predictions/predictions.npz" in result.skipped
    assert "svhn.npz" in result.skipped
    assert not result.tables
    assert str(tmp_path) not in result.skipped


@pytest.mark.usefixtures("no_students")
def test_a_wrong_label_anywhere_is_not_passed_over(settings, monkeypatch):
    real = lab_run.run_job

    def faulty(task, *arguments, **more):
        labels, stats = real(task, *arguments, **more)
        labels[0] = (labels[0] + 2) % 10
        return labels, stats

    monkeypatch.setattr(lab_run, "run_job", faulty)
    result = accuracy(settings)
    assert result.agrees is False
    assert "are NOT those of plain aggregation" in result.ours


def test_students_trained_elsewhere_go_with_the_labels_they_were_trained_on(settings, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("sedml.lab.reproduce.sweep._teach", lambda *_: ([], "later"))
        first = threshold(settings)
    assert first.agrees
    assert column(first.tables[0], "threshold") == [0.3, 0.9] * 2
    few, fewer = column(first.tables[0], "secure_answered")[:2]
    assert few > fewer
    files = [read_label_file(path) for path in sorted(settings.labels.glob("*.npz"))]
    rows = [
        row(file, line, seed, 0.9 + 0.01 * seed) for file in files for line in ("plain", "secure") for seed in (0, 1)
    ]
    table = tmp_path / "students.csv"
    write_students(table, rows)
    elsewhere = replace(settings, students=table)
    second = threshold(elsewhere)
    assert column(second.tables[0], "student_secure")[:2] == pytest.approx([0.905, 0.905])
    assert column(second.tables[0], "secure_answered")[:2] == [few, fewer]
    assert any("another machine" in line for line in second.measured)
    assert second.headlines
    # Other terms need other labels.
    with pytest.raises(FileFormatError, match="other terms"):
        threshold(replace(elsewhere, scale=replace(settings.scale, queries=50)))
    with pytest.raises(FileFormatError, match="labels first"):
        threshold(replace(elsewhere, out=tmp_path / "empty"))


def test_students_are_trained_here_where_torch_and_images_are(settings):
    pytest.importorskip("torch", reason="needs the optional extra torch")
    told = []
    scale = replace(settings.scale, thresholds=(0.5,), queries=400, student_steps=30, student_seeds=1)
    result = threshold(replace(settings, scale=scale, progress=lambda *what: told.append(what)))
    students = result.tables[1]
    assert column(students, "line") == ["plain", "secure"]
    assert all(0.3 < value <= 1 for value in column(students, "accuracy"))
    assert "30 steps" in column(students, "setting")[0]
    assert ("training students", 2, 2) in told
