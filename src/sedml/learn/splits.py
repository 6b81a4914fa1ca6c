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

Indices: TypeAlias = npt.NDArray[np.int64]
SplitKind = Literal["even", "skewed"]

_ALPHA = 1e-3, 1e6  # beyond these, a Dirichlet draw is as good as one teacher with everything, or as an even split


def split_teachers(
    labels: npt.ArrayLike,
    teachers: int,
    kind: SplitKind = "even",
    *,
    alpha: float = 1.0,
    seed: int = 0,
) -> tuple[Indices, ...]:
    """Positions in `labels` for each of the K teachers: every sample goes to one, every teacher gets at least one.

    - 'even': at random, in sizes that differ by at most one, as in the paper.
    - 'skewed': every class is dealt out by a Dirichlet distribution of its own. At an `alpha` of 0.1 most teachers see
      few classes; at 100 it is nearly even.
    """
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        what = f"Labels of shape {array.shape} and type {array.dtype} were given."
        raise InputError(what, "Give one whole number per sample.")
    if not isinstance(teachers, int) or isinstance(teachers, bool) or not 1 <= teachers <= array.size:
        raise InputError(
            f"There are {teachers} teachers but {array.size} training samples.",
            "Use a whole number of teachers, each of which needs at least one sample.",
        )
    if kind not in get_args(SplitKind):
        raise InputError(f"There is no split {kind!r}.", f"Use one of {', '.join(get_args(SplitKind))}.")
    if not _is_real(alpha) or not _ALPHA[0] <= alpha <= _ALPHA[1]:
        raise InputError(f"An alpha of {alpha} was given.", "Use a number from 0.001 to 1,000,000.")
    rng = np.random.default_rng(seed)
    if kind == "skewed":
        return _skewed(array, teachers, alpha, rng)
    sizes = (array.size + np.arange(teachers)) // teachers
    return tuple(np.split(rng.permutation(array.size), np.cumsum(sizes)[:-1]))


def split_public(samples: int, public: float = 0.5, *, seed: int = 0) -> tuple[Indices, Indices]:
    """Positions of the public unlabelled part and of the student's test part, which get all samples between them.

    `public` is a fraction between 0 and 1, or a count; neither part may be empty.
    """
    size = 0
    if _is_real(public):
        if isinstance(public, float) and public <= 1:
            size = round(public * samples)
        elif public == int(public):
            size = int(public)
    if not 0 < size < samples:
        raise InputError(
            f"{public} is not a public part of {samples} samples.",
            f"Give a count from 1 to {samples - 1}, or a fraction between 0 and 1 that leaves neither part empty.",
        )
    order = np.random.default_rng(seed).permutation(samples)
    return order[:size], order[size:]


def _skewed(labels: npt.NDArray[Any], K: int, alpha: float, rng: np.random.Generator) -> tuple[Indices, ...]:
    owner = np.empty(labels.size, np.int64)
    for i in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == i))
        shares = rng.dirichlet(np.full(K, alpha))
        owner[members] = np.repeat(np.arange(K), rng.multinomial(members.size, shares))
    sizes = np.bincount(owner, minlength=K)
    for k in np.flatnonzero(sizes == 0):
        richest = int(sizes.argmax())
        owner[rng.choice(np.flatnonzero(owner == richest))] = k
        sizes[richest] -= 1
        sizes[k] += 1
    order = np.argsort(owner, kind="stable")
    return tuple(np.split(order, np.cumsum(sizes)[:-1]))


def _is_real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
