"""Measure a job of the lab, dealt or between two semi-honest servers, phase by phase."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import TaskError
from sedml.lab.bench.halves import Dealing, deal_to, expected_labels, make_votes, write_half
from sedml.lab.bench.server_pair import Transport, pair
from sedml.lab.bench.servers import Measured, run_server
from sedml.lab.paper.lab_block import PHASES
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.semi_honest.opened_labels import reveal
from sedml.mpc.channel import PhaseCost
from sedml.mpc.kernel import kernel_in_use

__all__ = ["Report", "bench_lab"]

_WARM_UP_SAMPLES = 64


@dataclass(frozen=True)
class Report:
    """Medians over the repetitions; bytes, of both directions together, and rounds are of the last one.

    Of each phase with the votes there, and their "total"; before that "set_up", "prepare" and "deal".
    """

    task: LabTask
    transport: Transport
    latency_ms: float
    repeat: int
    seconds: dict[str, float]
    bytes: dict[str, int]
    rounds: dict[str, int]
    answered: int
    peak_rss_mb: float
    kernel: str
    """What the hot loops ran on."""
    matches_ideal: bool


def bench_lab(
    task: LabTask,
    *,
    transport: Transport = "tcp",
    latency_ms: float = 0.0,
    repeat: int = 1,
    progress: Progress = silent,
) -> Report:
    """Prepare a task of synthetic votes `repeat` times, run all, check all; `progress` counts repetitions."""
    if repeat < 1:
        raise TaskError(f"{repeat} repetitions cannot be run.", "Use at least 1.")
    with tempfile.TemporaryDirectory(prefix="sedml-bench-") as place, pair(transport) as run:
        small = replace(task, samples=min(task.samples, _WARM_UP_SAMPLES))
        jobs = [_deal(Path(place) / "warm-up", replace(small, nonce="warm-up"), 0)]
        for turn in range(repeat):
            progress("preparing", turn, repeat)
            jobs.append(_deal(Path(place) / str(turn), replace(task, nonce=f"{task.nonce}-{turn}"), turn))
        # One job right after the other, as on a server that has work to do; all were dealt before.
        measured = []
        for turn, job in enumerate(jobs):
            progress("aggregating", turn, repeat)
            s0, s1 = (partial(run_server, job.folder, role) for role in (0, 1))
            measured.append(run(job.task.id, s0, s1, latency_ms / 1e3 if turn else 0.0))
        progress("checking", 0, 1)
        runs = [_check(job, sides) for job, sides in zip(jobs, measured, strict=True)]
    return _report(task, transport, latency_ms, runs[1:])


@dataclass(frozen=True)
class _Job:
    folder: Path
    task: LabTask
    counts: npt.NDArray[np.integer]
    dealing: Dealing


@dataclass(frozen=True)
class _Run:
    measured: list[Measured]
    dealing: Dealing
    answered: int
    matches: bool


def _deal(folder: Path, task: LabTask, seed: int) -> _Job:
    votes, counts = make_votes(task, seed)
    write_half(folder, task, votes, counts)
    return _Job(folder, task, counts, deal_to(folder, task))


def _check(job: _Job, measured: list[Measured]) -> _Run:
    pairs = zip(*(side.shares for side in measured), strict=True)
    labels = np.concatenate([reveal(job.task, *pair) for pair in pairs])
    matches = bool(np.array_equal(labels, expected_labels(job.folder, job.task, job.counts)))
    return _Run(measured, job.dealing, int((labels >= 0).sum()), matches)


def _report(task: LabTask, transport: Transport, latency_ms: float, runs: list[_Run]) -> Report:
    sides = [[_costs(side) for side in run.measured] for run in runs]
    last = sides[-1][0]
    seconds = {name: median(max(side[name].seconds for side in run) for run in sides) for name in last}
    return Report(
        task=task,
        transport=transport,
        latency_ms=latency_ms,
        repeat=len(runs),
        seconds=seconds | {"deal": median(run.dealing.seconds for run in runs)},
        bytes={name: cost.bytes for name, cost in last.items()} | {"deal": runs[-1].dealing.bytes},
        rounds={name: cost.rounds for name, cost in last.items()},
        answered=runs[-1].answered,
        peak_rss_mb=max(side.peak_rss_mb for run in runs for side in run.measured),
        kernel=kernel_in_use(),
        matches_ideal=all(run.matches for run in runs),
    )


def _costs(side: Measured) -> dict[str, PhaseCost]:
    phases = {phase: side.costs.get(phase, PhaseCost()) for phase in PHASES}
    return {**phases, "total": side.votes, "set_up": side.set_up, "prepare": side.prepare}
