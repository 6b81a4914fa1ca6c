"""Votes, labels and thresholds as commands take them."""

from __future__ import annotations

import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import typer

from sedml.errors import PredictionsError
from sedml.files import load_one_teacher, load_predictions
from sedml.protocol.votes import NO_CONSENSUS, as_votes, histogram

__all__ = ["read_answered", "read_counts", "read_threshold", "read_truth"]

_Array: TypeAlias = npt.NDArray[Any]


def read_counts(path: Path, classes: int) -> _Array:
    """Vote counts (samples, classes): of predictions, one row per teacher, or of the 'votes' of an .npz file."""
    if "votes" not in _keys(path):
        return histogram(as_votes(load_predictions(path), classes), classes).T
    counts = load_predictions(path, "votes")
    if counts.ndim != 2 or classes not in counts.shape:
        raise PredictionsError(
            f"The votes in {path} have shape {counts.shape}, and there are {classes} classes.",
            "Give the counts as (samples, classes), and --classes if there are not 10.",
        )
    if counts.shape[1] != classes:
        return counts.T
    # With as many samples as classes either axis could be the samples; all teachers vote on every sample.
    sideways = counts.shape[0] == classes and np.ptp(counts.sum(axis=1)) > np.ptp(counts.sum(axis=0))
    return counts.T if sideways else counts


def read_truth(path: Path) -> _Array | None:
    """The true classes (samples,) beside the votes of an .npz file, None if it has none."""
    return load_predictions(path, "labels") if "labels" in _keys(path) else None


def read_answered(path: Path) -> npt.NDArray[np.bool_]:
    """Which samples got a label, (samples,), from a file of a job's labels."""
    labels = load_one_teacher(path, "labels" if "labels" in _keys(path) else None)
    if labels.ndim != 1 or labels.dtype.kind not in "iuf" or not np.array_equal(labels, np.floor(labels)):
        raise PredictionsError(
            f"The labels in {path} have shape {labels.shape} and type {labels.dtype}.",
            "Give one whole number per sample, -1 where there was no consensus.",
        )
    answered: npt.NDArray[np.bool_] = labels != NO_CONSENSUS
    return answered


def read_threshold(text: str) -> float:
    """A threshold as it was written: a whole number is a count of votes, a decimal one a fraction of the teachers."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(
            "give a fraction such as 0.6 or a count such as 150.", param_hint="--threshold"
        ) from None


def _keys(path: Path) -> list[str]:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]
    return []
