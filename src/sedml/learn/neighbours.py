"""The graph of nearest neighbours among samples: coordinates in which its parts lie apart, and labels that spread.

Two samples of one kind may look quite different and still be joined by a chain of small steps. So kinds that overlap as
clouds of points come apart in the graph's eigenvectors (Ng, Jordan and Weiss 2001), and a label that moves along its
edges (Zhou et al. 2003) stays within its kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sedml.errors import InputError
from sedml.extras import explain_missing

with explain_missing():
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import eigsh

_AT_ONCE = 2048  # rows of likenesses
_FAINT = 0.01  # the weight of an edge that keeps the graph in one piece
_FAR, _MOVES = 0.99, 150  # the share of its neighbours in a sample's label, and how often labels move


def directions(features: NDArray[Any]) -> NDArray[np.float32]:
    """Every row at length 1."""
    rows = np.asarray(features, np.float32)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), np.float32)


class Neighbours:
    """Samples [S, features], each joined to the `count` most like it; likeness is the cosine of the angle."""

    def __init__(self, features: NDArray[Any], count: int = 12) -> None:
        points = directions(features)
        size = len(points)
        if size < 3 or not np.isfinite(points).all():
            raise InputError(
                f"{size} samples were given, or some with features that are not finite.",
                "Give three samples or more, and fill in what is missing.",
            )
        count = min(count, size - 1)
        others, gaps = np.empty((size, count), np.int64), np.empty((size, count), np.float32)
        for start in range(0, size, _AT_ONCE):
            rows = np.arange(start, min(start + _AT_ONCE, size))
            likeness = points[rows] @ points.T
            likeness[rows - start, rows] = -np.inf
            nearest = np.argpartition(likeness, -count, 1)[:, -count:]
            others[rows], gaps[rows] = nearest, 1 - np.take_along_axis(likeness, nearest, 1)
        weights = np.exp(-2 * gaps / np.maximum(gaps.max(1, keepdims=True), np.float32(1e-3)))
        towards = csr_array((weights.ravel(), (np.repeat(np.arange(size), count), others.ravel())), shape=(size, size))
        either = towards.maximum(towards.T)
        if connected_components(either, directed=False, return_labels=False) > 1:
            # Islands have one eigenvalue in common, and a search for eigenvectors may find one of them only: so there
            # are faint ways from each sample to some other.
            away = np.random.default_rng(1).permutation(size)
            ways = csr_array((np.full(size, _FAINT, np.float32), (np.arange(size), away)), shape=(size, size))
            either = either.maximum(ways).maximum(ways.T)
        root = np.sqrt(either.sum(1))
        self.matrix = either.multiply(1 / root[:, None]).multiply(1 / root[None, :]).tocsr()

    def coordinates(self, count: int) -> NDArray[np.float32]:
        """Every sample's direction among the `count` eigenvectors that change most slowly, float32[S, count]."""
        size = self.matrix.shape[0]
        start = np.random.default_rng(1).random(size).astype(np.float32)
        return directions(eigsh(self.matrix, k=min(count, size - 1), which="LA", v0=start)[1])

    def spread(self, asked: NDArray[np.int64], labels: NDArray[np.int64], classes: int) -> NDArray[np.float32]:
        """What reaches each sample of each class from those that have a label (-1: none): shares, [S, classes]."""
        start = np.zeros((self.matrix.shape[0], classes), np.float32)
        known = labels >= 0
        start[asked[known], labels[known]] = 1
        start /= np.maximum(start.sum(0), 1)
        heat = start.copy()
        for _ in range(_MOVES):
            heat = np.float32(_FAR) * (self.matrix @ heat) + np.float32(1 - _FAR) * start
        heat /= np.maximum(heat.sum(0), np.float32(1e-12))
        shares: NDArray[np.float32] = heat / np.maximum(heat.sum(1, keepdims=True), np.float32(1e-12))
        return shares
