"""What a job costs on any machine: rounds, bytes, opened bits, gates and dealt bits, exactly.

Times move with the machine and the hour; these do not, so a change of the protocol shows here first. In the
laboratory's tasks every sample passes the threshold and no noise is added, which is the most that they can cost.
`benchmarks/counts.json` keeps them; `python benchmarks/figures.py --counts-only` writes it again.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from math import prod
from typing import Any

import numpy as np

from sedml.errors import ShareError
from sedml.lab.bench.protocol import bench_protocol
from sedml.lab.bench.workload import random_counts, random_votes
from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.gadgets.and_ import Products
from sedml.lab.paper.lab_block import plan_block
from sedml.lab.paper.lab_run import ballot_loaders, counts_loaders, run_job
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.lone_noise import NoNoise
from sedml.lab.paper.onehot_ballots import cast_onehot
from sedml.lab.semi_honest.semi_honest_block import recipes
from sedml.lab.semi_honest.semi_honest_servers import Loader
from sedml.mpc.channel.frame import HEADER_SIZE
from sedml.protocol.task import Task

__all__ = ["PROTOCOL_TASKS", "TASKS", "count_costs", "count_protocol", "count_tasks"]

_MADE = LabTask(10, 1000, 250, 150, 40.0, 40.0)
_DEALT = replace(_MADE, dealt="fused")

TASKS: dict[str, LabTask] = {
    "dealt, 1,000 x 10 counts": _DEALT,
    "dealt, 1,000 x 10 one-hot votes of 250 teachers": replace(_DEALT, votes="onehot"),
    "dealt, 1,000 x 2 counts": replace(_DEALT, classes=2),
    "dealt, 1,000 x 50 counts": replace(_DEALT, classes=50),
    "dealt, 1,003 x 10 counts of 1,000,000 teachers": replace(_DEALT, samples=1003, teachers=10**6, threshold=600_000),
    "fused, 1,000 x 10 counts": _MADE,
    "fused, 1,000 x 50 counts": replace(_MADE, classes=50),
    "fused, 20 x 1,000 counts of 16 teachers": replace(_MADE, samples=20, classes=1000, teachers=16, threshold=9),
    "garbled, 1,000 x 10 counts": replace(_MADE, protocol="garbled"),
    "garbled, 1,000 x 100 counts": replace(_MADE, protocol="garbled", classes=100),
    "paper, 1,000 x 10 counts": replace(_DEALT, dealt="paper"),
    "paper, 1,000 x 10 one-hot votes of 250 teachers": replace(_DEALT, dealt="paper", votes="onehot"),
    "paper, 1,000 x 10 counts in a ring of 16 bits": replace(_DEALT, dealt="paper", ring_bits=16),
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


def count_costs(task: LabTask) -> dict[str, Any]:
    """Run a task on votes that all pass, and count.

    `opened_bits` is what each server sends in a phase, frame headers left out; `gates` is how many values each kind
    of gadget computes, an AND of several inputs counted once; `dealt_bits` is what S1 is sent for them. Where nobody
    deals, `offline` is what the servers exchange to make their randomness, set-up included, and `transfers` how many
    oblivious transfers each way each kind of gadget takes.
    """
    labels, stats = run_job(task, _unanimous(task), (NoNoise(), NoNoise()))
    if (labels < 0).any():
        raise ShareError("A sample that enough teachers agree on found no consensus.", "Look for a broken gadget.")
    if task.dealt:
        randomness = _dealt(task) | {"dealer_bytes": stats.dealer_bytes}
    else:
        randomness = _made(task) | {"offline": {"rounds": stats.offline.rounds, "bytes": stats.offline.bytes}}
    phases = {phase: cost for phase, cost in stats.phases.items() if cost.rounds}
    return {
        "ring_bits": asdict(task.widths),
        "rounds": {phase: cost.rounds for phase, cost in phases.items()} | {"total": stats.rounds},
        "bytes": {phase: cost.bytes for phase, cost in phases.items()} | {"total": stats.server_bytes},
        "opened_bits": {
            phase: 8 * (cost.bytes // 2 - cost.rounds * HEADER_SIZE) for phase, cost in phases.items()
        },
        **randomness,
        "teacher_bytes": dict(zip(("s0", "s1"), task.teacher_bytes, strict=True)),
    }  # fmt: skip


def _dealt(task: LabTask) -> dict[str, Any]:
    gates: dict[str, int] = {}
    dealt: dict[str, int] = {}
    plans = [plan_block(task, block.samples) for block in task.blocks]
    for kind, piece in ((type(piece).__name__, piece) for plan in plans for piece in plan.values()):
        gates[kind] = gates.get(kind, 0) + _gates(piece)
        dealt[kind] = dealt.get(kind, 0) + 8 * sum(layout.wire_bytes for layout in piece.derived.values())
    return {
        "gates": dict(sorted(gates.items())),
        "dealt_bits": dict(sorted(dealt.items())) | {"total": sum(dealt.values())},
    }


def _made(task: LabTask) -> dict[str, Any]:
    transfers: dict[str, int] = {}
    for recipe in (recipe for block in task.blocks for recipe in recipes(task, block.samples).values()):
        kind = type(recipe).__name__
        transfers[kind] = transfers.get(kind, 0) + recipe.transfers
    return {"transfers": dict(sorted(transfers.items())) | {"total": sum(transfers.values())}}


def _gates(piece: Correlation) -> int:
    """Values that a gadget computes with this piece; all kinds but `Products` compute one for each entry."""
    shape: tuple[int, ...] = getattr(piece, "shape")  # noqa: B009 - every kind has one, the base class does not say so
    entries = prod(shape)
    return len(piece.monomials) * entries if isinstance(piece, Products) else entries


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
    return ballot_loaders(task, [cast_onehot(row, task) for row in votes])
