"""A student gains from samples without a label."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC

from sedml.errors import InputError
from sedml.learn.datasets import flat, load_dataset
from sedml.learn.splits import split_public
from sedml.learn.student import spread_labels


@pytest.fixture(scope="module")
def digits():
    """The public samples, their true labels, and the samples and labels of the student's test."""
    data = load_dataset("digits")
    public, test = split_public(len(data.test_labels))
    return data.test_images[public], data.test_labels[public], data.test_images[test], data.test_labels[test]


def some_labels(labels, count, seed=0):
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.where(np.isin(np.arange(len(labels)), order[:count]), labels, -1)


def test_spreading_gains_from_samples_without_a_label(digits):
    images, truth, test, test_labels = digits
    gains = []
    for seed in range(3):
        labels = some_labels(truth, 40, seed)
        known = labels != -1
        found = spread_labels(images, labels)
        used = found != -1
        plain, student = (
            SVC(C=10.0).fit(flat(images[some]), found[some]).score(flat(test), test_labels) for some in (known, used)
        )
        gains.append(student - plain)
        assert (found[known] == labels[known]).all()
        assert used.mean() > 0.6
        assert (found == truth)[used & ~known].mean() > 0.8
    assert np.mean(gains) > 0.02


def test_names_of_classes_and_complete_labels_work_too(digits):
    images, truth, _, _ = digits
    assert np.array_equal(spread_labels(images, truth), truth)
    names = np.array([f"digit {i}" for i in truth], object)
    names[50:] = -1
    assert set(spread_labels(images, names)) <= {-1} | {f"digit {i}" for i in range(10)}


def test_labels_spread_over_an_island_but_not_to_the_next():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(center, 0.3, (30, 2)) for center in (0, 5, 10)])
    y = np.full(90, -1)
    y[:5], y[30:35] = 0, 1
    assert spread_labels(X, y, neighbours=20).tolist() == [0] * 30 + [1] * 30 + [-1] * 30


@pytest.mark.parametrize(
    ("labels", "options", "says"),
    [
        ([0, 1, -1], {"confidence": 1.1}, "confidence"),
        ([0, 1, -1], {"confidence": float("nan")}, "confidence"),
        ([0, 1, -1], {"neighbours": 0}, "neighbours"),
        ([0, 1], {}, "3 samples and labels"),
        ([-1, -1, -1], {}, "No sample has a label"),
    ],
)
def test_what_cannot_be_spread_is_refused(labels, options, says):
    with pytest.raises(InputError) as caught:
        spread_labels(np.eye(3), labels, **options)
    assert says in caught.value.what
    assert caught.value.do
