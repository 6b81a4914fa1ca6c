"""Teachers from scikit-learn, from a user's own models, or from files of predictions, and their votes.

A model is named by its import path ("sklearn.svm.SVC"), or is an estimator to copy. Any trained object that has
`predict` or `predict_proba` can vote.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import FileFormatError, InputError, SedmlError, explain_missing
from sedml.files import load_predictions
from sedml.learn.datasets import flat
from sedml.protocol.votes import Votes, as_votes

with explain_missing():
    from sklearn.base import clone, is_regressor
    from sklearn.dummy import DummyClassifier
    from threadpoolctl import threadpool_limits

__all__ = ["Teacher", "load_votes", "make_estimator", "train_teachers", "votes"]

_Array: TypeAlias = npt.NDArray[Any]

_NEEDS = "Use a classifier with fit and predict, such as sklearn.linear_model.LogisticRegression."


@dataclass(frozen=True, eq=False)
class Teacher:
    """A model trained on the classes that one teacher has; it knows them as 0, 1, ... in the order of `seen`."""

    model: Any = field(repr=False)
    seen: npt.NDArray[np.int64] = field(repr=False)

    def predict(self, images: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """A class id per sample."""
        codes = np.asarray(self.model.predict(flat(images)))
        ids: npt.NDArray[np.int64] = self.seen[codes.reshape(len(codes)).astype(np.int64)]
        return ids


def make_estimator(estimator: object, params: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - any estimator
    """An untrained classifier: by import path or class with `params`, or a copy of an object with `params` set."""
    chosen = dict(params or {})
    made = _from_path(estimator) if isinstance(estimator, str) else estimator
    name = estimator if isinstance(estimator, str) else getattr(made, "__name__", type(made).__name__)
    try:
        if isinstance(made, type):
            made = made(**chosen)
        else:
            made = clone(made, safe=False)
            if chosen:
                made.set_params(**chosen)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{name} does not take these parameters: {error}", "Check their names and values.") from error
    for method in ("fit", "predict"):
        if not callable(getattr(made, method, None)):
            raise InputError(f"{name} has no {method}.", _NEEDS)
    if is_regressor(made):
        raise InputError(f"{name} is a regressor: it predicts numbers, not classes.", _NEEDS)
    return made


def train_teachers(
    estimator: object,
    images: npt.ArrayLike,
    labels: npt.ArrayLike,
    parts: Sequence[npt.NDArray[np.int64]],
    *,
    params: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress = silent,
) -> tuple[Teacher, ...]:
    """One teacher per part, each trained on `images[part]` and `labels[part]` alone.

    Every `random_state` that is not set comes from `seed` and the teacher's number. A teacher that has a single class
    always votes for it. `progress` counts teachers.
    """
    model = make_estimator(estimator, params)
    samples, ids = flat(images), np.asarray(labels)
    if ids.ndim != 1 or ids.dtype.kind not in "iu" or len(ids) != len(samples):
        what = f"There are {len(samples)} samples, and labels of shape {ids.shape} and type {ids.dtype}."
        raise InputError(what, "Give one whole number per sample.")
    if not len(parts) or any(not len(part) for part in parts):
        raise InputError("There is no teacher, or one without samples.", "Split the data with split_teachers.")
    seeds = np.random.default_rng(seed).integers(2**31, size=len(parts)).tolist()
    teachers: list[Teacher] = []
    # A second thread of the linear algebra library costs more than it brings at the size of a teacher's data.
    with threadpool_limits(limits=1):
        for k, (part, own) in enumerate(zip(parts, seeds, strict=True)):
            teachers.append(_train(k, model, samples[part], ids[part], own))
            progress("training", k + 1, len(parts))
    return tuple(teachers)


def votes(teachers: Sequence[object], images: npt.ArrayLike, classes: int) -> Votes:
    """The class id that each teacher gives each sample: int[K, Q].

    A teacher is a `Teacher`, or any object with `predict` (class ids, or a score per class) or `predict_proba`. The
    columns of scores stand for the classes in `classes_` if the object has that, else for all classes in order. Objects
    with `n_features_in_`, scikit-learn's mark, get every sample as one row; others get the images as they are.
    """
    if not len(teachers):
        raise InputError("There are no teachers to vote.", "Train some, or give models with predict.")
    array = np.asarray(images)
    rows = flat(array)
    with threadpool_limits(limits=1):
        cast = [
            _vote(k, teacher, rows if hasattr(teacher, "n_features_in_") else array, classes)
            for k, teacher in enumerate(teachers)
        ]
    return as_votes(np.stack(cast), classes)


def load_votes(path: str | os.PathLike[str], classes: int, samples: int) -> Votes:
    """The votes in a file of predictions (see `sedml.files.load_predictions`) on that many samples."""
    cast = as_votes(load_predictions(path), classes)
    if cast.shape[1] != samples:
        raise FileFormatError(
            f"{path} has predictions on {cast.shape[1]} samples, but there are {samples}.",
            "Give predictions on all of these samples, in the same order.",
        )
    return cast


def _from_path(path: str) -> object:
    module, _, name = path.rpartition(".")
    if not module:
        raise InputError(
            f"{path!r} is not an import path.", "Give one such as sklearn.linear_model.LogisticRegression."
        )
    try:
        found: object = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise InputError(f"{module} cannot be imported: {error}.", "Check the spelling, or install it.") from error
    except AttributeError as error:
        raise InputError(f"{module} has no {name}.", "Check the spelling.") from error
    if not isinstance(found, type):
        raise InputError(f"{path} is not a class.", _NEEDS)
    return found


def _train(k: int, model: object, samples: _Array, labels: _Array, seed: int) -> Teacher:
    seen, codes = np.unique(labels, return_inverse=True)
    try:
        if seen.size == 1:
            fitted = DummyClassifier(strategy="most_frequent").fit(samples, codes)
        else:
            fitted = _seeded(clone(model, safe=False), seed)
            fitted.fit(samples, codes)
    except SedmlError:
        raise
    except Exception as error:
        what = f"Teacher {k} could not be trained ({type(error).__name__}: {error})."
        raise InputError(what, f"It has {len(codes)} samples of {seen.size} classes: try other parameters.") from error
    return Teacher(fitted, seen.astype(np.int64))


def _seeded(model: Any, seed: int) -> Any:  # noqa: ANN401 - any estimator
    if hasattr(model, "get_params"):
        unset = [
            name
            for name, value in model.get_params(deep=True).items()
            if (name == "random_state" or name.endswith("__random_state")) and value is None
        ]
        model.set_params(**dict.fromkeys(sorted(unset), seed))
    return model


def _vote(k: int, teacher: Any, samples: _Array, classes: int) -> _Array:  # noqa: ANN401 - any object
    method = next((name for name in ("predict", "predict_proba") if callable(getattr(teacher, name, None))), None)
    if method is None:
        what = f"Teacher {k} ({type(teacher).__name__}) has neither predict nor predict_proba."
        raise InputError(what, "Give a trained model that has one of them.")
    try:
        answer = np.asarray(getattr(teacher, method)(samples))
    except SedmlError:
        raise
    except Exception as error:
        what = f"Teacher {k} cannot predict ({type(error).__name__}: {error})."
        raise InputError(what, "Check that it is trained, and on samples of this shape.") from error
    if answer.dtype.kind not in "biuf" or answer.ndim not in (1, 2) or len(answer) != len(samples):
        what = f"Teacher {k} predicts shape {answer.shape}, type {answer.dtype}, for {len(samples)} samples."
        raise InputError(what, "Predictions must be one class id, or one score per class, for every sample.")
    if method == "predict" and answer.size == len(answer):
        return answer.reshape(-1)
    return _by_scores(k, teacher, answer, classes)


def _by_scores(k: int, teacher: object, scores: _Array, classes: int) -> _Array:
    columns = np.asarray(getattr(teacher, "classes_", np.arange(classes)))
    if scores.ndim != 2 or columns.shape != scores.shape[1:] or columns.dtype.kind not in "biu":
        what = f"Teacher {k} gives scores of shape {scores.shape}; it should tell {columns.size} classes apart."
        raise InputError(what, "Give one score per class id, or name the columns' class ids in classes_.")
    if not np.isfinite(scores).all():
        raise InputError(f"Teacher {k} gives scores that are not finite.", "Replace NaN and infinite scores.")
    winners: _Array = columns[scores.argmax(axis=1)]
    return winners
