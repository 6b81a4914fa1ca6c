"""Who works on the blocks of jobs: processes of this machine, started when they are needed.

A pool hands out workers and takes them back. Each works on one block at a time and talks to the server alone
(`worker_messages`), over sockets that nobody else has an end of; nothing that it is given goes through a file or a log.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

from sedml.service.server.run.worker_messages import Wire

_IDLE = 60.0  # seconds after which a worker without work goes
_GOING = 5.0
_MOMENT = 0.5  # seconds to wait for one to be done before there is one more: each takes memory

Route = tuple[tuple[str, int] | None, bytes]
"""Where a worker finds a connection, and what it says there first."""


@dataclass(frozen=True, eq=False)
class Worker:
    """One that is at hand."""

    wire: Wire
    pass_on: Callable[[socket.socket], Route] = field(repr=False)
    """Let it have a connection that somebody has opened to this server: call it, then send the assignment."""
    end: Callable[[], None] = field(repr=False)
    """Ends it at once, whatever it is doing; from any thread."""


class WorkerPool(Protocol):
    """Hands out workers; from any thread."""

    def size(self, under_way: int) -> int:
        """How many can work at the same time, on a link on which so many had better be; 0 if it is better alone."""

    def hire(self, given_up: Callable[[], bool]) -> Worker:
        """One that is free; it may take a while, unless it is given up."""

    def release(self, worker: Worker) -> None:
        """It has done its work."""

    def sweep(self) -> None:
        """Let go of those who have had nothing to do for a while."""

    def close(self) -> None:
        """End all that are left."""


class LocalWorkers:
    """Processes of this machine."""

    def __init__(self, size: int | None = None) -> None:
        self._size = self._most = _cores() if size is None else size
        self._lock = threading.Lock()
        self._released = threading.Condition(self._lock)
        self._idle: list[tuple[Worker, float]] = []
        self._processes: dict[Worker, subprocess.Popen[bytes]] = {}

    def size(self, under_way: int) -> int:
        """A single worker would do no more than the server itself; and those that wait for the link take no core."""
        self._most = max(self._size, under_way)
        return self._most if self._size > 1 else 0

    def hire(self, given_up: Callable[[], bool] = lambda: False) -> Worker:
        """One that is idle, or a new one; if there are as many as can work, one of them will soon be done."""

        def can_go_on() -> bool:
            return bool(self._idle) or len(self._processes) < self._most or given_up()

        while True:
            with self._released:
                self._released.wait_for(can_go_on, _MOMENT)
                if not self._idle:
                    break
                worker, _ = self._idle.pop()
                alive = self._processes[worker].poll() is None
            if alive:
                return worker
            worker.end()
        return self._start()

    def release(self, worker: Worker) -> None:
        """It stays for the next block."""
        with self._lock:
            if worker in self._processes:
                self._idle.append((worker, monotonic()))
                self._released.notify()

    def sweep(self) -> None:
        """End those that have been idle for a minute."""
        with self._lock:
            going = [worker for worker, since in self._idle if monotonic() - since > _IDLE]
            self._idle = [one for one in self._idle if one[0] not in going]
        for worker in going:
            worker.end()

    def close(self) -> None:
        """End them all, and wait until they are gone."""
        with self._lock:
            left = list(self._processes)
            self._idle.clear()
        for worker in left:
            worker.end()

    def _start(self) -> Worker:
        ends = [socket.socketpair() for _ in range(2)]
        (wire, their_wire), (hand, their_hand) = ends
        theirs = their_wire, their_hand
        try:
            command = [sys.executable, "-m", "sedml.service.server.run.block_worker"]
            process = subprocess.Popen(  # noqa: S603 - this very program
                [*command, *(str(one.fileno()) for one in theirs)],
                pass_fds=[one.fileno() for one in theirs],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # it goes with the server, not with what is typed at its terminal
            )
        finally:
            for one in theirs:
                one.close()

        def pass_on(connection: socket.socket) -> Route:
            with connection:
                socket.send_fds(hand, [b"!"], [connection.fileno()])
            return None, b""

        def end() -> None:
            process.kill()
            with self._lock:
                self._forget(worker)
            worker.wire.cut()
            worker.wire.close()
            hand.close()

        worker = Worker(Wire(wire), pass_on, end)
        with self._lock:
            self._processes[worker] = process
        return worker

    def _forget(self, worker: Worker) -> None:
        process = self._processes.pop(worker, None)
        self._idle = [one for one in self._idle if one[0] is not worker]
        if process is not None:
            process.wait(_GOING)
            self._released.notify()


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
