"""Teachers are trained apart and repeatably, vote with class ids whatever they saw, and bad estimators are refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from sedml.errors import FileFormatError, InputError
from sedml.learn.datasets import load_dataset
from sedml.learn.splits import split_teachers
from sedml.learn.teachers import load_votes, train_teachers, votes
from sedml.parts.classifiers import make_estimator
from sedml.protocol.votes import histogram


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


def train(digits, K=10, estimator="sklearn.svm.SVC", kind="even", alpha=1.0, **options):
    parts = split_teachers(digits.train_labels, K, kind, alpha=alpha)
    return train_teachers(estimator, digits.train_images, digits.train_labels, parts, **options), parts


class Contiguous(ClassifierMixin, BaseEstimator):
    """Like XGBoost: takes class ids 0, 1, ... without gaps only."""

    def fit(self, X, y):
        if sorted(set(y)) != list(range(len(set(y)))):
            raise ValueError("class ids have gaps")
        self.inner_ = GaussianNB().fit(X, y)
        return self

    def predict(self, X):
        return self.inner_.predict(X).reshape(-1, 1)


def test_plurality_beats_the_best_teacher(digits):
    teachers, _ = train(digits, 30, params={"C": 10.0})
    cast = votes(teachers, digits.test_images, 10)
    assert cast.shape == (30, 599)
    assert cast.dtype.kind == "i"
    plurality = (histogram(cast, 10).argmax(axis=0) == digits.test_labels).mean()
    alone = (cast == digits.test_labels).mean(axis=1)
    assert plurality > 0.92
    assert plurality > alone.max() + 0.04


def test_a_teacher_learns_from_its_own_part_alone(digits):
    labels = digits.train_labels.copy()
    parts = split_teachers(labels, 2)
    before = votes(train_teachers("sklearn.svm.SVC", digits.train_images, labels, parts), digits.test_images, 10)
    labels[parts[1]] = 9 - labels[parts[1]]
    after = votes(train_teachers("sklearn.svm.SVC", digits.train_images, labels, parts), digits.test_images, 10)
    assert np.array_equal(before[0], after[0])
    assert not np.array_equal(before[1], after[1])


@pytest.mark.parametrize("estimator", ["sklearn.svm.SVC", GaussianNB(), Contiguous()])
def test_teachers_vote_only_for_classes_they_saw(digits, estimator):
    teachers, parts = train(digits, 8, estimator, "skewed", 0.05)
    cast = votes(teachers, digits.test_images, 10)
    few = 0
    for k, part in enumerate(parts):
        seen = set(digits.train_labels[part].tolist())
        few += len(seen) < 10
        assert set(cast[k].tolist()) <= seen
        right = (cast[k] == digits.test_labels)[np.isin(digits.test_labels, list(seen))]
        assert right.mean() > 0.3
    assert few == 8


def test_a_teacher_of_one_class_votes_for_it(digits):
    parts = [np.flatnonzero(digits.train_labels == 7)[:5], np.arange(100)]
    teachers = train_teachers(
        "sklearn.linear_model.LogisticRegression", digits.train_images, digits.train_labels, parts
    )
    assert set(votes(teachers, digits.test_images, 10)[0].tolist()) == {7}


def test_the_seed_decides(digits):
    def cast(seed, estimator=None):
        forest = estimator or DecisionTreeClassifier(max_features=3)
        return votes(train(digits, 4, forest, seed=seed)[0], digits.test_images, 10)

    assert np.array_equal(cast(1), cast(1))
    assert not np.array_equal(cast(1), cast(2))
    nested = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_features=3))
    assert np.array_equal(cast(1, nested), cast(1, nested))
    fixed = DecisionTreeClassifier(max_features=3, random_state=7)
    assert np.array_equal(cast(1, fixed), cast(2, fixed))
    assert fixed.random_state == 7
    assert not hasattr(fixed, "tree_")


# --- estimators by name


class NoPredict(BaseEstimator):
    def fit(self, X, y):
        return self


class NoFit:
    def predict(self, X):
        return X


@pytest.mark.parametrize(
    ("estimator", "params", "says"),
    [
        ("SVC", {}, "not an import path"),
        ("sklearn.svn.SVC", {}, "cannot be imported"),
        ("sklearn.svm.SVX", {}, "has no SVX"),
        ("sklearn.base.clone", {}, "not a class"),
        ("sklearn.svm.SVC", {"D": 1}, "unexpected keyword"),
        ("sklearn.preprocessing.StandardScaler", {}, "has no predict"),
        ("sklearn.linear_model.LinearRegression", {}, "regressor"),
        (LinearRegression(), {}, "regressor"),
        (SVC(), {"D": 1}, "Invalid parameter"),
        (NoPredict(), {}, "NoPredict has no predict"),
        (NoFit(), {}, "NoFit has no fit"),
        (NoFit(), {"a": 1}, "does not take these parameters"),
        (None, {}, "NoneType has no fit"),
    ],
)
def test_bad_estimators_are_refused(estimator, params, says):
    with pytest.raises(InputError) as caught:
        make_estimator(estimator, params)
    assert says in caught.value.what
    assert caught.value.do


def test_estimators_are_made_or_copied():
    assert make_estimator("sklearn.svm.SVC", {"C": 3.0}).C == 3.0
    mine = SVC(C=2.0)
    copy = make_estimator(mine, {"gamma": 1.0})
    assert (copy.C, copy.gamma, mine.gamma) == (2.0, 1.0, "scale")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"labels": np.zeros(5, int)}, "5,"),
        ({"labels": np.zeros(4)}, "float64"),
        ({"parts": []}, "no teacher"),
        ({"parts": [np.arange(4), np.arange(0)]}, "without samples"),
        ({"images": np.full((4, 2), np.nan)}, "Teacher 0 could not be trained (ValueError"),
        ({"params": {"C": -1.0}}, "Teacher 0 could not be trained (InvalidParameterError"),
    ],
)
def test_bad_training_is_refused(change, says):
    options = {"images": np.eye(4), "labels": np.arange(4) % 2, "parts": [np.arange(4)], **change}
    with pytest.raises(InputError) as caught:
        train_teachers("sklearn.svm.SVC", **options)
    assert says in caught.value.what
    assert caught.value.do


# --- predictions as files


def test_votes_from_files(tmp_path):
    cast = np.array([[0, 1, 2], [2, -1, 0]])
    np.save(tmp_path / "p.npy", cast)
    assert load_votes(tmp_path / "p.npy", 3, 3).tolist() == cast.tolist()
    with pytest.raises(FileFormatError, match="3 samples, but there are 4"):
        load_votes(tmp_path / "p.npy", 3, 4)
    with pytest.raises(InputError, match="out of range"):
        load_votes(tmp_path / "p.npy", 2, 3)
    with pytest.raises(FileFormatError, match="does not exist"):
        load_votes(tmp_path / "q.npy", 3, 3)
