"""Measure a protocol between two servers, stage by stage: that of a deployment, or the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from time import perf_counter
from typing import TypeAlias, TypeVar

import numpy as np

from sedml import Progress, silent
from sedml.errors import TaskError
from sedml.lab.bench.resident import peak_mb
from sedml.lab.bench.server_pair import Runner, Transport, pair
from sedml.lab.bench.workload import random_counts, random_votes
from sedml.lab.paper import lab_run, two_noise_ideal
from sedml.lab.paper.check_and_label_noise import Noise, fresh_noise
from sedml.lab.paper.lab_run import Loader, Seeds, counts_loaders, run_server, vote_loaders
from sedml.lab.paper.two_noise_task import Task as LabTask
from sedml.lab.sharing import Additive, share
from sedml.mpc.channel import Channel, PhaseCost
from sedml.mpc.kernel import kernel_in_use
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.mpc.steps import drive
from sedml.protocol.block import answer
from sedml.protocol.block_shape import Shape
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.labels import LabelShare, reveal
from sedml.protocol.preparation import prepare
from sedml.protocol.server_session import open_session
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram

J = TypeVar("J", Task, LabTask)

STAGES = ("set_up", "prepare", "votes")
"""Once for a connection; what needs no vote; from shares of counts to shares of labels."""

_WARM_UP_SAMPLES = 64


@dataclass(frozen=True)
class StageReport:
    """Medians over the repetitions; rounds and bytes, and how many were answered, are of the last one."""

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
    phases: dict[str, PhaseCost]
    """What "votes" is made of, and "deal", the dealer's part, where it is the paper's protocol."""
    answered: int
    peak_rss_mb: float
    """Of the server that had more."""
    kernel: str
    matches_ideal: bool


@dataclass
class _Side:
    """What one server's run of a job cost, by stage and by phase."""

    stages: dict[str, PhaseCost]
    phases: dict[str, PhaseCost] = field(default_factory=dict)
    shares: list[LabelShare] = field(default_factory=list, repr=False)
    lab: lab_run.Side | None = field(default=None, repr=False)
    peak_rss_mb: float = 0.0


_Played: TypeAlias = tuple[Sequence[_Side], Array, Array]
"""Both sides, the labels, and what they must be."""


def bench_protocol(
    task: Task, *, transport: Transport = "tcp", latency_ms: float = 0.0, repeat: int = 1, progress: Progress = silent
) -> StageReport:
    """Run a task on shares of random counts `repeat` times, every label checked; `progress` counts repetitions."""
    bucket = Shape(task, next(task.blocks)).size
    ands = task.samples * task.ands
    return _bench(task, _play, transport, latency_ms, repeat, progress, task.sigma, ands, bucket)


def bench_lab(task: LabTask, *, transport: Transport, repeat: int) -> StageReport:
    """The same of the paper's three phases, on random votes where the task starts from those."""
    return _bench(task, _play_lab, transport, 0.0, repeat, silent, task.sigma2)


def _bench(
    task: J,
    play: Callable[[J, int, Callable[..., list[_Side]]], _Played],
    transport: Transport,
    latency_ms: float,
    repeat: int,
    progress: Progress,
    sigma: float,
    ands: int | None = None,
    bucket: int | None = None,
) -> StageReport:
    if repeat < 1:
        raise TaskError(f"{repeat} repetitions cannot be run.", "Use at least 1.")
    runs, matches = [], True
    with pair(transport) as run:
        for turn in range(repeat + 1):
            samples = task.samples if turn else min(task.samples, _WARM_UP_SAMPLES)
            job = replace(task, samples=samples, nonce=f"{task.nonce}-{turn}")
            progress("aggregating", turn, repeat)
            sides, labels, ideal = play(job, turn, _runner(run, job.id, latency_ms / 1e3 if turn else 0.0))
            matches &= np.array_equal(labels, ideal)
            runs.append(sides)
    first = runs[-1][0]
    stages = {name: _median([[side.stages[name] for side in sides] for sides in runs[1:]]) for name in STAGES}
    phases = {name: _median([[side.phases[name] for side in sides] for sides in runs[1:]]) for name in first.phases}
    return StageReport(
        samples=task.samples,
        classes=task.classes,
        teachers=task.teachers,
        threshold=task.threshold,
        sigma=sigma,
        latency_ms=latency_ms,
        repeat=repeat,
        blocks=sum(1 for _ in task.blocks),
        ands=ands,
        bucket=bucket,
        stages=stages | {"total": _sum(stages["prepare"], stages["votes"])},
        phases=phases,
        answered=int((labels >= 0).sum()),
        peak_rss_mb=max(side.peak_rss_mb for sides in runs for side in sides),
        kernel=kernel_in_use(),
        matches_ideal=matches,
    )


def _runner(run: Runner, task: bytes, delay: float) -> Callable[..., list[_Side]]:
    return lambda s0, s1: run(task, s0, s1, delay)


def _play(task: Task, turn: int, run: Callable[..., list[_Side]]) -> _Played:
    counts = random_counts(task.samples, task.classes, task.teachers, seed=turn)
    noises = draw_noise(task, task.samples), draw_noise(task, task.samples)
    shares = share(Additive(counts.shape, task.widths.counts), counts, Seed.random(), "counts")
    sides = run(*(partial(_side, role, task, shares[role], noises[role]) for role in (0, 1)))
    pairs = zip(task.blocks, *(side.shares for side in sides), strict=True)
    labels = np.concatenate([reveal(task, block.samples, *both) for block, *both in pairs])
    return sides, labels, ideal_labels(task, counts, noises)


def _play_lab(task: LabTask, turn: int, run: Callable[..., list[_Side]]) -> _Played:
    terms = task.samples, task.classes, task.teachers, turn
    if task.votes == "counts":
        counts: Array = random_counts(*terms)
        loaders = counts_loaders(task, counts)
    else:
        votes = random_votes(*terms)
        counts, loaders = histogram(votes, task.classes), vote_loaders(task, votes)
    noises, seeds = fresh_noise(task), (Seed.random(), Seed.random())
    sides = run(*(partial(_lab_side, role, task, loaders[role], noises[role], seeds) for role in (0, 1)))
    labels = lab_run.opened(task, *(side.lab for side in sides if side.lab is not None))
    return sides, labels, two_noise_ideal.ideal_labels(task, counts, noises)


def _side(role: int, task: Task, counts: Array, noise: Array, channel: Channel) -> _Side:
    """All blocks, one after the other."""
    found = _Side({name: PhaseCost() for name in STAGES})
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


def _lab_side(role: int, task: LabTask, load: Loader, noise: Noise, seeds: Seeds, channel: Channel) -> _Side:
    side = run_server(role, task, load, noise, seeds, channel)
    stages = {"set_up": PhaseCost(), "prepare": PhaseCost(), "votes": side.votes}
    return _Side(stages, side.phases | {"deal": side.deal}, lab=side, peak_rss_mb=peak_mb())


def _median(runs: Sequence[Sequence[PhaseCost]]) -> PhaseCost:
    seconds = median(max(side.seconds for side in sides) for sides in runs)
    return PhaseCost(seconds, runs[-1][0].rounds, runs[-1][0].bytes)


def _sum(one: PhaseCost, other: PhaseCost) -> PhaseCost:
    return PhaseCost(one.seconds + other.seconds, one.rounds + other.rounds, one.bytes + other.bytes)
