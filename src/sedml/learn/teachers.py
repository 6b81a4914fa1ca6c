"""Teachers from scikit-learn, or from files of predictions, and their votes.

A model is named by its import path ("sklearn.svm.SVC"), or is an estimator to copy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import FileFormatError, InputError, SedmlError, counted
from sedml.extras import explain_missing
from sedml.files import load_predictions
from sedml.learn.datasets import flat
from sedml.parts.classifiers import make_estimator, seeded
from sedml.protocol.votes import Votes, as_votes

with explain_missing():
    from sklearn.base import clone
    from sklearn.dummy import DummyClassifier
    from threadpoolctl import threadpool_limits

_Array: TypeAlias = npt.NDArray[Any]


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


def votes(teachers: Sequence[Teacher], images: npt.ArrayLike, classes: int) -> Votes:
    """The class id that each teacher gives each sample: int[K, Q]."""
    with threadpool_limits(limits=1):
        return as_votes(np.stack([teacher.predict(images) for teacher in teachers]), classes)


def load_votes(path: str | os.PathLike[str], classes: int, samples: int) -> Votes:
    """The votes in a file of predictions (see `sedml.files.load_predictions`) on that many samples."""
    cast = as_votes(load_predictions(path), classes)
    if cast.shape[1] != samples:
        raise FileFormatError(
            f"{path} has predictions on {counted(cast.shape[1], 'sample')}, but there are {samples}.",
            "Give predictions on all of these samples, in the same order.",
        )
    return cast


def _train(k: int, model: object, samples: _Array, labels: _Array, seed: int) -> Teacher:
    seen, codes = np.unique(labels, return_inverse=True)
    try:
        if seen.size == 1:
            fitted = DummyClassifier(strategy="most_frequent").fit(samples, codes)
        else:
            fitted = seeded(clone(model, safe=False), seed)
            fitted.fit(samples, codes)
    except SedmlError:
        raise
    except Exception as error:
        what = f"Teacher {k} could not be trained ({type(error).__name__}: {error})."
        raise InputError(what, f"It has {len(codes)} samples of {seen.size} classes: try other parameters.") from error
    return Teacher(fitted, seen.astype(np.int64))
