"""Algorithm 1 on shares: one block, as one of the two servers runs it.

`plan_block` says what the dealer must deal, `run_block` runs a server's side: count the votes, check the
threshold, find the labels of the samples that passed. What the two servers learn is `Outcome.consensus`;
`Outcome.labels` are shares for the requester.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.correlations import Correlation
from sedml.gadgets.count import count, plan_count
from sedml.gadgets.onehot import NIBBLE
from sedml.gadgets.refresh import refresh
from sedml.party import Party
from sedml.prg import Seed
from sedml.privacy.noise import sample, server_table
from sedml.protocol import fused, paper
from sedml.ring import Array, Ring
from sedml.task import Task

__all__ = ["PHASES", "DrawnNoise", "Noise", "Outcome", "Phase", "label_ring", "plan_block", "run_block"]

Phase: TypeAlias = Literal["count", "highest", "threshold", "label"]
PHASES: tuple[Phase, ...] = ("count", "highest", "threshold", "label")


class Noise(Protocol):
    """Where a server takes its noise from; a test hands in fixed numbers."""

    def threshold(self, block: int, samples: int) -> Array:
        """g: int[Q], this server's part, added to the highest count."""

    def label(self, block: int, classes: int, samples: int) -> Array:
        """g_i: int[N, A], this server's part, added to the counts of the samples that passed."""


@dataclass(frozen=True)
class DrawnNoise:
    """Discrete Gaussian noise from this server's own secret seed, addressed by block."""

    task: Task
    role: int
    seed: Seed = field(repr=False)

    def threshold(self, block: int, samples: int) -> Array:
        """g ~ N_Z(0, sigma1^2), this server's part."""
        return self._draw(self.task.sigma1, f"{block}/g", (samples,))

    def label(self, block: int, classes: int, samples: int) -> Array:
        """g_i ~ N_Z(0, sigma2^2), this server's part."""
        return self._draw(self.task.sigma2, f"{block}/g_i", (classes, samples))

    def _draw(self, sigma: float, label: str, shape: tuple[int, ...]) -> Array:
        table = server_table(sigma, self.task.noise, self.role)
        if table is None:
            return np.zeros(shape, np.int32)
        return sample(table, self.seed.child(self.task.id.hex()), label, shape)


@dataclass(frozen=True)
class Outcome:
    """A block's result at one server: consensus bool[Q], public, and label shares uint[A] where it is true."""

    consensus: npt.NDArray[np.bool_]
    labels: Array = field(repr=False)


def label_ring(task: Task) -> Ring:
    """The ring of the label shares; the requester adds the two (Alg. 1 line 33)."""
    return Ring(task.index_width if task.protocol == "fused" else task.widths.counts)


def plan_block(task: Task, samples: int) -> dict[str, Correlation]:
    """Every piece of one-use randomness that a block of so many samples takes."""
    pieces: dict[str, Correlation] = {}
    if task.votes == "index":
        pieces |= plan_count("count", task.teachers, task.classes, samples, _count_width(task))
    return pieces | (fused.plan(task, samples) if task.protocol == "fused" else paper.plan(task, samples))


def run_block(party: Party, task: Task, load: Callable[[], Array], noise: Noise, common: Seed) -> Outcome:
    """One server's side of one block.

    `load` reads its shares: of class indices uint[K, Q] for votes="index", of counts uint[N, Q] otherwise.
    `common` is what the two servers agreed on (`gadgets.refresh`); the requester must not know it.
    """
    block = party.correlations.block
    with party.phase("count"):
        counts = load()
        if task.votes == "index":
            counts = count(party, "count", counts, task.classes, _count_width(task))
            counts = Ring(task.widths.counts).reduce(counts)
    samples = counts.shape[-1]
    if task.protocol == "paper":
        with party.phase("highest"):
            n_star = paper.highest_vote(party, task, counts)
        with party.phase("threshold"):
            consensus = paper.threshold_check(party, task, n_star, noise.threshold(block, samples))
    else:
        with party.phase("threshold"):
            consensus = fused.threshold_check(party, task, counts, noise.threshold(block, samples))
    with party.phase("label"):
        passed = int(consensus.sum())
        if passed == 0:
            return Outcome(consensus, np.empty(0, label_ring(task).dtype))
        chosen = counts if passed == samples else counts[:, consensus]
        find = fused.consensus_label if task.protocol == "fused" else paper.consensus_label
        labels = find(party, task, chosen, noise.label(block, task.classes, passed))
        labels = refresh(party.role, common, f"{task.id.hex()}/{block}/labels", labels, label_ring(task))
    return Outcome(consensus, labels)


def _count_width(task: Task) -> int:
    """Counting works with multiples of 16, so it needs a ring of more than 4 bits; the rest reduce it."""
    return max(task.widths.counts, NIBBLE + 1)
