"""Training images as networks take them: checked, in one array, with the samples of each teacher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sedml.errors import InputError

__all__ = ["Shards", "as_shards", "by_class", "check_labels", "pixels"]


@dataclass(frozen=True)
class Shards:
    """One array of images [S, C, H, W] with its labels, and which of them each teacher holds."""

    images: NDArray[Any]
    labels: NDArray[np.int64]
    indices: tuple[NDArray[np.int64], ...]


def pixels(images: NDArray[Any], what: str) -> NDArray[Any]:
    """Images as [S, C, H, W], uint8 or float32; [S, H, W] gets its one channel."""
    images = np.asarray(images)
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or 0 in images.shape[1:]:
        raise InputError(
            f"The {what} have the shape {images.shape}.", "Pass an array [samples, (channels,) height, width]."
        )
    if images.dtype == np.uint8:
        return images
    if images.dtype.kind not in "fiub":
        raise InputError(f"The {what} are of type {images.dtype}.", "Pass numbers: uint8, or floats from 0 to 1.")
    images = images.astype(np.float32)
    if images.size and not np.abs(images).max() <= 10:  # NaN fails too
        raise InputError(f"The {what} hold values beyond ±10, or NaN.", "Scale the pixels to 0 to 1.")
    return images


def check_labels(labels: Any, samples: int, classes: int, lowest: int = 0) -> NDArray[np.int64]:  # noqa: ANN401
    """One label for each sample, from `lowest` to classes - 1."""
    if not 2 <= classes <= 256:
        raise InputError(f"There are {classes} classes.", "Use 2 to 256.")
    labels = np.asarray(labels)
    if labels.shape != (samples,) or (samples and labels.dtype.kind not in "iu"):
        raise InputError(
            f"The labels are {labels.dtype} of shape {labels.shape} for {samples} images.",
            "Pass one whole number for each image.",
        )
    if samples and not lowest <= labels.min() <= labels.max() < classes:
        raise InputError(
            f"The labels run from {labels.min()} to {labels.max()}.",
            f"Use {lowest} to {classes - 1}, or raise the number of classes.",
        )
    return np.asarray(labels, np.int64)


def as_shards(images: NDArray[Any], labels: NDArray[Any], classes: int, shards: Sequence[Any]) -> Shards:
    """Check the training data: images [S, (C,) H, W], labels [S], and one list of sample numbers per teacher."""
    images = pixels(images, "images")
    labels = check_labels(labels, len(images), classes)
    if not len(shards):
        raise InputError("There are no teachers.", "Pass one shard for each teacher.")
    if len(shards) > len(images):
        raise InputError(
            f"There are {len(shards)} teachers but only {len(images)} samples.", "Use fewer teachers or more data."
        )
    indices = tuple(np.asarray(own, dtype=np.int64).reshape(-1) for own in shards)
    for number, own in enumerate(indices):
        if not len(own):
            raise InputError(f"Teacher {number} has no samples.", "Use fewer teachers, or a split that is less uneven.")
        if own.min() < 0 or own.max() >= len(images):
            raise InputError(
                f"Teacher {number} lists samples that do not exist.", f"Use numbers from 0 to {len(images) - 1}."
            )
    return Shards(images, labels, indices)


def by_class(
    sets: Sequence[NDArray[np.int64]], classes: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The samples of several labelled sets, laid end to end, by set and class.

    Returns `table` [sets, classes, longest] of sample numbers, `sizes` [sets, classes], and `present` [sets], the
    number of classes a set has. Those come first in its rows; the rest is filler.
    """
    longest = max(int(np.bincount(labels).max()) for labels in sets)
    table = np.zeros((len(sets), classes, longest), np.int64)
    sizes, present = np.ones((len(sets), classes), np.int64), np.zeros(len(sets), np.int64)
    offset = 0
    for row, labels in enumerate(sets):
        found = np.unique(labels)
        present[row] = len(found)
        for column, label in enumerate(found):
            members = offset + np.flatnonzero(labels == label)
            table[row, column, : len(members)], sizes[row, column] = members, len(members)
        offset += len(labels)
    return table, sizes, present
