"""Real votes of real teachers: single votes on MNIST, histograms on SVHN.

| file in the data folder | what it holds |
|---|---|
| `mnist_predictions/predictions.npz` | `predictions` uint8[250, 10000] of 250 networks with 240 images each; `labels` |
| `mnist_predictions/predictions_K.npz` | optional: the same of K networks with 60,000 / K images each |
| `pate2018_votes/svhn.npz` | `votes` uint8[26032, 10], published with PATE 2018: how many of 250 voted what; `labels` |
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError
from sedml.learn.datasets import data_folder
from sedml.protocol.votes import Votes, as_votes

CLASSES = 10
_MNIST, _SVHN = "mnist_predictions", "pate2018_votes/svhn.npz"
_DO = "Put it there, or say where it is with --data-dir or SEDML_DATA_DIR."


class SingleVotes(NamedTuple):
    """Votes int[K, Q] and the true classes int64[Q]; `own` where the K teachers share all training data evenly."""

    votes: Votes
    truth: npt.NDArray[np.int64]
    own: bool


class Histograms(NamedTuple):
    """Counts int64[N, Q] of `teachers` teachers, and the true classes int64[Q]."""

    counts: npt.NDArray[np.int64]
    truth: npt.NDArray[np.int64]
    teachers: int


def mnist_votes(data_dir: Path | None, teachers: int, queries: int) -> SingleVotes:
    """Votes on the first `queries` test images: of a crew of exactly that many teachers, or of the first of 250."""
    name = f"{_MNIST}/predictions_{teachers}.npz"
    own = (data_folder(data_dir) / name).is_file()
    name = name if own else f"{_MNIST}/predictions.npz"
    votes, truth = _load(data_dir, name, "predictions")
    if votes.ndim != 2 or votes.shape[1] != len(truth) or votes.shape[0] < teachers or len(truth) < queries:
        raise FileFormatError(
            f"{name} has votes of shape {votes.shape}, but {teachers} teachers and {queries} samples are needed.",
            "Use a file with enough of both.",
        )
    # A file of exactly as many teachers as were asked for is a crew of its own, whatever its name.
    own = own or votes.shape[0] == teachers
    return SingleVotes(as_votes(votes[:teachers, :queries], CLASSES), truth[:queries], own)


def svhn_histograms(data_dir: Path | None, queries: int) -> Histograms:
    """Vote histograms of the first `queries` test images."""
    votes, truth = _load(data_dir, _SVHN, "votes")
    counts = votes.T.astype(np.int64)
    totals = np.unique(counts.sum(axis=0))
    if counts.shape != (CLASSES, len(truth)) or totals.size != 1:
        raise FileFormatError(
            f"{_SVHN} has histograms of shape {counts.shape}, or not the same number of votes on every sample.",
            f"Use a file with one row of {CLASSES} counts per sample, all with the same sum.",
        )
    return Histograms(counts[:, :queries], truth[:queries], int(totals[0]))


def thin(histograms: Histograms, teachers: int) -> npt.NDArray[np.int64]:
    """Counts int64[N, Q] of `teachers` of the teachers, chosen at random anew for every sample.

    Without single votes nobody knows who voted what, so the same subset cannot be followed from sample to sample;
    the counts of one sample have the right law (multivariate hypergeometric), and accuracy is a mean over samples.
    """
    if teachers > histograms.teachers:
        raise FileFormatError(
            f"{teachers} teachers cannot be drawn from {histograms.teachers}.", "Use at most as many as voted."
        )
    if teachers == histograms.teachers:
        return histograms.counts
    generator = np.random.default_rng(0)
    rows = [generator.multivariate_hypergeometric(row, teachers, method="marginals") for row in histograms.counts.T]
    return np.ascontiguousarray(np.array(rows, np.int64).T)


def _load(data_dir: Path | None, name: str, key: str) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]]:
    """The votes under this key and the true classes in an npz file; errors name it within the data folder only."""
    path = data_folder(data_dir) / name
    if not path.is_file():
        raise FileFormatError(f"{name} is not in the data folder.", _DO)
    try:
        with np.load(path) as archive:
            votes, truth = archive[key], archive["labels"]
    except (OSError, ValueError, KeyError) as error:
        raise FileFormatError(
            f"{name} cannot be read, or lacks {key} or labels ({type(error).__name__}).", "Get the file again."
        ) from error
    if votes.dtype.kind not in "iu" or truth.dtype.kind not in "iu":
        raise FileFormatError(f"{name} holds numbers that are not whole.", "Get the file again.")
    return votes, truth.astype(np.int64)
