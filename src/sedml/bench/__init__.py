"""Measure an aggregation: time, traffic and memory, every label checked against `ideal`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Literal, TypeAlias

import numpy as np

from sedml.ballots import ballot_sizes
from sedml.bench.job import Dealing, deal_to, expected_labels, make_votes, write_half
from sedml.bench.servers import Measured, Runner, process_pair, thread_pair
from sedml.errors import TaskError
from sedml.local import reveal
from sedml.protocol import PHASES
from sedml.task import Task

__all__ = ["Report", "Transport", "bench_aggregate"]

Transport: TypeAlias = Literal["memory", "tcp"]
Tell: TypeAlias = Callable[[str], None]

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
    transport: str
    latency_ms: float
    repeat: int
    ring_bits: int
    seconds: dict[str, float]
    bytes: dict[str, int]
    rounds: dict[str, int]
    answered: int
    peak_rss_mb: float
    matches_ideal: bool


def bench_aggregate(
    task: Task,
    *,
    transport: Transport = "tcp",
    latency_ms: float = 0.0,
    repeat: int = 1,
    seed: int = 0,
    tell: Tell = lambda _: None,
) -> Report:
    """Run a task of synthetic votes `repeat` times; `tell` hears of each."""
    if repeat < 1:
        raise TaskError(f"{repeat} repetitions were asked for.", "Ask for at least one.")
    pair = process_pair if transport == "tcp" else thread_pair
    with tempfile.TemporaryDirectory(prefix="sedml-bench-") as place, pair() as run:
        small = replace(task, samples=min(task.samples, _WARM_UP_SAMPLES), nonce="warm-up")
        _repetition(Path(place) / "warm-up", small, run, 0.0, seed)
        runs = []
        for turn in range(repeat):
            tell(f"repetition {turn + 1} of {repeat}")
            again = replace(task, nonce=f"{task.nonce}-{turn}")
            runs.append(_repetition(Path(place) / str(turn), again, run, latency_ms / 1e3, seed + turn))
    return _report(task, transport, latency_ms, runs)


@dataclass(frozen=True)
class _Run:
    measured: tuple[Measured, Measured]
    dealing: Dealing
    answered: int
    matches: bool


def _repetition(folder: Path, task: Task, run: Runner, delay: float, seed: int) -> _Run:
    votes, counts = make_votes(task, seed)
    write_half(folder, task, votes, counts)
    dealing = deal_to(folder, task)
    measured = run(folder, delay)
    pairs = zip(measured[0].outcomes, measured[1].outcomes, strict=True)
    labels = np.concatenate([reveal(task, *pair) for pair in pairs])
    matches = bool(np.array_equal(labels, expected_labels(folder, task, counts)))
    for outcome0, outcome1 in zip(measured[0].outcomes, measured[1].outcomes, strict=True):
        matches &= bool(np.array_equal(outcome0.consensus, outcome1.consensus))
    return _Run(measured, dealing, int((labels >= 0).sum()), matches)


def _report(task: Task, transport: Transport, latency_ms: float, runs: list[_Run]) -> Report:
    def slower(run: _Run, phase: str) -> float:
        return max(side.costs[phase].seconds if phase in side.costs else 0.0 for side in run.measured)

    last = runs[-1]
    costs = last.measured[0].costs
    seconds: dict[str, float] = {phase: median(slower(run, phase) for run in runs) for phase in PHASES}
    seconds["total"] = median(max(side.seconds for side in run.measured) for run in runs)
    seconds["deal"] = median(run.dealing.seconds for run in runs)
    rounds: dict[str, int] = {phase: costs[phase].rounds if phase in costs else 0 for phase in PHASES}
    rounds["total"] = sum(rounds.values())
    sent_to_s0, sent_to_s1 = ballot_sizes(task)
    return Report(
        samples=task.samples,
        classes=task.classes,
        teachers=task.teachers,
        threshold=task.threshold,
        votes=task.votes,
        protocol=task.protocol,
        transport=transport,
        latency_ms=latency_ms,
        repeat=len(runs),
        ring_bits=task.widths.counts,
        seconds=seconds,
        bytes={
            "servers": sum(cost.bytes for cost in costs.values()),
            "dealer": last.dealing.bytes,
            "teacher_s0": sent_to_s0,
            "teacher_s1": sent_to_s1,
        },
        rounds=rounds,
        answered=last.answered,
        peak_rss_mb=max(side.peak_rss_mb for run in runs for side in run.measured),
        matches_ideal=all(run.matches for run in runs),
    )
