"""What teachers' votes are worth: how many labels, and how many right ones, some terms are expected to bring.

**What is assumed of the teachers.** A public sample of votes (`public_votes`), or `agreement_model`: on a
sample every teacher is right with probability p, independently of the others, p ~ Beta(a, b) over the
samples with a + b = 3 and the mean that is given; half of the wrong votes go to one rival class, the other
half to all wrong classes evenly. (The votes published with PATE 2018 have means of 0.70 and 0.83, a + b of
6.6 and 0.7, and 40% and 70% of the wrong votes on the largest wrong class.) A share of the votes may abstain; the
mean is then that of the votes cast.

**Organisations and votes.** K organisations with m votes each have at most K m votes on a class. The model takes the
votes of one organisation, of models for disjoint parts of its data, to be as good and as independent as those of so
many organisations. Where each of them knows only some classes, they are not: then a public sample says more.

Noise is taken as continuous, with half a vote of correction at the threshold T. A sample has a label if its highest
noisy count is at least T: with probability 1 - Π_i Φ((T - ½ - n_i)/σ). It is right with probability
∫ φ(z) Π_j Φ(z + (n_right - n_j)/σ) dz over z from (T - ½ - n_right)/σ on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import PredictionsError, TaskError
from sedml.privacy.unit import MAX_VOTES

Floats: TypeAlias = npt.NDArray[np.float64]

MEAN_AGREEMENT = 0.75

_CONCENTRATION = 3.0
_RIVAL = 0.5
_ROWS, _FEW_ROWS = 1024, 256
_DRAWS = 4  # of wrong votes, at least, for each number of right ones
_RIVALS = 16  # wrong classes taken one by one; any others at their mean
_NODES = 49  # of the integral for each row
_FAR = 6.0  # no noise is so many sigmas high
_FARTHEST, _PER_SIGMA = 8, 250  # of the table of Φ
_MOST_TEACHERS, _MOST_CLASSES = 10**6, 10**4


@dataclass(frozen=True, eq=False)
class VoteSample:
    """Vote counts by which a plan is judged: rows with weights that sum to 1, rivals in falling order."""

    source: str
    teachers: int
    """Organisations, each of which casts one ballot."""
    votes: int
    """Of each of them, on every sample."""
    classes: int
    weights: Floats = field(repr=False)
    right: Floats = field(repr=False)
    """Votes for the right class."""
    rivals: Floats = field(repr=False)
    """Votes for the largest wrong classes."""
    others: Floats = field(repr=False)
    """Mean votes for each wrong class not among them."""
    again: Callable[[int, int], VoteSample] = field(repr=False)
    """The same for other numbers of organisations and votes of each, in fewer rows."""

    @property
    def most_votes(self) -> int:
        """The largest count that there can be."""
        return self.teachers * self.votes

    @property
    def least_threshold(self) -> int:
        """One vote is no consensus, nor are all votes of one organisation among several."""
        return 1 + (self.votes if self.teachers > 1 else 1)

    @property
    def more(self) -> int:
        """How many wrong classes are not among the rivals."""
        return self.classes - 1 - int(self.rivals.shape[1])


@dataclass(frozen=True)
class Utility:
    """What asking some samples at these terms is expected to bring."""

    epsilon: float
    """As charged."""
    asked: int
    threshold: int
    sigma: float
    answered: float
    right: float

    @property
    def accuracy(self) -> float:
        """The share of right ones among the labels."""
        return self.right / self.answered if self.answered else 0.0


def agreement_model(
    teachers: int,
    classes: int,
    mean: float = MEAN_AGREEMENT,
    *,
    votes: int = 1,
    abstain: float = 0.0,
    rows: int = _ROWS,
) -> VoteSample:
    """Votes that are right with probability `mean` on average (law: see the module), if they are cast.

    votes: how many each teacher has. abstain: the share of them that abstains on a sample. rows: about so many.
    """
    check_range(
        teachers=(teachers, 1, _MOST_TEACHERS), classes=(classes, 2, _MOST_CLASSES), votes=(votes, 1, MAX_VOTES)
    )
    check_range(**{"votes of all teachers": (teachers * votes, 1, _MOST_TEACHERS)})
    if not 0.0 < mean < 1.0:
        raise TaskError(f"A mean agreement of {mean} was given.", "Use a number above 0 and below 1, such as 0.75.")
    if not 0.0 <= abstain < 1.0:
        raise TaskError(
            f"The share of votes that abstain is {abstain}.", "Use a number from 0 to below 1, such as 0.2."
        )
    number = max(1, round(teachers * votes * (1.0 - abstain)))
    a, b = _CONCENTRATION * mean, _CONCENTRATION * (1.0 - mean)
    # The number n of right votes is beta-binomial: p(n+1)/p(n) = (K - n)(n + a) / ((n + 1)(K - n - 1 + b)).
    n = np.arange(number, dtype=np.float64)
    log_p = np.cumsum(np.log((number - n) * (n + a) / ((n + 1.0) * (number - n - 1.0 + b))))
    p = np.exp(np.append(0.0, log_p) - max(0.0, log_p.max()))
    nodes = np.unique(np.rint(np.linspace(0, number, rows // _DRAWS)).astype(np.int64))
    nearest = np.rint(np.interp(np.arange(number + 1), nodes, np.arange(nodes.size))).astype(np.int64)
    draws = max(_DRAWS, rows // nodes.size)
    own = np.repeat(nodes, draws)
    share = np.full(classes - 1, (1.0 - _RIVAL) / (classes - 1))
    share[0] += _RIVAL
    counts = np.column_stack([own, np.random.default_rng(0).multinomial(number - own, share)])
    weights = np.repeat(np.bincount(nearest, p) / (p.sum() * draws), draws)
    source = f"model: a vote is right with probability {mean:g} on average"
    source += f", and {abstain:.0%} of the votes abstain" if abstain else ""

    def again(teachers: int, votes: int) -> VoteSample:
        return agreement_model(teachers, classes, mean, votes=votes, abstain=abstain, rows=_FEW_ROWS)

    return _vote_sample(
        source, (teachers, votes), counts.astype(np.float64), np.zeros(own.size, np.int64), weights, again
    )


def public_votes(
    counts: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    teachers: int | None = None,
    *,
    votes: int = 1,
    voters: int | None = None,
    rows: int = _ROWS,
) -> VoteSample:
    """Votes that anyone may see, as counts of shape (samples, classes); without labels the plurality is right.

    voters: how many votes there could be on a sample, if some abstain on every one. For other numbers of teachers and
    of `votes` of each, the shares of the votes are kept, and of those that abstain. Of many samples about so many
    `rows` are looked at, picked evenly in the order of how clear they are.
    """
    table = np.asarray(counts)
    if table.ndim != 2 or not table.size or table.shape[1] < 2 or table.dtype.kind not in "iu" or table.min() < 0:
        raise PredictionsError(
            f"Vote counts of shape {table.shape} and type {table.dtype} cannot be used.",
            "Pass whole numbers that are not negative, one row per sample and one column per class.",
        )
    right = table.argmax(axis=1) if labels is None else np.asarray(labels)
    if right.shape != table.shape[:1] or right.dtype.kind not in "iu":
        raise PredictionsError("The labels do not fit the public votes.", "Give one class id per sample.")
    if right.min() < 0 or right.max() >= table.shape[1]:
        raise PredictionsError("Some labels are out of range.", f"Use class ids from 0 to {table.shape[1] - 1}.")
    voted = max(1, int(table.sum(axis=1).max()), voters or 0)
    check_range(votes=(votes, 1, MAX_VOTES))
    if teachers is None:
        teachers = max(1, round(voted / votes))
    check_range(teachers=(teachers, 1, _MOST_TEACHERS * MAX_VOTES))
    truth = right.astype(np.int64)
    wide = table.astype(np.float64) * (teachers * votes / voted)
    order = np.lexsort((wide.max(axis=1), np.take_along_axis(wide, truth[:, np.newaxis], axis=1)[:, 0]))
    kept = order[np.linspace(0, order.size, min(rows, order.size), endpoint=False).astype(np.int64)]
    source = f"{voted:,} public votes on {len(table):,} samples, right is "
    source += "the plurality" if labels is None else "the true label"

    def again(teachers: int, votes: int) -> VoteSample:
        return public_votes(table, labels, teachers, votes=votes, voters=voted, rows=_FEW_ROWS)

    weights = np.full(kept.size, 1 / kept.size)
    return _vote_sample(source, (teachers, votes), wide[kept], truth[kept], weights, again)


def _vote_sample(
    source: str,
    numbers: tuple[int, int],
    counts: Floats,
    right: npt.NDArray[np.int64],
    weights: Floats,
    again: Callable[[int, int], VoteSample],
) -> VoteSample:
    own = np.take_along_axis(counts, right[:, np.newaxis], axis=1)[:, 0]
    wrong = counts.copy()
    np.put_along_axis(wrong, right[:, np.newaxis], -1.0, axis=1)
    wrong = np.sort(wrong, axis=1)[:, :0:-1]
    others = wrong[:, _RIVALS:].sum(axis=1) / max(1, wrong.shape[1] - _RIVALS)
    return VoteSample(source, *numbers, counts.shape[1], weights, own, wrong[:, :_RIVALS], others, again)


def utility(votes: VoteSample, asked: int, threshold: int, sigma: float, epsilon: float) -> Utility:
    """What a job at these terms is expected to bring; `epsilon` is only noted."""
    low = ((threshold - 0.5 - votes.right) / sigma).clip(-_FAR)
    step = (np.maximum(_FAR, low + 3.0) - low) / (_NODES - 1)
    right = np.zeros(votes.right.size)
    simpson = [1.0, *[4.0, 2.0] * ((_NODES - 3) // 2), 4.0, 1.0]
    for node, weight in enumerate(simpson):
        z = low + node * step
        right += weight / 3.0 * np.exp(-0.5 * z * z) * wins_with(votes, sigma, z)
    answered = votes.weights @ labelled(votes, sigma, threshold)
    right *= step / math.sqrt(2.0 * math.pi)
    return Utility(epsilon, asked, threshold, sigma, asked * float(answered), asked * float(votes.weights @ right))


def labelled(votes: VoteSample, sigma: float, threshold: float) -> Floats:
    """The probability, per row, that some noisy count reaches the threshold."""
    at = threshold - 0.5
    below = ndtr((at - votes.right) / sigma) * ndtr((at - votes.rivals) / sigma).prod(axis=1)
    none: Floats = below * ndtr((at - votes.others) / sigma) ** votes.more if votes.more else below
    return 1.0 - none


def wins_with(votes: VoteSample, sigma: float, z: Floats | float) -> Floats:
    """The probability, per row, that the right class wins if its noise is z sigmas."""
    ahead = z + votes.right / sigma
    wins: Floats = ndtr(ahead[:, np.newaxis] - votes.rivals / sigma).prod(axis=1)
    return wins * ndtr(ahead - votes.others / sigma) ** votes.more if votes.more else wins


def ndtr(x: Floats) -> Floats:
    """Φ(x), from a table."""
    place = (x * _PER_SIGMA + _FARTHEST * _PER_SIGMA).clip(0.0, 2 * _FARTHEST * _PER_SIGMA - 1e-6)
    index = place.astype(np.intp)
    values, rises = _ndtr_table()
    found: Floats = values[index] + (place - index) * rises[index]
    return found


@lru_cache(maxsize=1)
def _ndtr_table() -> tuple[Floats, Floats]:
    x = np.arange(2 * _FARTHEST * _PER_SIGMA + 1) / _PER_SIGMA - _FARTHEST
    values = np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in x.tolist()])
    return values[:-1], np.diff(values)


def check_range(**values: tuple[int, int, int]) -> None:
    """Raise unless each (value, least, most) is in order."""
    for name, (value, least, most) in values.items():
        if not least <= value <= most:
            raise TaskError(f"The number of {name} is {value}.", f"Use {least} to {most:,}.")
