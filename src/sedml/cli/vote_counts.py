"""Votes as commands take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import PredictionsError
from sedml.files import load_predictions
from sedml.files.npz import array_names
from sedml.protocol.votes import as_votes, histogram

__all__ = ["read_counts", "read_truth"]

_Array: TypeAlias = npt.NDArray[Any]


def read_counts(path: Path, classes: int) -> _Array:
    """Vote counts (samples, classes): of predictions, one row per teacher, or of the 'votes' of an .npz file."""
    if "votes" not in array_names(path):
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
    return load_predictions(path, "labels") if "labels" in array_names(path) else None
