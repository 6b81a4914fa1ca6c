"""Laws of growth: a fixed part and one that grows, fitted to measured points; rounds and dealt bytes, exactly.

A `Model` puts laws together to say what a job would take that nobody has run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sedml.errors import InputError
from sedml.lab.paper.correlations import corrections_size
from sedml.lab.paper.gadgets.and_tree import RADIX as TREE_RADIX
from sedml.lab.paper.gadgets.carry import carry_rounds
from sedml.lab.paper.gadgets.sign import RADIX as SIGN_RADIX
from sedml.lab.paper.gadgets.sign import digit_sizes
from sedml.lab.paper.lab_block import plan_block
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.semi_honest.gadgets.tournament import levels

__all__ = ["LINKS", "Law", "Link", "Model", "dealt_bytes", "fit", "rounds_of"]


@dataclass(frozen=True)
class Law:
    """y = fixed + each * x, and how far the farthest measured point is from it."""

    fixed: float
    each: float
    worst: float
    """Relative to the point."""
    points: int
    lowest: float
    highest: float
    """The range of x in which points were measured."""

    def at(self, x: float) -> float:
        """y by the law."""
        return self.fixed + self.each * x


def fit(xs: Sequence[float], ys: Sequence[float]) -> Law:
    """The law with the least squares of relative errors, neither part below zero.

    Relative, because points lie orders of magnitude apart and the largest would decide alone.
    """
    x, y = np.asarray(xs, np.float64), np.asarray(ys, np.float64)
    if len(x) < 2 or len(x) != len(y) or np.ptp(x) == 0 or (y <= 0).any():
        raise InputError("A law needs two points or more, at different places and above zero.", "Measure more points.")
    design = np.stack([1 / y, x / y], axis=1)
    fixed, each = (float(value) for value in np.linalg.lstsq(design, np.ones(len(x)), rcond=None)[0])
    # Where the best line would cost less than nothing somewhere, the best of the two that cannot.
    if each < 0:
        fixed, each = _scale(1 / y), 0.0
    elif fixed < 0:
        fixed, each = 0.0, _scale(x / y)
    worst = float(np.abs((fixed + each * x) / y - 1).max())
    return Law(fixed, each, worst, len(x), float(x.min()), float(x.max()))


def rounds_of(task: LabTask) -> int:
    """Rounds of a fused job whose every block has an answer: those of a block, times the blocks."""
    threshold = 1 + carry_rounds(len(digit_sizes(task.widths.threshold)), SIGN_RADIX)
    threshold += carry_rounds(task.classes, TREE_RADIX) + 1
    duel = 2 + carry_rounds(len(digit_sizes(task.widths.label)), SIGN_RADIX)
    return task.block_count * (threshold + duel * len(levels(task.classes)))


def dealt_bytes(task: LabTask) -> int:
    """What the dealer sends S1 for a whole job."""
    sizes = Counter(block.samples for block in task.blocks)
    return sum(times * corrections_size(plan_block(task, samples)) for samples, times in sizes.items())


@dataclass(frozen=True)
class Link:
    """A link between the two servers: its one-way delay and what it carries each way."""

    name: str
    delay: float
    """Seconds."""
    bandwidth: float
    """Bytes per second, each way."""

    @property
    def words(self) -> str:
        """Its name and figures."""
        return f"{self.name}, {self.delay * 1e3:g} ms and {self.bandwidth * 8 / 1e9:g} Gbit/s"


LINKS = (
    Link("one machine", 0.0, 2e9),
    Link("one city", 1e-3, 1.25e9),
    Link("one continent", 20e-3, 125e6),
    Link("across an ocean", 75e-3, 12.5e6),
)


@dataclass(frozen=True)
class Model:
    """Fitted laws of jobs of 10 classes, put together."""

    samples: Law
    """Seconds of a job from counts, over samples."""
    vote: float
    """Seconds that each vote adds."""
    sample_bytes: Law
    vote_bytes: float

    def compute(self, task: LabTask) -> float:
        """Seconds on one machine: a block's fixed part for each, then samples and votes."""
        return _grown(task, self.samples, self.vote)

    def traffic(self, task: LabTask) -> float:
        """Bytes between the servers, both ways."""
        return _grown(task, self.sample_bytes, self.vote_bytes)

    def seconds(self, task: LabTask, link: Link) -> float:
        """Compute, then waiting for every round, then the bytes of one direction."""
        return self.compute(task) + rounds_of(task) * link.delay + self.traffic(task) / 2 / link.bandwidth


def _grown(task: LabTask, law: Law, vote: float) -> float:
    votes = vote * task.teachers * task.samples if task.votes == "onehot" else 0.0
    return task.block_count * law.fixed + law.each * task.samples + votes


def _scale(ratios: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The factor of one term alone that comes nearest to 1 everywhere."""
    return float(ratios.sum() / (ratios * ratios).sum())
