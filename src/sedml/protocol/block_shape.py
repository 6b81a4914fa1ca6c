"""The sizes of a block: what both servers derive from the task before they say a word."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sedml.mpc.authenticated.masks import Plan, plan_of
from sedml.mpc.authenticated.outputs import BLINDS, PADDING
from sedml.mpc.ot.fresh_deltas import BASE
from sedml.mpc.ring import Array
from sedml.protocol.task import Block, Task, Widths


@dataclass(frozen=True)
class Shape:
    """Each server garbles the circuits of one half of the samples, and evaluates those of the other."""

    task: Task
    block: Block

    @cached_property
    def plan(self) -> Plan:
        """The circuit."""
        return plan_of(self.task.circuit)

    @property
    def widths(self) -> Widths:
        """Bits of numbers."""
        return self.task.widths

    @property
    def half(self) -> int:
        """Samples that each server garbles."""
        return -(-self.block.samples // 2)

    @property
    def ands(self) -> int:
        """AND gates of both halves."""
        return 2 * self.half * self.plan.ands

    @cached_property
    def size(self) -> int:
        """Leaky ANDs of a bucket."""
        return self.task.bucket_size(self.ands)

    @property
    def planes(self) -> tuple[int, int]:
        """Input bits of one server and sample: its share of the counts, and its noise."""
        return self.task.classes * self.widths.counts, self.task.classes * self.widths.noise

    @property
    def outputs(self) -> int:
        """Output bits of both halves."""
        return 2 * self.half * self.plan.circuit.outputs.size

    @property
    def sections(self) -> tuple[int, ...]:
        """Transfers for: leaky ANDs, masks of ANDs, blinds, inputs as garbler and as evaluator, the second Delta."""
        inputs = sum(self.planes) * self.half
        return 3 * self.size * self.ands, self.ands, BLINDS, inputs, inputs, BASE

    @property
    def second(self) -> int:
        """Bits under the second Delta."""
        return self.outputs + PADDING + BLINDS

    def halves(self, numbers: Array) -> tuple[Array, Array]:
        """Numbers [N, Q] of the samples that S0 garbles, and of those that S1 does; zeros for one that is missing."""
        wide = np.pad(numbers, ((0, 0), (0, 2 * self.half - self.block.samples)))
        return wide[:, : self.half], wide[:, self.half :]
