"""Which public samples to ask the teachers about.

Every question costs privacy, whatever comes back. So each is about the middle of a cluster, where teachers agree, and
no two are about the same one; clusters are those of the graph of neighbours. A small kind may still be missed: a
hundred of 9,000 images of MNIST are sevens with a bar, and a student who has never been told may take all of them for
twos. That shows when labels spread: two classes reach such a kind from either side. A second round of questions is
about the samples that are least sure so. The choice looks at public samples and at labels that are paid for, and at
nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sedml.errors import InputError, counted
from sedml.learn.neighbours import Neighbours, directions

_MORE = 2  # coordinates beyond one for each class
_UNSURE = 0.2  # the share of samples that a second round is about
_TRIES, _ROUNDS = 3, 20  # of k-means


class Questions:
    """What to ask about samples, given by their features [S, ...]; the same for the same seed and answers."""

    def __init__(self, features: NDArray[Any], classes: int, *, seed: int = 0) -> None:
        self.points = directions(np.asarray(features).reshape(len(features), -1))
        self.classes, self.rng = classes, np.random.default_rng(seed)
        self.graph = Neighbours(self.points)
        self.asked = np.empty(0, np.int64)
        self.labels = np.empty(0, np.int64)

    def choose(self, count: int) -> NDArray[np.int64]:
        """The numbers of samples to ask about next, int64[count]; after the first round, the least sure ones."""
        free = np.setdiff1d(np.arange(len(self.points)), self.asked)
        if not 1 <= count <= len(free):
            what = f"{count} questions cannot be asked about {counted(len(free), 'sample')}."
            raise InputError(what, f"Ask 1 to {len(free)}.")
        if (self.labels >= 0).any():
            best = np.sort(self.graph.spread(self.asked, self.labels, self.classes), 1)
            doubt = (best[:, -2] - best[:, -1])[free]
            some = free[np.argsort(-doubt, kind="stable")[: max(count, round(_UNSURE * len(free)))]]
            return some[_middles(self.points[some], self.points[some], count, self.rng)]
        seen = self.graph.coordinates(max(self.classes + _MORE, count // 2))
        return free[_middles(seen[free], self.points[free], count, self.rng)]

    def told(self, asked: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
        """The labels that came back, -1 for none."""
        self.asked = np.concatenate([self.asked, asked])
        self.labels = np.concatenate([self.labels, labels])

    def shares(self) -> NDArray[np.float32]:
        """How frequent the classes seem to be: every sample counts for the label that reaches it first, [classes]."""
        known = self.labels >= 0
        reached = self.graph.spread(self.asked[known], np.arange(known.sum()), int(known.sum())).argmax(1)
        counts = np.bincount(self.labels[known][reached], minlength=self.classes)
        return np.asarray((counts + 1) / (counts + 1).sum(), np.float32)


def _distances(points: NDArray[np.float32], centres: NDArray[np.float32]) -> NDArray[np.float32]:
    """Squared distances [points, centres], less a constant for each point."""
    return np.asarray((centres * centres).sum(1) - 2 * (points @ centres.T), np.float32)


def _middles(
    seen: NDArray[np.float32], points: NDArray[np.float32], count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """For each of `count` clusters in `seen` the sample that is nearest to its mean in `points`, largest first."""
    belongs = min((_clusters(seen, count, rng) for _ in range(_TRIES)), key=lambda found: found[0])[1]
    chosen = []
    for cluster in np.argsort(-np.bincount(belongs, minlength=count), kind="stable"):
        own = np.flatnonzero(belongs == cluster)
        if len(own):
            chosen.append(own[_distances(points[own], points[own].mean(0, keepdims=True)).argmin()])
    rest = np.setdiff1d(np.arange(len(seen)), chosen)  # where samples are alike, there are fewer clusters
    return np.concatenate([chosen, rng.permutation(rest)[: count - len(chosen)]]).astype(np.int64)


def _clusters(seen: NDArray[np.float32], count: int, rng: np.random.Generator) -> tuple[float, NDArray[np.int64]]:
    """K-means from centres drawn far apart (Arthur and Vassilvitskii 2007): its cost, and each sample's cluster."""
    squares = (seen * seen).sum(1)
    centres = seen[[rng.integers(len(seen))]]
    far = np.maximum(squares + _distances(seen, centres)[:, 0], 0)
    for _ in range(count - 1):
        total = far.sum(dtype=np.float64)
        chance = far / total if total > 0 else None
        centres = np.concatenate([centres, seen[[rng.choice(len(seen), p=chance)]]])
        far = np.minimum(far, np.maximum(squares + _distances(seen, centres[-1:])[:, 0], 0))
    for _ in range(_ROUNDS):
        gaps = _distances(seen, centres)
        belongs = gaps.argmin(1)
        member = (belongs == np.arange(count)[:, None]).astype(np.float32)
        sizes = member.sum(1, keepdims=True)
        centres = np.where(sizes > 0, member @ seen / np.maximum(sizes, 1), centres)
    return float((squares + gaps.min(1)).sum()), belongs
