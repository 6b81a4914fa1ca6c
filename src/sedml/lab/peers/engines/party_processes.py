"""What the workers of all engines share: they run each party as a process, time them, and count their bytes.

All parties of an engine are operating-system processes on this machine and talk over TCP on loopback.

- *Time*: all parties start together at a barrier; a run takes as long as its slowest party. The first run warms up
  (connections, compilation, base oblivious transfers) and does not count.
- *Traffic*: what the kernel received for the TCP sockets of every party (`TCP_INFO`), hence all traffic between
  them, with the engine's own framing and without TCP's; only where the kernel is Linux.

A worker is `python -m engines.<name>_worker WORK.npz ANSWER.json VARIANT REPEAT`. It runs in the environment of its
engine, where SEDML is not installed, with the folder above this one on its path: it imports the engine, NumPy and this
module. That is why this folder is not a package of SEDML.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median_low
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "Answer",
    "Foreign",
    "Integers",
    "Party",
    "Turn",
    "Work",
    "first_highest",
    "free_ports",
    "received_bytes",
    "run_parties",
    "serve",
    "summary",
]

Integers: TypeAlias = npt.NDArray[np.int64]
Answer: TypeAlias = dict[str, Any]
"""What a worker reports: labels and seconds of every run, the median of the bytes, rounds, versions of libraries."""
Foreign: TypeAlias = Any
"""What belongs to an engine, whose types are not known here."""

_BYTES_RECEIVED = 128
"""The offset of `tcpi_bytes_received` in Linux's `struct tcp_info` (include/uapi/linux/tcp.h)."""


@dataclass(frozen=True)
class Work:
    """Counts int[N, Q], the noise of the threshold check int[Q] and of the counts int[N, Q], and the threshold."""

    counts: Integers
    g: Integers
    g_i: Integers
    threshold: int
    variant: str
    repeat: int

    @property
    def noisy(self) -> Integers:
        """n_i + g_i, int[N, Q]: what the label is the highest of."""
        return self.counts + self.g_i

    @property
    def margins(self) -> Integers:
        """n_i + g - T, int[N, Q]: there is a consensus where one of them is not negative."""
        return self.counts + self.g - self.threshold


@dataclass(frozen=True)
class Turn:
    """One run at one party; `output` is what it holds at the end."""

    seconds: float
    received: int | None
    output: Foreign


@dataclass(frozen=True)
class Party:
    """One party among all: its rank, everybody's ports, and the barrier that all of them wait at."""

    rank: int
    ports: list[int]
    repeat: int
    barrier: Barrier

    def measure(self, once: Callable[[], Foreign], meet: Callable[[], object] | None = None) -> list[Turn]:
        """Run `once` again and again, all parties together; `meet` waits at the barrier in the engine's own way."""
        meet = meet or self.barrier.wait
        turns = []
        for _ in range(1 + self.repeat):
            meet()
            before = received_bytes()
            meet()
            start = perf_counter()
            output = once()
            seconds = perf_counter() - start
            # What the others have yet to receive is theirs to count, after everyone is done.
            meet()
            after = received_bytes()
            received = None if before is None or after is None else after - before
            turns.append(Turn(seconds, received, output))
        # No party hangs up before the others have read their counters.
        meet()
        return turns[1:]


Play = Callable[[Party, Foreign], list[Turn]]
"""What an engine has each party do: given the party and its argument, what it measured."""


def received_bytes() -> int | None:
    """What the kernel has received so far for all TCP connections of this process; None if it does not tell."""
    folder = Path("/proc/self/fd")
    if sys.platform != "linux" or not folder.is_dir():
        return None
    total = 0
    for link in folder.iterdir():
        try:
            if not str(link.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(link.name))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
        except OSError:
            # Closed in the meantime, or not a TCP socket.
            continue
        total += struct.unpack_from("=Q", info, _BYTES_RECEIVED)[0]
    return total


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = []
    for listener in sockets:
        with closing(listener):
            ports.append(int(listener.getsockname()[1]))
    return ports


def run_parties(play: Play, arguments: list[Foreign], repeat: int) -> list[list[Turn]]:
    """Run one party per argument, each a process of its own; what each measured, by rank."""
    spawn = multiprocessing.get_context("spawn")
    barrier, ports = spawn.Barrier(len(arguments)), free_ports(len(arguments))
    pipes, processes = [], []
    try:
        for rank, argument in enumerate(arguments):
            ours, theirs = spawn.Pipe(duplex=False)
            party = Party(rank, ports, repeat, barrier)
            process = spawn.Process(target=_run_party, args=(play, party, argument, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)
        return _collect(pipes)
    finally:
        # The answers are in, or one party is lost and the others wait for it in vain.
        for process in processes:
            process.terminate()
            process.join()


def _collect(pipes: list[Connection]) -> list[list[Turn]]:
    turns: dict[int, list[Turn]] = {}
    while len(turns) < len(pipes):
        waiting = {rank: pipe for rank, pipe in enumerate(pipes) if rank not in turns}
        ready = wait(list(waiting.values()))
        for rank, pipe in waiting.items():
            if pipe not in ready:
                continue
            try:
                reply = pipe.recv()
            except EOFError:
                raise RuntimeError(f"party {rank} ended without an answer") from None
            if isinstance(reply, str):
                raise RuntimeError(f"party {rank}: {reply}")
            turns[rank] = reply
    return [turns[rank] for rank in range(len(pipes))]


def _run_party(play: Play, party: Party, argument: Foreign, pipe: Connection) -> None:
    try:
        reply: list[Turn] | str = play(party, argument)
    except BaseException as error:
        # In one line, for the last line of a worker that failed is the reason that is reported.
        reply = " ".join(f"{type(error).__name__}: {error}".split())
    pipe.send(reply)
    # An engine's threads may outlive its last message and must not keep the process from ending.
    pipe.close()
    os._exit(0)


def first_highest(both: Foreign, join: Callable[[Foreign, Foreign], Foreign]) -> Foreign:
    """Shared values and their classes, [2, N, Q], to the class of the highest of each sample, [Q].

    Neighbours play each other, so that of equal ones the first class wins; `join` adds whoever is left over.
    """
    while (classes := both.shape[1]) > 1:
        even = classes // 2 * 2
        left, right = both[:, 0:even:2], both[:, 1:even:2]
        winners = left + (left[0] < right[0]) * (right - left)
        both = join(winners, both[:, even:]) if classes > even else winners
    return both[1, 0]


def serve(solve: Callable[[Work], Answer]) -> None:
    """The command line of a worker: read the work, solve it, write the answer."""
    source, target, variant, repeat = sys.argv[1:]
    with np.load(source) as file:
        counts, g, g_i = (file[name].astype(np.int64) for name in ("counts", "g", "g_i"))
        work = Work(counts, g, g_i, int(file["threshold"]), variant, int(repeat))
    Path(target).write_text(json.dumps(solve(work)))


def summary(turns: list[list[Turn]], labels: list[Integers], libraries: tuple[str, ...], rounds: int | None) -> Answer:
    """Put the parties' turns together: the slowest party's time, and everybody's traffic."""
    runs = list(zip(*turns, strict=True))
    received = [[turn.received for turn in run if turn.received is not None] for run in runs]
    complete = all(len(run) == len(turns) for run in received)
    return {
        "labels": [[int(label) for label in row] for row in labels],
        "seconds": [max(turn.seconds for turn in run) for run in runs],
        "bytes": median_low(sum(run) for run in received) if complete else None,
        "rounds": rounds,
        "versions": {name: version(name) for name in libraries},
    }
