"""Labels, students and the items made of them, on made-up votes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import FileFormatError
from sedml.lab.paper import lab_run
from sedml.lab.paper.two_noise_task import Task
from sedml.lab.paper.two_noises import paper_epsilon, sigma_by_theorem
from sedml.lab.reproduce.accuracy import accuracy, threshold
from sedml.lab.reproduce.labelling import Point, Terms
from sedml.lab.reproduce.students import StudentRow
from sedml.lab.reproduce.vote_data import Histograms, mnist_votes, thin


def column(table, key):
    place = [column.key for column in table.columns].index(key)
    return [row[place] for row in table.cells]


@given(st.floats(0.01, 50), st.floats(1e-9, 0.1))
def test_sigma_is_the_one_at_which_the_papers_theorem_says_epsilon(epsilon, delta):
    sigma = sigma_by_theorem(epsilon, delta)
    assert paper_epsilon(sigma, sigma, delta) == pytest.approx(epsilon, rel=1e-6)


def point(lines, truth, sigma=1.0):
    task = Task(10, len(truth), 250, 150, sigma, sigma)
    return Point("point", "mnist", Terms(250, 0.6, 2.04), task, lines, truth, agrees=True)


def test_a_job_costs_more_privacy_than_a_query():
    found = point({}, np.zeros(9000), sigma_by_theorem(2.04, 1e-5))
    assert found.epsilon(1) == pytest.approx(2.04)
    assert found.epsilon(9000) > 100


def test_quality_counts_labels_and_right_ones():
    lines = {"secure": np.array([1, -1, 2, 3]), "plain": np.full(4, -1)}
    found = point(lines, np.array([1, 0, 2, 0]))
    secure = found.quality("secure")
    assert (secure.answered, secure.accuracy, secure.right_of_all) == (3, pytest.approx(2 / 3), 0.5)
    assert found.quality("plain").accuracy is None


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


def test_a_threshold_that_is_higher_gives_fewer_labels_and_students_stand_beside_them(settings, monkeypatch):
    def taught(_, points):
        return [
            StudentRow(point.name, line, 3, "setting", seed, 0.9 + 0.01 * seed)
            for point in points
            for line in ("plain", "secure")
            for seed in (0, 1)
        ], ""

    monkeypatch.setattr("sedml.lab.reproduce.sweep._teach", taught)
    result = threshold(settings)
    assert result.agrees
    assert column(result.tables[0], "threshold") == [0.3, 0.9] * 2
    few, fewer = column(result.tables[0], "secure_answered")[:2]
    assert few > fewer
    assert column(result.tables[0], "student_secure")[:2] == pytest.approx([0.905, 0.905])
    assert any("mean of 2 seeds" in line for line in result.measured)
    assert result.headlines


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
