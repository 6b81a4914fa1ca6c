"""The threads that drive jobs: S1 calls S0 about each job that can go on, until it has ended.

A meeting that breaks off is repeated after a pause that grows; that is how a restart of either server, or a cut link,
is survived. Only what cannot be mended by trying again ends a job (`_FATAL`), and so does its time running out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic

import structlog

from sedml.channel import Channel
from sedml.errors import CorrelationError, ReplayError, SedmlError, ShareError
from sedml.messages import JobState
from sedml.problems import problem_of
from sedml.server import budget, retention
from sedml.server.link import Host, call
from sedml.server.meeting import Progress, meet
from sedml.server.node import Node, now
from sedml.server.records import find, get, in_states, move, update
from sedml.server.states import ENDED

__all__ = ["Runner", "attempt"]

_FATAL = (ReplayError, ShareError, CorrelationError)
_GOING = (JobState.CLOSED, JobState.DEALT, JobState.RUNNING)
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_SWEEP = 5.0
_AT_ONCE = 4

_log = structlog.get_logger("sedml.runner")


def attempt(node: Node, job: str, meeting: Callable[[], Progress]) -> Progress:
    """One meeting about a job: an error that cannot be mended ends it, any other is noted and raised."""
    try:
        progress = meeting()
    except _FATAL as error:
        _fail(node, job, error)
        return "over"
    except SedmlError as error:
        _note(node, job, error)
        raise
    if progress == "done":
        _log.info("job.done", job=job)
    return progress


@dataclass(frozen=True)
class _Pause:
    """Since the last call about a job, in the state it was in then."""

    state: JobState
    seconds: float
    until: float


class Runner:
    """Drives the jobs of a server between `start` and `stop`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._stop = threading.Event()
        self._busy: set[str] = set()
        self._pauses: dict[str, _Pause] = {}
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sedml-job")
        self._thread = threading.Thread(target=self._loop, name="sedml-runner", daemon=True)
        self._host = Host(node, self._hosted) if node.role == 0 else None

    def start(self) -> None:
        """Begin."""
        if self._host is not None:
            self._host.start()
        self._thread.start()

    def stop(self) -> None:
        """Break off what is under way; it goes on when the server is started again."""
        self._stop.set()
        self._node.wake()
        if self._host is not None:
            self._host.stop()
        self._thread.join()
        self._workers.shutdown(wait=True, cancel_futures=True)

    def _hosted(self, job: str, channel: Channel) -> Progress:
        return attempt(self._node, job, lambda: meet(self._node, job, channel))

    def _loop(self) -> None:
        next_sweep = 0.0
        while not self._stop.is_set():
            self._node.work.clear()
            try:
                if monotonic() >= next_sweep:
                    retention.sweep(self._node)
                    next_sweep = monotonic() + _SWEEP
                pause = self._call_all() if self._node.role == 1 else _SWEEP
            except SedmlError as error:
                _log.error("runner", error=type(error).__name__, what=error.what)
                pause = _LONGEST_PAUSE
            except Exception as error:  # a fault of ours must not stop all other jobs
                _log.error("runner", error=type(error).__name__)
                pause = _LONGEST_PAUSE
            self._node.work.wait(pause)

    def _call_all(self) -> float:
        """Call about every job that may go on; how long to wait before the next look."""
        with self._node.store.read() as connection:
            going = {record.id: record.state for record in in_states(connection, *_GOING)}
        soonest = _SWEEP
        with self._lock:
            self._pauses = {job: pause for job, pause in self._pauses.items() if job in going}
            for job, state in going.items():
                if job in self._busy:
                    continue
                pause = self._pauses.get(job)
                # A job that has moved on since, as when the dealer is done, has something new to call about.
                if pause is not None and pause.state is state and (left := pause.until - monotonic()) > 0:
                    soonest = min(soonest, left)
                else:
                    self._busy.add(job)
                    self._workers.submit(self._call, job, state)
        return soonest

    def _call(self, job: str, state: JobState) -> None:
        progress: Progress | None = None
        try:
            if not self._stop.is_set():
                progress = attempt(self._node, job, lambda: call(self._node, job))
        except SedmlError as error:
            _log.info("job.waits", job=job, error=type(error).__name__, what=error.what)
        except Exception as error:
            _log.error("job.error", job=job, error=type(error).__name__)
        finally:
            with self._lock:
                self._busy.discard(job)
                last = self._pauses.get(job)
                seconds = _FIRST_PAUSE if last is None or last.state is not state else 2 * last.seconds
                # Once the roster stands, only the dealer can bring the job on.
                seconds = _LONGEST_PAUSE if progress == "agreed" else min(seconds, _LONGEST_PAUSE)
                self._pauses[job] = _Pause(state, seconds, monotonic() + seconds)
            self._node.wake()


def _fail(node: Node, job: str, error: SedmlError) -> None:
    """End a job that must not go on. If it was started it stays charged."""
    _log.error("job.failed", job=job, error=type(error).__name__, what=error.what)
    with node.store.write() as connection:
        record = get(connection, job, "update")
        if record.state in ENDED:
            return
        record = move(connection, node, record, "fail", node.kit.name, problem=problem_of(error).model_dump_json())
    budget.cancel(node, job, record.terms)


def _note(node: Node, job: str, error: SedmlError) -> None:
    """Say in the status of a job what it is waiting for; give up once its time is over."""
    with node.store.write() as connection:
        record = find(connection, job, "update")
        if record is None or record.state in ENDED:
            return
        if record.state is JobState.RUNNING and now(node) > record.expires_at:
            move(connection, node, record, "fail", node.kit.name, problem=problem_of(error).model_dump_json())
        else:
            update(connection, job, problem=problem_of(error).model_dump_json())
