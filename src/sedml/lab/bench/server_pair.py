"""S0 and S1 for a measurement: as two operating-system processes over TLS on loopback, or as two threads.

A server process lives through all repetitions, as a real one does, and is told over a pipe what to run next. Before the
clock starts it has connected.
"""

from __future__ import annotations

import gc
import multiprocessing
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from sedml.mpc.certificates import Credentials, throwaway_credentials
from sedml.mpc.channel import Channel, accept, connect, listen, memory_pair
from sedml.mpc.malloc import keep_freed_memory

T = TypeVar("T")

Transport: TypeAlias = Literal["memory", "tcp"]

_TIMEOUT = 600.0


class Runner(Protocol):
    """Runs a job on both servers."""

    def __call__(self, task: bytes, s0: Callable[[Channel], T], s1: Callable[[Channel], T], delay: float) -> list[T]:
        """What S0 and S1 came to, over a new link with this delay one way. Both sides can be pickled."""


@contextmanager
def pair(transport: Transport) -> Iterator[Runner]:
    """Both servers, until the block ends."""
    with (_processes if transport == "tcp" else _threads)() as runner:
        yield runner


@contextmanager
def _threads() -> Iterator[Runner]:
    with ThreadPoolExecutor(2) as threads:

        def run(task: bytes, s0: Callable[[Channel], T], s1: Callable[[Channel], T], delay: float) -> list[T]:
            ends = memory_pair(task, timeout=_TIMEOUT, delay=delay)
            with ends[0], ends[1]:
                sides = [threads.submit(side, end) for side, end in zip((s0, s1), ends, strict=True)]
                return [side.result() for side in sides]

        yield run


@contextmanager
def _processes() -> Iterator[Runner]:
    spawn = multiprocessing.get_context("spawn")
    credentials = throwaway_credentials()
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        pipes, processes = [], []
        for role in (0, 1):
            ours, theirs = spawn.Pipe()
            end = listener if role == 0 else port
            process = spawn.Process(target=_serve, args=(credentials[role], end, theirs), daemon=True)
            process.start()
            theirs.close()
            pipes.append(ours)
            processes.append(process)

        def run(task: bytes, s0: Callable[[Channel], T], s1: Callable[[Channel], T], delay: float) -> list[T]:
            for pipe, side in zip(pipes, (s0, s1), strict=True):
                pipe.send((task, side, delay))
            return [_reply(pipe) for pipe in pipes]

        try:
            yield run
        finally:
            for pipe, process in zip(pipes, processes, strict=True):
                pipe.close()
                process.join(5)
                process.terminate()


def _reply(pipe: Connection) -> Any:  # noqa: ANN401 - whatever the side returned
    reply = pipe.recv()
    if isinstance(reply, BaseException):
        raise reply
    return reply


def _serve(credentials: Credentials, end: socket.socket | int, pipe: Connection) -> None:
    """The server process: run job after job until the pipe is closed."""
    # What is loaded stays: the collector need not look at it again in the middle of a job.
    gc.freeze()
    keep_freed_memory()
    while True:
        try:
            task, side, delay = pipe.recv()
        except EOFError:
            return
        try:
            if isinstance(end, socket.socket):
                channel: Channel = accept(end, task, credentials, timeout=_TIMEOUT, delay=delay)
            else:
                channel = connect(("127.0.0.1", end), task, credentials, timeout=_TIMEOUT, delay=delay)
            with channel:
                pipe.send(side(channel))
        except BaseException as error:
            pipe.send(error)
