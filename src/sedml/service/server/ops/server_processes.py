"""Several processes that serve at one address: started, told what this one is told, and replaced when they end.

They share the listening socket, so whoever waits there to be taken is taken by one of the others if a worker ends.
Which of them drives the jobs is settled as among replicas on several machines (`leadership`).
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

import structlog

from sedml.errors import SedmlError, ServerError
from sedml.service.server.ops.logs import describe_exception

_STOPPING = {signal.SIGTERM, signal.SIGINT}
_TOLD = _STOPPING | {signal.SIGHUP, signal.SIGCHLD}
_PAUSE = 0.5  # seconds before one is started in the place of one that could not start
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux

_log = structlog.get_logger("sedml.workers")

Work = Callable[[Callable[[], None]], None]


def supervise(count: int, work: Work, ready: Callable[[], None]) -> None:
    """Run `work` in so many processes until SIGTERM or SIGINT; it is given a function to tell that it has started.

    `ready` is called when the first has. One that ends is replaced; one that gives up before any has started ends all.
    There must be no threads yet.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD)
    starting: dict[int, int] = {}  # by process, the pipe over which it tells
    started: set[int] = set()
    told = hasty = False
    try:
        while True:
            while not hasty and len(starting) + len(started) < count:
                process, pipe = _begin(work, before)
                starting[process] = pipe
            number = _next_signal(_PAUSE if hasty else None)
            if number in _STOPPING:
                return
            if number == signal.SIGHUP:
                _tell(started, signal.SIGHUP)
            for process in [one for one, pipe in starting.items() if _has_told(pipe)]:
                os.close(starting.pop(process))
                started.add(process)
            if started and not told:
                told = True
                ready()
            hasty = _forget_ended(starting, started, told)
    finally:
        _tell([*starting, *started], signal.SIGTERM)
        for process in (*starting, *started):
            os.waitpid(process, 0)
        for pipe in starting.values():
            os.close(pipe)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(work: Work, mask: Iterable[int]) -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    parent = os.getpid()
    process = os.fork()
    if process:
        os.close(writing)
        return process, reading

    def started() -> None:
        try:
            os.write(writing, b".")
            os.kill(parent, signal.SIGCHLD)  # it waits for signals alone
        except (BrokenPipeError, ProcessLookupError):  # it was killed just now, and this one is about to hear of it
            os._exit(0)

    code = 1
    try:
        os.close(reading)
        _end_with(parent)
        # Told to stop before it listens, it does so at once; a crash would lose nothing either.
        for number in _STOPPING:
            signal.signal(number, lambda *_: os._exit(0))
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        work(started)
        code = 0
    except SedmlError as error:
        _log.error("worker", error=type(error).__name__, what=error.what, do=error.do)
    except BaseException as error:
        _log.error("worker", exception=describe_exception(error))
    finally:
        # Nothing of the process that it was forked from is its own to clean up.
        os._exit(code)


def _end_with(parent: int) -> None:
    """Stop when the process that started this one is gone, however it ended."""
    with suppress(AttributeError, OSError):  # where there is no Linux, whoever started them stops them
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(0)


def _has_told(pipe: int) -> bool:
    try:
        return bool(os.read(pipe, 1))
    except BlockingIOError:
        return False


def _forget_ended(starting: dict[int, int], started: set[int], told: bool) -> bool:
    """Whether one of those that have ended had not started yet; raises if it gave up, and none ever has."""
    hasty = False
    for process in (*starting, *started):
        ended, status = os.waitpid(process, os.WNOHANG)
        if not ended:
            continue
        code = os.waitstatus_to_exitcode(status)
        _log.warning("worker.ended", code=code, what="Another takes its place.")
        if process in started:
            started.remove(process)
            continue
        os.close(starting.pop(process))
        if code > 0 and not told:
            raise ServerError(
                f"A worker could not start (exit code {code}); the others were stopped.", "See what it wrote above."
            )
        hasty = True
    return hasty


def _next_signal(patience: float | None) -> int | None:
    if patience is None:
        return signal.sigwait(_TOLD)
    found = signal.sigtimedwait(_TOLD, patience)
    return None if found is None else found.si_signo


def _tell(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)
