"""Measure the protocol of a deployment between two servers, stage by stage, and others in the same form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np

from sedml import Progress, silent
from sedml.errors import TaskError
from sedml.lab.bench.lab_jobs import Report
from sedml.lab.bench.resident import peak_mb
from sedml.lab.bench.server_pair import Transport, pair
from sedml.lab.bench.workload import random_counts
from sedml.mpc.channel import Channel, PhaseCost
from sedml.mpc.kernel import kernel_in_use
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.mpc.sharing import Additive, share
from sedml.mpc.steps import drive
from sedml.protocol.block import answer, prepare
from sedml.protocol.block_shape import Shape
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.labels import LabelShare, reveal
from sedml.protocol.server_session import open_session
from sedml.protocol.task import Task

__all__ = ["STAGES", "StageReport", "bench_protocol", "stages_of"]

STAGES = ("set_up", "prepare", "votes")
"""Once for a connection; what needs no vote; from shares of counts to shares of labels."""

_WARM_UP_SAMPLES = 64


@dataclass(frozen=True)
class StageReport:
    """Medians over the repetitions; rounds and bytes are of the last one."""

    protocol: str
    samples: int
    classes: int
    teachers: int
    threshold: int
    sigma: float
    latency_ms: float
    repeat: int
    blocks: int
    ands: int | None
    """AND gates of the whole job, where it is a circuit with buckets."""
    bucket: int | None
    """The bucket size B, where there are buckets."""
    stages: dict[str, PhaseCost]
    """By the names of STAGES, and "total", all after the set-up; seconds are the slower server's, bytes both ways."""
    peak_rss_mb: float
    """Of the server that had more."""
    kernel: str
    matches_ideal: bool


def bench_protocol(
    task: Task,
    *,
    transport: Transport = "tcp",
    latency_ms: float = 0.0,
    repeat: int = 1,
    progress: Progress = silent,
) -> StageReport:
    """Run a task on shares of random counts `repeat` times, every label checked; `progress` counts repetitions."""
    if repeat < 1:
        raise TaskError(f"{repeat} repetitions cannot be run.", "Use at least 1.")
    runs, matches = [], True
    with pair(transport) as run:
        for turn in range(repeat + 1):
            samples = task.samples if turn else min(task.samples, _WARM_UP_SAMPLES)
            job = replace(task, samples=samples, nonce=f"{task.nonce}-{turn}")
            counts = random_counts(samples, task.classes, task.teachers, seed=turn)
            noises = draw_noise(job, samples), draw_noise(job, samples)
            shares = share(Additive(counts.shape, job.widths.counts), counts, Seed.random(), "counts")
            progress("aggregating", turn, repeat)
            s0, s1 = (partial(_side, role, job, shares[role], noises[role]) for role in (0, 1))
            sides = run(job.id, s0, s1, latency_ms / 1e3 if turn else 0.0)
            matches &= np.array_equal(_opened(job, sides), ideal_labels(job, counts, noises))
            runs.append(sides)
    stages = {name: _median([[side.stages[name] for side in sides] for sides in runs[1:]]) for name in STAGES}
    return StageReport(
        protocol="authenticated",
        samples=task.samples,
        classes=task.classes,
        teachers=task.teachers,
        threshold=task.threshold,
        sigma=task.sigma,
        latency_ms=latency_ms,
        repeat=repeat,
        blocks=task.block_count,
        ands=task.samples * task.ands,
        bucket=Shape(task, next(task.blocks)).size,
        stages=_with_total(stages),
        peak_rss_mb=max(side.peak_rss_mb for sides in runs for side in sides),
        kernel=kernel_in_use(),
        matches_ideal=matches,
    )


def stages_of(report: Report) -> StageReport:
    """A job of the lab in the same form."""
    task, names = report.task, {"set_up": "set_up", "prepare": "prepare", "votes": "total"}
    stages = {
        stage: PhaseCost(report.seconds[name], report.rounds[name], report.bytes[name]) for stage, name in names.items()
    }
    return StageReport(
        protocol=task.name,
        samples=task.samples,
        classes=task.classes,
        teachers=task.teachers,
        threshold=task.threshold,
        sigma=task.sigma2,
        latency_ms=report.latency_ms,
        repeat=report.repeat,
        blocks=task.block_count,
        ands=None,
        bucket=None,
        stages=_with_total(stages),
        peak_rss_mb=report.peak_rss_mb,
        kernel=report.kernel,
        matches_ideal=report.matches_ideal,
    )


@dataclass
class _Side:
    """One server's run of a job."""

    shares: list[LabelShare] = field(default_factory=list, repr=False)
    stages: dict[str, PhaseCost] = field(default_factory=lambda: {name: PhaseCost() for name in STAGES})
    peak_rss_mb: float = 0.0


def _side(role: int, task: Task, counts: Array, noise: Array, channel: Channel) -> _Side:
    """All blocks, one after the other."""
    found = _Side()
    before, start = channel.traffic, perf_counter()

    def charge(stage: str) -> None:
        nonlocal before, start
        now = perf_counter()
        found.stages[stage].add(channel.traffic - before, now - start)
        before, start = channel.traffic, now

    session = drive(channel, 0, open_session(role, range(task.block_count)))
    charge("set_up")
    for block in task.blocks:
        here = slice(block.start, block.stop)
        prepared = drive(channel, block.index, prepare(session, task, block, noise[:, here]))
        charge("prepare")
        found.shares.append(drive(channel, block.index, answer(prepared, task, counts[:, here])))
        charge("votes")
    found.peak_rss_mb = peak_mb()
    return found


def _opened(task: Task, sides: Sequence[_Side]) -> Array:
    """What the requester opens: int64[Q]."""
    pairs = zip(task.blocks, *(side.shares for side in sides), strict=True)
    return np.concatenate([reveal(task, block.samples, *shares) for block, *shares in pairs])


def _median(runs: Sequence[Sequence[PhaseCost]]) -> PhaseCost:
    seconds = median(max(side.seconds for side in sides) for sides in runs)
    return PhaseCost(seconds, runs[-1][0].rounds, runs[-1][0].bytes)


def _with_total(stages: dict[str, PhaseCost]) -> dict[str, PhaseCost]:
    """And all after the set-up."""
    one, other = stages["prepare"], stages["votes"]
    total = PhaseCost(one.seconds + other.seconds, one.rounds + other.rounds, one.bytes + other.bytes)
    return stages | {"total": total}
