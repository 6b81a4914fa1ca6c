"""The dealer: seeds for both servers, corrections for S1, block by block; and a server's use of what it was dealt."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sedml.errors import CorrelationError
from sedml.lab.paper.correlations import Correlations, deal
from sedml.lab.paper.lab_block import plan_block
from sedml.lab.paper.lab_task import LabTask
from sedml.mpc.prg import Seed
from sedml.protocol.task import Block

__all__ = ["Seeds", "deal_block", "dealt_correlations"]


@dataclass(frozen=True)
class Seeds:
    """The dealer's seeds for the two servers, bound to a task by `Seeds.of`."""

    s0: Seed = field(repr=False)
    s1: Seed = field(repr=False)

    def __post_init__(self) -> None:
        if self.s0 == self.s1:
            raise CorrelationError("Both servers would get the same seed.", "Draw a seed for each of them.")

    @classmethod
    def of(cls, task: LabTask, s0: Seed | None = None, s1: Seed | None = None) -> Seeds:
        """Fresh seeds, or given ones, for this task only."""
        label = "correlations/" + task.id.hex()
        return cls((s0 or Seed.random()).child(label), (s1 or Seed.random()).child(label))


def deal_block(task: LabTask, block: Block, seeds: Seeds) -> npt.NDArray[np.uint8]:
    """The corrections that S1 needs for a block; the same seeds deal the same ones."""
    return deal(plan_block(task, block.samples), block.index, seeds.s0, seeds.s1)


def dealt_correlations(
    task: LabTask, block: Block, seed: Seed, corrections: npt.NDArray[np.uint8] | None
) -> Correlations:
    """One server's correlations for a block, from its own seed; `corrections` are S1's, and None for S0."""
    return Correlations(plan_block(task, block.samples), block.index, seed, corrections)
