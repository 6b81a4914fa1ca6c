"""S0 and S1 for a measurement: as two operating-system processes over TLS on loopback, or as two threads.

A server process lives through all repetitions, as a real one does, and is told over a pipe which job folder to
run. Before the clock starts it has connected, and has run a first small job.
"""

from __future__ import annotations

import gc
import multiprocessing
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Protocol

from sedml.lab.bench.halves import Half
from sedml.lab.bench.resident import peak_mb
from sedml.lab.paper.lab_block import run_block
from sedml.mpc.channel import (
    Channel,
    Credentials,
    Traffic,
    accept,
    connect,
    listen,
    memory_pair,
    run_in_lanes,
    throwaway_credentials,
)
from sedml.lab.semi_honest.gadgets.refresh import agree
from sedml.mpc.malloc import keep_freed_memory
from sedml.lab.semi_honest.branches import Branches
from sedml.mpc.ot.extension import Extension, set_up
from sedml.lab.semi_honest.recipe import make, transfers_of
from sedml.lab.semi_honest.party import OneUse, Party, PhaseCost
from sedml.mpc.prg import Seed
from sedml.lab.semi_honest.block import recipes
from sedml.lab.semi_honest.labels import LabelShare

__all__ = ["Measured", "Runner", "process_pair", "thread_pair"]

_TIMEOUT = 600.0


@dataclass(frozen=True)
class Measured:
    """One server's run of a job."""

    outcomes: list[LabelShare] = field(repr=False)
    costs: dict[str, PhaseCost]
    seconds: float
    """The time in which a block was online; where several were, they count once."""
    in_all_seconds: float
    """The time from the first word to the last label share."""
    prepare_seconds: float
    """Reading, expanding and unpacking dealt correlations, which needs no vote."""
    offline: PhaseCost
    """Making the randomness together where nobody deals it, which needs no vote either."""
    peak_rss_mb: float


class Runner(Protocol):
    """Runs the job in a folder on both servers, so many blocks at a time."""

    def __call__(self, folder: Path, delay: float, under_way: int) -> tuple[Measured, Measured]:
        """What S0 and S1 measured."""


@dataclass
class Kept:
    """What a server keeps from one job to the next: its end of the OT extension, once there is one."""

    extension: Extension | None = None

    def extend(self, role: int, channel: Channel, common: Seed) -> Extension:
        """Set up with the other server the first time."""
        self.extension = self.extension or Extension(set_up(role, channel), common.key)
        return self.extension


def run_server(half: Half, channel: Channel, kept: Kept, under_way: int) -> Measured:
    """One server's side of a whole job, with so many blocks at a time."""
    noise, loader, task = half.noise, half.loader, half.task
    blocks = list(task.blocks)
    under_way = min(under_way, len(blocks))
    begun = perf_counter()
    common = agree(channel)
    extension = kept.extend(half.role, channel, common) if task.dealt is None else None
    needs = [recipes(task, block.samples) for block in blocks] if extension is not None else []
    sizes = [transfers_of(one) for one in needs]
    ends = None if extension is None else Branches(extension, sizes, under_way)

    def work(lane: Channel, number: int, index: int) -> _Worked:
        start, before, block = perf_counter(), lane.traffic, blocks[index]
        if ends is None:
            correlations: OneUse = half.correlations(block).prepare()
        else:
            correlations = make(half.role, ends.at(number, index), lane, index, needs[index])
        made = lane.traffic - before
        # Both begin together, as the slower one's preparation is not the faster one's online time.
        lane.exchange(index, "ready", [])
        ready, costs = perf_counter(), dict[str, PhaseCost]()
        share = run_block(Party(half.role, lane, correlations, costs), task, partial(loader, block), noise, common)
        return _Worked(share, costs, made, start, ready, perf_counter())

    worked = run_in_lanes(channel, range(len(blocks)), under_way, work)
    in_all = perf_counter() - begun
    if extension is not None and under_way > 1:
        for size in sizes:
            extension.skip(size)
    return _measured(worked, in_all, ends is None)


@dataclass(frozen=True)
class _Worked:
    """One block: what came of it, what it cost, when it began, was ready for votes, and ended."""

    share: LabelShare
    costs: dict[str, PhaseCost]
    made: Traffic
    start: float
    ready: float
    end: float


def _measured(worked: list[_Worked], in_all: float, dealt: bool) -> Measured:
    costs: dict[str, PhaseCost] = {}
    for phase, cost in ((phase, cost) for one in worked for phase, cost in one.costs.items()):
        total = costs.setdefault(phase, PhaseCost())
        total.seconds += cost.seconds
        total.rounds += cost.rounds
        total.bytes += cost.bytes
    before = _covered([(one.start, one.ready) for one in worked])
    rounds = sum(one.made.rounds for one in worked)
    size = sum(one.made.bytes_sent + one.made.bytes_received for one in worked)
    return Measured(
        outcomes=[one.share for one in worked],
        costs=costs,
        seconds=_covered([(one.ready, one.end) for one in worked]),
        in_all_seconds=in_all,
        prepare_seconds=before if dealt else 0.0,
        offline=PhaseCost() if dealt else PhaseCost(before, rounds, size),
        peak_rss_mb=peak_mb(),
    )


def _covered(spans: list[tuple[float, float]]) -> float:
    """Seconds that at least one of them covers."""
    total, reached = 0.0, 0.0
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


@contextmanager
def thread_pair() -> Iterator[Runner]:
    """Both servers as threads of this process, over the in-process channel."""
    kept = Kept(), Kept()
    with ThreadPoolExecutor(2) as threads:

        def run(folder: Path, delay: float, under_way: int) -> tuple[Measured, Measured]:
            halves = [Half.read(folder, role) for role in (0, 1)]
            ends = memory_pair(halves[0].task.id, timeout=_TIMEOUT, delay=delay)
            with ends[0], ends[1]:
                sides = [threads.submit(run_server, *side, under_way) for side in zip(halves, ends, kept, strict=True)]
                return sides[0].result(), sides[1].result()

        yield run


@contextmanager
def process_pair() -> Iterator[Runner]:
    """Both servers as processes of their own, over TLS on loopback."""
    spawn = multiprocessing.get_context("spawn")
    credentials = throwaway_credentials()
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        pipes, processes = [], []
        for role in (0, 1):
            ours, theirs = spawn.Pipe()
            end = listener if role == 0 else port
            process = spawn.Process(target=_serve, args=(role, credentials[role], end, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)

        def run(folder: Path, delay: float, under_way: int) -> tuple[Measured, Measured]:
            for pipe in pipes:
                pipe.send((folder, delay, under_way))
            replies = [_reply(pipe) for pipe in pipes]
            return replies[0], replies[1]

        try:
            yield run
        finally:
            for pipe, process in zip(pipes, processes, strict=True):
                pipe.close()
                process.join(5)
                process.terminate()


def _reply(pipe: Connection) -> Measured:
    reply: Measured | BaseException = pipe.recv()
    if isinstance(reply, BaseException):
        raise reply
    return reply


def _serve(role: int, credentials: Credentials, end: socket.socket | int, pipe: Connection) -> None:
    """The server process: run job after job until the pipe is closed."""
    # What is loaded stays: the collector need not look at it again in the middle of a job.
    gc.freeze()
    keep_freed_memory()
    kept = Kept()
    while True:
        try:
            folder, delay, under_way = pipe.recv()
        except EOFError:
            return
        try:
            half = Half.read(folder, role)
            task = half.task.id
            if isinstance(end, socket.socket):
                channel: Channel = accept(end, task, credentials, timeout=_TIMEOUT, delay=delay)
            else:
                channel = connect(("127.0.0.1", end), task, credentials, timeout=_TIMEOUT, delay=delay)
            with channel:
                pipe.send(run_server(half, channel, kept, under_way))
        except BaseException as error:
            pipe.send(error)
