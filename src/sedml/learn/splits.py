"""Who gets which samples: private parts for the teachers, the public part and the student's test part.

All splits are disjoint and use every sample. They are drawn from a seeded NumPy generator, so that an experiment can be
repeated: which sample went where is not a secret.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from sedml.errors import InputError

__all__ = ["Indices", "SplitKind", "split_public", "split_teachers"]

Indices: TypeAlias = npt.NDArray[np.int64]
SplitKind = Literal["even", "skewed"]

_Weights: TypeAlias = npt.NDArray[np.float64]
_ALPHA = 1e-3, 1e6  # beyond these, a Dirichlet draw is as good as one teacher with everything, or as an even split


def split_teachers(
    labels: npt.ArrayLike,
    teachers: int,
    kind: SplitKind = "even",
    *,
    alpha: float = 1.0,
    classes: int | None = None,
    seed: int = 0,
) -> tuple[Indices, ...]:
    """Positions in `labels` for each of the K teachers: every sample goes to one, every teacher gets at least one.

    - 'even': at random, in sizes that differ by at most one, as in the paper.
    - 'skewed': every class is dealt out by a Dirichlet distribution of its own. At an `alpha` of 0.1 most teachers see
      few classes; at 100 it is nearly even.

    With `classes`, a class without a single sample is refused: no teacher could ever vote for it.
    """
    array = _checked_labels(labels, classes)
    K = _checked_count(teachers, "teachers")
    if array.size < K:
        raise InputError(
            f"There are {K} teachers but {array.size} training samples.",
            "Use fewer teachers or more data: every teacher needs at least one sample.",
        )
    if kind not in get_args(SplitKind):
        raise InputError(f"There is no split {kind!r}.", f"Use one of {', '.join(get_args(SplitKind))}.")
    if not _is_real(alpha) or not _ALPHA[0] <= alpha <= _ALPHA[1]:
        raise InputError(f"An alpha of {alpha} was given.", "Use a number from 0.001 to 1,000,000.")
    rng = np.random.default_rng(seed)
    if kind == "skewed":
        return _skewed(array, K, alpha, rng)
    sizes = (array.size + np.arange(K)) // K
    return tuple(np.split(rng.permutation(array.size), np.cumsum(sizes)[:-1]))


def split_public(samples: int, public: float = 0.5, *, seed: int = 0) -> tuple[Indices, Indices]:
    """Positions of the public unlabelled part and of the student's test part, which get all samples between them.

    `public` is a count (int) or a fraction (float) of the samples; neither part may be empty.
    """
    count = _checked_count(samples, "samples")
    if isinstance(public, int | np.integer) and not isinstance(public, bool):
        size = int(public)
    elif _is_real(public) and 0 < public < 1:
        size = round(float(public) * count)
    else:
        size = 0
    if not 0 < size < count:
        raise InputError(
            f"{public} is not a public part of {count} samples.",
            f"Give a count from 1 to {count - 1}, or a fraction between 0 and 1 that leaves neither part empty.",
        )
    order = np.random.default_rng(seed).permutation(count)
    return order[:size], order[size:]


def _skewed(labels: npt.NDArray[Any], K: int, alpha: float, rng: np.random.Generator) -> tuple[Indices, ...]:
    owner = np.empty(labels.size, np.int64)
    for i in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == i))
        shares = _apportion(members.size, rng.dirichlet(np.full(K, alpha)))
        owner[members] = np.repeat(np.arange(K), shares)
    sizes = np.bincount(owner, minlength=K)
    for k in np.flatnonzero(sizes == 0):
        richest = int(sizes.argmax())
        owner[rng.choice(np.flatnonzero(owner == richest))] = k
        sizes[richest] -= 1
        sizes[k] += 1
    order = np.argsort(owner, kind="stable")
    return tuple(np.split(order, np.cumsum(sizes)[:-1]))


def _apportion(total: int, weights: _Weights) -> Indices:
    """Whole numbers of that total in proportion to the weights, by largest remainder."""
    exact = total * weights / weights.sum()
    sizes: Indices = np.floor(exact).astype(np.int64)
    # Rounding may leave the sum one above the total, too.
    order = np.argsort(exact - sizes, kind="stable")
    short = total - int(sizes.sum())
    if short > 0:
        sizes[order[::-1][:short]] += 1
    elif short < 0:
        sizes[np.argmax(sizes)] += short
    return sizes


def _checked_labels(labels: npt.ArrayLike, classes: int | None) -> npt.NDArray[Any]:
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        what = f"Labels of shape {array.shape} and type {array.dtype} were given."
        raise InputError(what, "Give one whole number per sample.")
    if array.size and array.min() < 0:
        raise InputError("Some training samples have no label.", "Train teachers on labelled samples only.")
    if classes is not None:
        N = _checked_count(classes, "classes")
        if array.size and array.max() >= N:
            raise InputError(f"Some labels are above the {N} classes.", f"Use class ids from 0 to {N - 1}.")
        missing = np.flatnonzero(np.bincount(array, minlength=N) == 0)
        if missing.size:
            few = ", ".join(map(str, missing[:10].tolist())) + (", ..." if missing.size > 10 else "")
            raise InputError(
                f"There is no sample of class {few}.",
                "Add samples of it, or leave the class out and number the classes from 0 without gaps.",
            )
    return array


def _checked_count(value: int, what: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise InputError(f"The number of {what} is {value!r}.", "It must be a whole number, at least 1.")
    return int(value)


def _is_real(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value)
