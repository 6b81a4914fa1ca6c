"""A student is a proper scikit-learn classifier, and gains from samples without a label."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import estimator_checks

from sedml.errors import InputError
from sedml.learn.datasets import flat, load_dataset
from sedml.learn.splits import split_public
from sedml.learn.student import SelfTrainedStudent


@pytest.fixture(scope="module")
def digits():
    """The public samples, their true labels, and the samples and labels of the student's test."""
    data = load_dataset("digits")
    public, test = split_public(len(data.test_labels))
    return data.test_images[public], data.test_labels[public], data.test_images[test], data.test_labels[test]


def some_labels(labels, count, seed=0):
    order = np.random.default_rng(seed).permutation(len(labels))
    return np.where(np.isin(np.arange(len(labels)), order[:count]), labels, -1)


NO_LABEL = {"check_classifiers_classes": "it has a class -1, which is a sample without a label here"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@estimator_checks.parametrize_with_checks([SelfTrainedStudent(SVC())], expected_failed_checks=lambda _: NO_LABEL)
def test_estimator_checks(estimator, check):
    check(estimator)


def test_methods_are_those_of_the_wrapped_classifier(digits):
    images, truth, test, _ = digits
    assert not hasattr(SelfTrainedStudent(LinearSVC()), "predict_proba")
    student = SelfTrainedStudent(GaussianNB()).fit(images, truth)
    assert student.predict_proba(test).shape == (len(test), 10)


def test_spreading_gains_from_samples_without_a_label(digits):
    images, truth, test, test_labels = digits
    gains = []
    for seed in range(3):
        labels = some_labels(truth, 40, seed)
        known = labels != -1
        plain = SVC(C=10.0).fit(flat(images[known]), labels[known]).score(flat(test), test_labels)
        student = SelfTrainedStudent(SVC(C=10.0)).fit(images, labels)
        gains.append(student.score(test, test_labels) - plain)
        assert (student.labels_[known] == labels[known]).all()
        assert student.used_.mean() > 0.6
        given = student.used_ & (labels == -1)
        assert (student.labels_[given] == truth[given]).mean() > 0.8
        assert (student.labels_[~student.used_] == -1).all()
    assert np.mean(gains) > 0.02


def test_names_of_classes_and_complete_labels_work_too(digits):
    images, truth, _, _ = digits
    whole = SelfTrainedStudent(GaussianNB()).fit(images, truth)
    assert whole.used_.all()
    assert np.array_equal(whole.predict(images), GaussianNB().fit(flat(images), truth).predict(flat(images)))
    names = np.array([f"digit {i}" for i in truth], object)
    names[50:] = -1
    student = SelfTrainedStudent(GaussianNB()).fit(images, names)
    assert set(student.predict(images)) <= {f"digit {i}" for i in range(10)}


def test_labels_spread_over_an_island_but_not_to_the_next():
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(center, 0.3, (30, 2)) for center in (0, 5, 10)])
    y = np.full(90, -1)
    y[:5], y[30:35] = 0, 1
    student = SelfTrainedStudent(SVC(), neighbours=20).fit(X, y)
    assert student.labels_.tolist() == [0] * 30 + [1] * 30 + [-1] * 30
    assert student.used_.tolist() == [True] * 60 + [False] * 30


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"confidence": 1.1}, "confidence"),
        ({"confidence": float("nan")}, "confidence"),
        ({"neighbours": 0}, "neighbours"),
    ],
)
def test_bad_parameters_are_refused(digits, options, says):
    with pytest.raises(InputError) as caught:
        SelfTrainedStudent(LinearSVC(), **options).fit(digits[0], digits[1])
    assert says in caught.value.what
    assert caught.value.do
