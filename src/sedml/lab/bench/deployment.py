"""A whole deployment measured: both servers as processes with stores on disk, every teacher a client over HTTPS.

Nobody knows the noise that the servers drew, so labels are held against those of the ideal functionality with noise of
its own: about as many must be there, and about as many right.
"""

from __future__ import annotations

import asyncio
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import ServerError
from sedml.lab.bench.prepared import Sent, send_prepared
from sedml.lab.bench.resident import cpu_seconds, family, peak_mb, resident_mb
from sedml.lab.bench.workload import random_votes
from sedml.mpc.ring import Array
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram
from sedml.service.client import AsyncTeacher, Requester
from sedml.service.kits import free_ports, provision
from sedml.service.server import check_installed

_Pair: TypeAlias = tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]  # S0 and S1

_DELTA = 1e-5
_AT_ONCE = 64
"""Teachers that vote at the same time."""
_SETTINGS = {
    "SEDML_SERVER__LOG_LEVEL": "warning",
    # All teachers call from one address here, and the requester polls: neither is what the limits are for.
    "SEDML_SERVER__ANONYMOUS_RATE_PER_SECOND": "10000",
    "SEDML_SERVER__MAX_CONNECTIONS": "1024",
}


@dataclass(frozen=True)
class DeploymentReport:
    """What a job took from its creation to its labels. Memory is that of S0 and S1, in MB."""

    teachers: int
    samples: int
    classes: int
    epsilon: float
    sigma: float
    prepared: bool
    """Whether ballots were cast before the clock started, and sent over connections kept open."""
    vote_seconds: float
    """How long it took until every teacher had both receipts."""
    votes_per_second: float
    """How fast that went."""
    receipt_ms: tuple[float, float] | None
    """When prepared ballots come at half that rate: by when half of all halves, and 99 of 100, have a receipt."""
    vote_cpu_ms: tuple[float, float, float]
    """What each vote takes of a processor: at S0, at S1, and for its teacher."""
    close_seconds: float
    aggregate_seconds: float
    fetch_seconds: float
    run_seconds: float
    """The time from the close of the vote to the labels: the three before, together."""
    protocol_seconds: float
    """What the slower server took in the protocol itself."""
    beyond_seconds: float
    """What a run took beyond that."""
    idle_rss_mb: tuple[float, float]
    peak_rss_mb: tuple[float, float]
    answered: int
    plausible: bool
    """Whether as many labels are there, and as many are what most teachers said, as noise of this law can explain."""


def bench_deployment(
    teachers: int,
    samples: int,
    classes: int,
    *,
    epsilon: float = 8.0,
    prepared: bool = False,
    progress: Progress = silent,
) -> DeploymentReport:
    """Provision, start both servers, vote, run, fetch, check; `prepared` ballots go past the teachers' clients."""
    check_installed()
    votes = random_votes(samples, classes, teachers, seed=0)
    with tempfile.TemporaryDirectory(prefix="sedml-bench-") as place:
        folder = Path(place)
        kits = folder / "kits"
        s0, s1, link = (f"127.0.0.1:{port}" for port in free_ports(3))
        provision(kits, (s0, s1), link, teachers, 1, budget=(2 * epsilon, _DELTA))
        np.savez(folder / "public.npz", x=np.arange(samples, dtype=np.float32)[:, np.newaxis])
        with serving(kits) as processes:
            requester = Requester(kits / "requester-1")
            requester.jobs()  # waits until both answer
            idle = memory(processes, resident_mb)
            job = requester.create(
                folder / "public.npz",
                classes=classes,
                threshold=0.6,
                epsilon=epsilon,
                delta=_DELTA,
                min_teachers=teachers,
                deadline="1d",
            )
            voters = sorted(kits.glob("teacher-*"))
            before = _cpu(processes)
            if prepared:
                sent = send_prepared(voters, job.terms, votes, progress)
            else:
                sent = asyncio.run(_vote(voters, job.id, votes, progress))
            at_s0, at_s1, here = (
                1000 * (after - start) / teachers for start, after in zip(before, _cpu(processes), strict=True)
            )
            result = requester.run(job.id, progress=progress)
            peak = memory(processes, peak_mb)
            view = requester.status(job.id)
    protocol_seconds = max(status.protocol_seconds for status in view.statuses)
    p50, p99 = np.quantile(sent.waits if len(sent.waits) else [0.0], (0.5, 0.99)).tolist()
    took = result.seconds
    return DeploymentReport(
        teachers=teachers,
        samples=samples,
        classes=classes,
        epsilon=epsilon,
        sigma=result.task.sigma,
        prepared=prepared,
        vote_seconds=sent.seconds,
        votes_per_second=sent.per_second,
        receipt_ms=(1000 * p50, 1000 * p99) if len(sent.waits) else None,
        vote_cpu_ms=(at_s0, at_s1, here),
        close_seconds=took.closing,
        aggregate_seconds=took.aggregating,
        fetch_seconds=took.fetching,
        run_seconds=took.total,
        protocol_seconds=protocol_seconds,
        beyond_seconds=took.total - protocol_seconds,
        idle_rss_mb=idle,
        peak_rss_mb=peak,
        answered=result.answered,
        plausible=_plausible(result.task, histogram(votes, classes), result.labels),
    )


async def _vote(kits: list[Path], job: str, votes: npt.NDArray[np.int16], progress: Progress) -> Sent:
    """Every teacher on its own: its kit, its two connections, its ballot."""
    limit, done, begun = asyncio.Semaphore(_AT_ONCE), 0, perf_counter()

    async def one(kit: Path, row: npt.NDArray[np.int16]) -> None:
        nonlocal done
        async with limit:
            await AsyncTeacher(kit).vote(job, predictions=row)
        done += 1
        progress("voting", done, len(kits))

    async with asyncio.TaskGroup() as group:
        for kit, row in zip(kits, votes, strict=True):
            group.create_task(one(kit, row))
    seconds = perf_counter() - begun
    return Sent(len(kits) / seconds, seconds, np.zeros(0))


@contextmanager
def serving(kits: Path) -> Iterator[_Pair]:
    """Both servers of these kits as processes, until the block ends."""

    def start(name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "sedml", "serve", str(kits / name)]
        return subprocess.Popen(command, env=os.environ | _SETTINGS)  # noqa: S603 - this very program

    processes = start("s0"), start("s1")
    try:
        yield processes
    finally:
        for process in processes:
            process.terminate()
        codes = [process.wait(30) for process in processes]
    if any(codes):
        raise ServerError(f"The servers ended with exit codes {codes}.", "Look at what they wrote to standard error.")


def memory(processes: _Pair, measure: Callable[[int], float]) -> tuple[float, float]:
    """The memory of S0 and of S1, workers and all."""
    s0, s1 = (sum(measure(one) for one in family(process.pid)) for process in processes)
    return s0, s1


def _cpu(processes: _Pair) -> tuple[float, ...]:
    """The seconds of a processor that S0, S1 and this process, in which the clients run, have taken."""
    return tuple(cpu_seconds(process) for process in (processes[0].pid, processes[1].pid, os.getpid()))


def _plausible(task: Task, counts: Array, labels: Array) -> bool:
    """Both numbers are sums of independent bits, so their differences stay within six standard deviations."""
    noises = draw_noise(task, task.samples), draw_noise(task, task.samples)
    ideal, most = ideal_labels(task, counts, noises), counts.argmax(axis=0)
    there = int((labels >= 0).sum()) - int((ideal >= 0).sum())
    right = int((labels == most).sum()) - int((ideal == most).sum())
    return max(abs(there), abs(right)) <= 6 * math.sqrt(task.samples / 2)
