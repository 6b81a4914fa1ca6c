"""What a job costs on any machine: rounds, bytes, opened bits, gates and dealt bits, exactly.

Times move with the machine and the hour; these do not, so a change of the protocol shows here first. In the
paper's tasks every sample passes the threshold and no noise is added, which is the most that they can cost.
`benchmarks/counts.json` keeps them; `python benchmarks/figures.py --counts-only` writes it again.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from sedml.errors import ShareError
from sedml.lab.bench.protocol import bench_protocol
from sedml.lab.bench.workload import random_counts, random_votes
from sedml.lab.paper import three_phases
from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.gadgets.carry import Ands
from sedml.lab.paper.lab_run import Loader, counts_loaders, run_job, vote_loaders
from sedml.lab.paper.two_noise_task import RING_BITS
from sedml.lab.paper.two_noise_task import Task as LabTask
from sedml.mpc.channel.frame import HEADER_SIZE
from sedml.mpc.ring import Array
from sedml.protocol.task import Task

__all__ = ["PROTOCOL_TASKS", "TASKS", "count_costs", "count_protocol", "count_tasks"]

_COUNTS = LabTask(10, 1000, 250, 150, 40.0, 40.0)
TASKS: dict[str, LabTask] = {
    "paper, 1,000 x 10 counts": _COUNTS,
    "paper, 1,000 x 10 one-hot votes of 250 teachers": replace(_COUNTS, votes="onehot"),
}
"""The tasks that are watched."""

PROTOCOL_TASKS: dict[str, Task] = {
    f"authenticated, {samples:,} x {classes} counts": Task(classes, samples, 250, 150, 40.0)
    for samples, classes in ((1000, 10), (33, 10), (100, 100), (20, 1000))
}
"""Of what a deployment runs: no vote and no noise changes its counts."""


def count_tasks() -> dict[str, dict[str, Any]]:
    """The counts of every task that is watched, by name."""
    deployed = {name: count_protocol(task) for name, task in PROTOCOL_TASKS.items()}
    return deployed | {name: count_costs(task) for name, task in TASKS.items()}


def count_protocol(task: Task) -> dict[str, Any]:
    """Run a task between two threads, and count: bytes are those of both directions together."""
    report = bench_protocol(task, transport="memory")
    return {
        "ands": report.ands,
        "bucket": report.bucket,
        "rounds": {stage: cost.rounds for stage, cost in report.stages.items()},
        "bytes": {stage: cost.bytes for stage, cost in report.stages.items()},
    }


class NoNoise:
    """None at all, so that what is counted depends on the terms alone."""

    def threshold(self, _block: int, samples: int) -> Array:
        return np.zeros(samples, np.int32)

    def label(self, _block: int, classes: int, samples: int) -> Array:
        return np.zeros((classes, samples), np.int32)


def count_costs(task: LabTask) -> dict[str, Any]:
    """Run a task on votes that all pass, and count.

    `opened_bits` is what each server sends in a phase, frame headers left out. `gates` is how many values each kind of
    gadget computes, and `dealt_bits` what S1 is sent for them.
    """
    labels, side = run_job(task, _unanimous(task), (NoNoise(), NoNoise()))
    if (labels < 0).any():
        raise ShareError("A sample that enough teachers agree on found no consensus.", "Look for a broken gadget.")
    phases = {phase: cost for phase, cost in side.phases.items() if cost.rounds}
    costs = phases | {"total": side.votes}
    return {
        "ring_bits": RING_BITS,
        "rounds": {name: cost.rounds for name, cost in costs.items()},
        "bytes": {name: cost.bytes for name, cost in costs.items()},
        "opened_bits": {
            phase: 8 * (cost.bytes // 2 - cost.rounds * HEADER_SIZE) for phase, cost in phases.items()
        },
        **_dealt(task),
        "dealer_bytes": side.deal.bytes,
        "teacher_bytes": dict(zip(("s0", "s1"), task.teacher_bytes, strict=True)),
    }  # fmt: skip


def _dealt(task: LabTask) -> dict[str, Any]:
    gates: dict[str, int] = {}
    dealt: dict[str, int] = {}
    plans = [three_phases.plan(task, block.samples) for block in task.blocks]
    for kind, piece in ((type(piece).__name__, piece) for plan in plans for piece in plan.values()):
        gates[kind] = gates.get(kind, 0) + _gates(piece)
        dealt[kind] = dealt.get(kind, 0) + 8 * sum(layout.wire_bytes for layout in piece.derived.values())
    return {
        "gates": dict(sorted(gates.items())),
        "dealt_bits": dict(sorted(dealt.items())) | {"total": sum(dealt.values())},
    }


def _gates(piece: Correlation) -> int:
    """Values that a gadget computes with this piece; all kinds but `Ands` compute one for each entry."""
    shape: tuple[int, ...] = getattr(piece, "shape")  # noqa: B009 - every kind has one, the base class does not say so
    return prod(shape) * (piece.others if isinstance(piece, Ands) else 1)


def _unanimous(task: LabTask) -> tuple[Loader, Loader]:
    """Shares of random votes, of which so many agree on each sample that it passes."""
    agreed = np.arange(task.samples) % task.classes
    if task.votes == "counts":
        counts = random_counts(task.samples, task.classes, task.teachers, seed=1)
        columns = np.arange(task.samples)
        counts[agreed, columns] = np.maximum(counts[agreed, columns], task.threshold)
        return counts_loaders(task, counts)
    votes = random_votes(task.samples, task.classes, task.teachers, seed=1)
    votes[: task.threshold] = agreed
    return vote_loaders(task, votes)
