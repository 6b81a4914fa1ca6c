"""Measure an aggregation: time, traffic and memory, every label checked against `ideal`."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import TaskError
from sedml.lab.bench.halves import Dealing, deal_to, expected_labels, make_votes, write_half
from sedml.lab.bench.servers import Measured, process_pair, thread_pair
from sedml.lab.paper.lab_block import PHASES
from sedml.lab.paper.lab_task import LabTask
from sedml.mpc.kernel import kernel_in_use
from sedml.lab.semi_honest.labels import reveal
from sedml.lab.semi_honest.links import blocks_under_way

__all__ = ["Report", "Transport", "bench_aggregate"]

Transport: TypeAlias = Literal["memory", "tcp"]

_WARM_UP_SAMPLES = 64


@dataclass(frozen=True)
class Report:
    """Medians over the repetitions; bytes and rounds are of the last one. See `sedml bench aggregate --help`."""

    samples: int
    classes: int
    teachers: int
    threshold: int
    votes: str
    protocol: str
    randomness: str
    transport: str
    latency_ms: float
    repeat: int
    blocks: int
    under_way: int
    """Blocks worked on at the same time."""
    ring_bits: int
    seconds: dict[str, float]
    bytes: dict[str, int]
    rounds: dict[str, int]
    answered: int
    peak_rss_mb: float
    kernel: str
    """What the hot loops ran on."""
    matches_ideal: bool


def bench_aggregate(
    task: LabTask,
    *,
    transport: Transport = "tcp",
    latency_ms: float = 0.0,
    repeat: int = 1,
    under_way: int | None = None,
    progress: Progress = silent,
) -> Report:
    """Prepare a task of synthetic votes `repeat` times, run all, check all; `progress` counts repetitions.

    `under_way` blocks are worked on at the same time; unless given, as many as a deployment would at this latency, or
    one where no deployment would run the task.
    """
    if repeat < 1:
        raise TaskError(f"{repeat} repetitions cannot be run.", "Use at least 1.")
    if under_way is None:
        deployed = task.dealt is None and task.votes == "ballots"
        at_once = blocks_under_way(task, latency_ms / 1e3) if deployed else 1
    else:
        at_once = min(under_way, task.block_count)
    if at_once < 1:
        raise TaskError(f"{at_once} blocks cannot be under way.", "Use at least 1.")
    pair = process_pair if transport == "tcp" else thread_pair
    with tempfile.TemporaryDirectory(prefix="sedml-bench-") as place, pair() as run:
        small = replace(task, samples=min(task.samples, _WARM_UP_SAMPLES))
        jobs = [_deal(Path(place) / "warm-up", replace(small, nonce="warm-up"), 0)]
        for turn in range(repeat):
            progress("preparing", turn, repeat)
            jobs.append(_deal(Path(place) / str(turn), replace(task, nonce=f"{task.nonce}-{turn}"), turn))
        # One job right after the other, as on a server that has work to do; all were dealt before.
        measured = []
        for turn, job in enumerate(jobs):
            progress("aggregating", turn, repeat)
            measured.append(run(job.folder, latency_ms / 1e3 if turn else 0.0, at_once))
        progress("checking", 0, 1)
        runs = [_check(job, sides) for job, sides in zip(jobs, measured, strict=True)]
    return _report(task, transport, latency_ms, at_once, runs[1:])


@dataclass(frozen=True)
class _Job:
    folder: Path
    task: LabTask
    counts: npt.NDArray[np.integer]
    dealing: Dealing


@dataclass(frozen=True)
class _Run:
    measured: tuple[Measured, Measured]
    dealing: Dealing
    answered: int
    matches: bool


def _deal(folder: Path, task: LabTask, seed: int) -> _Job:
    votes, counts = make_votes(task, seed)
    write_half(folder, task, votes, counts)
    return _Job(folder, task, counts, deal_to(folder, task))


def _check(job: _Job, measured: tuple[Measured, Measured]) -> _Run:
    pairs = zip(measured[0].outcomes, measured[1].outcomes, strict=True)
    labels = np.concatenate([reveal(job.task, *pair) for pair in pairs])
    matches = bool(np.array_equal(labels, expected_labels(job.folder, job.task, job.counts)))
    return _Run(measured, job.dealing, int((labels >= 0).sum()), matches)


def _report(task: LabTask, transport: Transport, latency_ms: float, under_way: int, runs: list[_Run]) -> Report:
    def slower(run: _Run, phase: str) -> float:
        return max(side.costs[phase].seconds if phase in side.costs else 0.0 for side in run.measured)

    last = runs[-1]
    costs = last.measured[0].costs
    seconds: dict[str, float] = {phase: median(slower(run, phase) for run in runs) for phase in PHASES}
    seconds["total"] = median(max(side.seconds for side in run.measured) for run in runs)
    seconds["prepare"] = median(max(side.prepare_seconds for side in run.measured) for run in runs)
    seconds["deal"] = median(run.dealing.seconds for run in runs)
    seconds["offline"] = median(max(side.offline.seconds for side in run.measured) for run in runs)
    seconds["in_all"] = median(max(side.in_all_seconds for side in run.measured) for run in runs)
    rounds: dict[str, int] = {phase: costs[phase].rounds if phase in costs else 0 for phase in PHASES}
    rounds["total"] = sum(rounds.values())
    rounds["offline"] = last.measured[0].offline.rounds
    sent_to_s0, sent_to_s1 = task.teacher_bytes
    return Report(
        samples=task.samples,
        classes=task.classes,
        teachers=task.teachers,
        threshold=task.threshold,
        votes=task.votes,
        protocol=task.name,
        randomness=task.randomness,
        transport=transport,
        latency_ms=latency_ms,
        repeat=len(runs),
        blocks=task.block_count,
        under_way=under_way,
        ring_bits=task.widths.counts,
        seconds=seconds,
        bytes={
            "servers": sum(cost.bytes for cost in costs.values()),
            "dealer": last.dealing.bytes,
            "offline": last.measured[0].offline.bytes,
            "teacher_s0": sent_to_s0,
            "teacher_s1": sent_to_s1,
        },
        rounds=rounds,
        answered=last.answered,
        peak_rss_mb=max(side.peak_rss_mb for run in runs for side in run.measured),
        kernel=kernel_in_use(),
        matches_ideal=all(run.matches for run in runs),
    )
