"""Which public samples to ask the teachers about.

Every query costs privacy, whatever comes back. Samples from the middle of the data's natural clusters find a consensus
more often than random ones, and together they show the student every kind there is. The choice looks at public data
only.

Pixels tell kinds apart poorly. A hundred of 9,000 images of MNIST are sevens with a bar, and in 13 tries of 16 none of
them was among 129 queries chosen so; a student may then take them all for twos. A student of a first round of labels
sees that kind as one cluster, whatever it takes it for: choose a second round by its features
(`student_cnn.features`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sedml.errors import InputError

__all__ = ["choose_queries"]

_ROUNDS = 25


def _distances(points: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.float32]:
    """Squared distances [points, centres], less a constant for each point."""
    return np.asarray((centres * centres).sum(1) - 2.0 * (points @ centres.T), np.float32)


def choose_queries(
    samples: NDArray[Any], count: int, *, asked: NDArray[np.int64] | None = None, seed: int = 0
) -> NDArray[np.int64]:
    """The samples nearest to the centres of `count` clusters (k-means), in random order, int64[count].

    Samples are images or features, [Q, ...]; those `asked` about before are left out.
    """
    points = np.asarray(samples, np.float32).reshape(len(samples), -1)
    if asked is not None and len(asked):
        if not np.issubdtype(asked.dtype, np.integer) or not 0 <= asked.min() <= asked.max() < len(points):
            what = "What was asked about before is not given by the numbers of samples."
            raise InputError(what, f"Pass whole numbers from 0 to {len(points) - 1}.")
        free = np.setdiff1d(np.arange(len(points)), asked)
        return free[choose_queries(points[free], count, seed=seed)]
    if not 1 <= count <= len(points):
        what = f"{count} queries cannot be chosen from {len(points)} samples."
        raise InputError(what, f"Ask for 1 to {len(points)}.")
    rng = np.random.default_rng(seed)
    points = points - points.mean(0)
    centres = points[rng.choice(len(points), count, replace=False)]
    for _ in range(_ROUNDS):
        nearest = _distances(points, centres).argmin(1)
        belongs = (nearest == np.arange(count)[:, None]).astype(np.float32)
        sizes, sums = belongs.sum(1), belongs @ points
        # A cluster that lost all its points starts again from a random one.
        centres = np.where(
            sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], points[rng.integers(len(points), size=count)]
        ).astype(np.float32)
    gaps = _distances(points, centres)
    chosen: list[int] = []
    for centre in rng.permutation(count):
        # Two centres may have the same nearest sample: each sample is asked about once.
        gaps[chosen[-1:], :] = np.inf
        chosen.append(int(gaps[:, centre].argmin()))
    return np.array(chosen, np.int64)
