"""Predictions in many forms, validated, to votes: a class id or -1 (abstains) per teacher and sample.

`as_votes` is the only door through which predictions enter. A vote is secret, so its errors name the
position of a bad prediction and the permitted range, never the prediction itself. `histogram` counts votes
in the clear (for the oracle of the tests).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import PredictionsError, TaskError, counted
from sedml.protocol.class_names import ids_of, shown_names

ABSTAIN = -1
"""The vote of a teacher that has no opinion on a sample."""

NO_CONSENSUS = -1
"""The label of a sample on which too few agree: the paper's ⊥, and scikit-learn's marker for an unlabelled sample."""

Votes: TypeAlias = npt.NDArray[np.signedinteger[Any]]
_Numbers: TypeAlias = npt.NDArray[Any]
_Mask: TypeAlias = npt.NDArray[np.bool_]

_MAX_CLASSES = 2**31 - 1
_BLOCK = 1 << 20  # predictions looked at together: bounds the temporary arrays to a few megabytes
_SHAPES = "Give class ids as (teachers, samples) or scores as (teachers, samples, classes)."


def as_votes(predictions: object, classes: int, names: Sequence[str] = ()) -> Votes:
    """The predictions as votes, shape (K, Q), each in [-1, classes); always a new array.

    `predictions` is an array, nested lists, a list of one array per teacher, or anything NumPy can make an
    array of (pandas frames, torch tensors), with one row per teacher:

    - (K, Q) class ids: integers, floats that are whole numbers, or bool if there are 2 classes. Any negative
      number abstains. Where the classes have names, names: one that is no class is refused.
    - (K, Q, N) scores such as logits, probabilities or one-hot vectors: the vote is the class with the
      highest score, the first on a tie. Scores cannot abstain: a row of zeros is a vote for class 0.

    The dtype of the result is the narrowest signed one that holds every class id.
    """
    classes = _checked_classes(classes)
    array = _as_array(predictions)
    _check_shape(array, classes)
    if array.ndim == 2 and array.dtype.kind in "USOT" and names:
        array = _read_names(array, names)
    _check_dtype(array, classes)
    votes: Votes = np.full(array.shape[:2], ABSTAIN, np.min_scalar_type(-classes))
    if array.ndim == 3:
        _vote_by_scores(array, votes)
    else:
        _vote_by_ids(array, votes, classes)
    return votes


def histogram(votes: Votes, classes: int) -> npt.NDArray[np.int64]:
    """The counts n[i] of every sample, shape (N, Q); abstentions count for no class."""
    classes = _checked_classes(classes)
    if votes.ndim != 2 or votes.dtype.kind not in "iu":
        raise PredictionsError(
            f"Votes of shape {votes.shape} and type {votes.dtype} cannot be counted.",
            "Pass the predictions through as_votes first.",
        )
    if votes.size and (votes.min() < ABSTAIN or votes.max() >= classes):
        raise PredictionsError(
            f"Some votes are outside the range {ABSTAIN} to {classes - 1}.",
            "Pass the predictions through as_votes first, with the same number of classes.",
        )
    K, Q = votes.shape
    counts = np.zeros((classes, Q), np.int64)
    width = max(1, _BLOCK // max(K, classes))
    for start in range(0, Q, width):
        part = votes[:, start : start + width].astype(np.int64)
        size = part.shape[1]
        # One bin per (vote, sample), abstentions in the first row of bins, which is then dropped.
        part -= ABSTAIN
        part *= size
        part += np.arange(size)
        bins = np.bincount(part.ravel(), minlength=(classes + 1) * size)
        counts[:, start : start + size] = bins.reshape(classes + 1, size)[1:]
    return counts


def _checked_classes(classes: int) -> int:
    if isinstance(classes, bool) or not isinstance(classes, int | np.integer):
        raise TaskError(
            f"The number of classes is of type {type(classes).__name__}.", "It must be a whole number (int)."
        )
    if not 2 <= classes <= _MAX_CLASSES:
        raise TaskError("The number of classes is out of range.", f"Use from 2 to {_MAX_CLASSES} classes.")
    return int(classes)


def is_masked(value: object) -> bool:
    """Whether it is a masked array."""
    # Nobody has one who has not loaded that part of NumPy, and it takes a while.
    return "numpy.ma" in sys.modules and bool(np.ma.isMaskedArray(value))


def _as_array(predictions: object) -> _Numbers:
    rows = predictions if isinstance(predictions, list | tuple) else (predictions,)
    if any(map(is_masked, rows)):
        raise PredictionsError(
            "The predictions are a masked array.", "Replace masked entries with a negative number, which abstains."
        )
    try:
        plain = [_plain(row) for row in rows]
        _check_equal_lengths(plain)
        return np.asarray(plain if rows is predictions else plain[0])
    except (MemoryError, PredictionsError):
        raise
    except Exception as error:  # whatever a foreign __array__ raises
        kind = type(error).__name__
    # Raised out here so that the foreign error, whose text may quote votes, is not chained to ours.
    raise PredictionsError(
        f"The predictions cannot be made into an array ({kind}).",
        "Give every teacher the same number of predictions, as numbers; for a torch tensor pass "
        "tensor.detach().cpu().float().",
    )


def _plain(part: Any) -> Any:  # noqa: ANN401 - whatever a caller has
    """What NumPy can read: tensors without their gradient and device, frames as arrays."""
    if hasattr(part, "detach") and hasattr(part, "cpu"):
        part = part.detach().cpu()
    if hasattr(part, "to_numpy") and not hasattr(part, "__array__"):
        part = part.to_numpy()
    return part


def _check_equal_lengths(rows: list[Any]) -> None:
    lengths: list[int] = []
    for row in rows:
        # 0-d arrays have __len__ and refuse to answer; they are told about their shape later.
        if isinstance(row, str | bytes) or not hasattr(row, "__len__") or getattr(row, "ndim", 1) == 0:
            return
        lengths.append(len(row))
    for teacher, length in enumerate(lengths, 1):
        if length != lengths[0]:
            raise PredictionsError(
                f"Teacher {teacher} of {len(rows)} has {counted(length, 'prediction')}, teacher 1 has {lengths[0]}.",
                "Give one prediction per teacher and sample; a negative class id abstains.",
            )


def _check_shape(array: _Numbers, classes: int) -> None:
    if array.ndim and array.shape[0] == 0:
        raise PredictionsError("There are no teachers in the predictions.", _SHAPES)
    if array.ndim not in (2, 3):
        hint = " For a single teacher wrap them in a list." if array.ndim == 1 else ""
        raise PredictionsError(f"The predictions have {array.ndim} dimension(s).", _SHAPES + hint)
    if array.shape[1] == 0:
        raise PredictionsError("There are no samples in the predictions.", _SHAPES)
    if array.ndim == 3 and array.shape[2] != classes:
        raise PredictionsError(
            f"The predictions have {array.shape[2]} scores per sample but the task has {classes} classes.",
            "Give one score per class, in the order of the class ids.",
        )


def _read_names(array: _Numbers, names: Sequence[str]) -> _Numbers:
    try:
        return ids_of(array, names)
    except PredictionsError:
        raise
    except Exception as error:  # bytes that are no text, objects that have none
        kind = type(error).__name__
    # Raised out here so that the foreign error, whose text may quote votes, is not chained to ours.
    what = f"The predictions are neither names nor numbers ({kind})."
    raise PredictionsError(what, f"The classes are {shown_names(names)}.")


def _check_dtype(array: _Numbers, classes: int) -> None:
    if array.dtype.kind not in "biuf":
        kinds = {"O": "Python objects", "c": "complex numbers", "U": "words, and the classes have no names here"}
        raise PredictionsError(
            f"The predictions are {kinds.get(array.dtype.kind, 'not numbers')} (dtype {array.dtype}).",
            "Give integers, negative to abstain, or real numbers for scores.",
        )
    if array.ndim == 2 and array.dtype.kind == "b" and classes != 2:
        raise PredictionsError(
            f"The predictions are true or false but the task has {classes} classes.",
            "Give the class ids as integers.",
        )


def _vote_by_ids(array: _Numbers, votes: Votes, classes: int) -> None:
    for block in _blocks(array):
        ids = _comparable(array[block])
        if not (_is_whole(ids) & (ids < classes)).all():
            raise _bad_ids(array, classes)
        np.copyto(votes[block], ids, casting="unsafe", where=ids >= 0)


def _vote_by_scores(array: _Numbers, votes: Votes) -> None:
    for block in _blocks(array):
        scores = array[block]
        if not np.isfinite(scores).all():
            position, count = _find(array, _has_infinite)
            raise PredictionsError(
                f"The scores of {position} are not all finite ({_in_all(count)}).",
                "Replace NaN and infinite scores with finite numbers.",
            )
        votes[block] = np.argmax(scores, axis=-1)


def _bad_ids(array: _Numbers, classes: int) -> PredictionsError:
    position, count = _find(array, np.isnan)
    if count:
        return PredictionsError(
            f"The class id of {position} is NaN ({_in_all(count)}).",
            "Use a negative number to abstain.",
        )
    position, count = _find(array, lambda part: ~_is_whole(part))
    if count:
        return PredictionsError(
            f"The class id of {position} is not a whole number ({_in_all(count)}).",
            f"Use whole numbers from 0 to {classes - 1}, or give scores as (teachers, samples, classes).",
        )
    position, count = _find(array, lambda part: part >= classes)
    return PredictionsError(
        f"The class id of {position} is out of range ({_in_all(count)}).",
        f"Use class ids from 0 to {classes - 1}, or a negative number to abstain.",
    )


def _find(array: _Numbers, bad: Callable[[_Numbers], _Mask]) -> tuple[str, int]:
    """The position, in words, of the first (K, Q) entry that is `bad`, and how many there are."""
    first: tuple[int, int] | None = None
    count = 0
    for rows, columns in _blocks(array):
        mask = bad(_comparable(array[rows, columns]))
        found = int(np.count_nonzero(mask))
        if found:
            k, q = divmod(int(mask.argmax()), mask.shape[1])
            here = (rows.start + k, columns.start + q)
            first = here if first is None else min(first, here)
            count += found
    if first is None:
        return "", count
    sample = f"sample {first[1] + 1:,} of {array.shape[1]:,}"
    return (sample if len(array) == 1 else f"teacher {first[0] + 1:,} of {len(array):,}, {sample}"), count


def _in_all(count: int) -> str:
    return f"{count} such in all"


def _is_whole(ids: _Numbers) -> _Mask:
    if ids.dtype.kind != "f":
        return np.ones(ids.shape, np.bool_)
    whole: _Mask = np.isfinite(ids) & (np.floor(ids) == ids)
    return whole


def _has_infinite(scores: _Numbers) -> _Mask:
    mask: _Mask = np.any(~np.isfinite(scores), axis=-1)
    return mask


def _comparable(part: _Numbers) -> _Numbers:
    # A 16-bit float overflows when it is compared with a number of classes beyond its range.
    return part.astype(np.float64) if part.dtype == np.float16 else part


def _blocks(array: _Numbers) -> Iterator[tuple[slice, slice]]:
    K, Q = array.shape[:2]
    depth = math.prod(array.shape[2:])
    width = min(Q, max(1, _BLOCK // depth))
    height = max(1, _BLOCK // (width * depth))
    for k in range(0, K, height):
        for q in range(0, Q, width):
            yield slice(k, k + height), slice(q, q + width)
