"""What `sedml demo` shows, and what a page may show of somebody's own data."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from sedml.errors import InputError
from sedml.lab.report.experiment_page import NOT_FOR_PUBLICATION, document, page
from sedml.learn.experiment import DEMONSTRATIONS, Experiment, run_experiment

PRINTED = DEMONSTRATIONS["printed"]
SMALL = Experiment(teachers=20, queries=60, threshold=0.4, sigma=2.0)


@pytest.fixture(scope="module")
def shown():
    return run_experiment(PRINTED, fixed_noise=True)


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """An experiment on predictions from a file."""
    folder = tmp_path_factory.mktemp("own")
    rng = np.random.default_rng(7)
    np.save(folder / "votes.npy", np.where(rng.random((20, 599)) < 0.9, np.arange(599) % 10, 3))
    return run_experiment(replace(SMALL, teacher="votes.npy", data_dir=str(folder)))


@pytest.fixture(scope="module")
def shown_page(shown):
    return page(shown)


@pytest.fixture(scope="module")
def own_page(own):
    return page(own)


def without_measurements(text):
    return re.sub(r'class="[^"]*measured">[^<]*<', "", text)


def test_the_student_is_good_and_the_teachers_are_protected(shown):
    assert shown.accuracies["student"] >= 0.95
    assert shown.privacy.epsilon <= 1
    assert shown.same_as_plain
    assert shown.accuracies["student"] > shown.teacher_accuracies["a teacher alone, mean"] + 0.05


def test_the_same_seed_gives_the_same_page():
    noisy = replace(SMALL, sigma=10.0)
    first, again = (run_experiment(noisy, fixed_noise=True) for _ in range(2))
    assert np.array_equal(again.labels, first.labels)
    shown = without_measurements(page(first))
    assert without_measurements(page(again)) == shown
    other = run_experiment(replace(noisy, seed=1), fixed_noise=True)
    assert without_measurements(page(other)) != shown


def test_the_page_says_that_its_noise_is_fixed_and_only_then(shown, shown_page, own_page):
    assert "the same noise" in shown_page
    assert "This is a demonstration" not in own_page
    assert document(shown)["fixed_noise"]


def test_noise_is_fresh_unless_it_is_a_demonstration():
    noisy = replace(SMALL, sigma=30.0)
    first, second = run_experiment(noisy), run_experiment(noisy)
    assert np.array_equal(first.counts, second.counts)
    assert not np.array_equal(first.labels, second.labels)


@pytest.mark.parametrize("dataset", ["mnist", "svhn", "mine.npz"])
def test_noise_is_never_fixed_on_other_data(dataset):
    with pytest.raises(InputError, match="protect nothing"):
        run_experiment(replace(SMALL, dataset=dataset), fixed_noise=True)


def test_noise_is_never_fixed_on_votes_from_a_file(tmp_path):
    np.save(tmp_path / "votes.npy", np.zeros((5, 599), np.int64))
    with pytest.raises(InputError, match="protect nothing"):
        run_experiment(replace(SMALL, teacher="votes.npy", data_dir=str(tmp_path)), fixed_noise=True)


def test_votes_on_own_data_are_not_for_publication(own_page, shown_page):
    assert NOT_FOR_PUBLICATION in own_page
    assert own_page.index(NOT_FOR_PUBLICATION) < own_page.index("<h1>")
    assert NOT_FOR_PUBLICATION not in shown_page


def test_a_public_page_depends_on_the_labels_only(own, own_page):
    """Another world with other votes and the same labels gives the same page and the same document."""
    other = replace(
        own,
        counts=own.counts[:, ::-1].copy() + 1,
        teacher_accuracies=dict.fromkeys(own.teacher_accuracies, 0.123),
    )
    public = page(own, public=True)
    assert without_measurements(page(other, public=True)) == without_measurements(public)
    assert document(other, public=True) == document(own, public=True)
    assert without_measurements(page(other)) != without_measurements(own_page)
    assert NOT_FOR_PUBLICATION not in public
    assert "alone" not in json.dumps(document(own, public=True)["accuracies"])


def test_a_page_needs_no_other_file_and_knows_the_dark(shown_page):
    assert not re.search(r"""(src|href)=["'](?!data:)|url\(|@import|https?://""", shown_page)
    assert "prefers-color-scheme: dark" in shown_page
