"""The threads that drive jobs: S1 calls S0 about each job that can go on, until it has ended, and greets it between.

A meeting that breaks off is repeated after a pause that grows; that is how a restart of either server, or a cut link,
is survived. Only what cannot be mended by trying again ends a job (`SedmlError.ends_job`), and so does its time running
out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

import sqlalchemy as sa
import structlog

from sedml.errors import CheatingError, SedmlError
from sedml.mpc.channel import Channel
from sedml.service.problems import problem_of
from sedml.service.server import public_log
from sedml.service.server.jobs import charges, retention
from sedml.service.server.jobs.records import find, get, in_states, move, update
from sedml.service.server.link.calls import Host, call
from sedml.service.server.link.greeting import NO_JOB
from sedml.service.server.node import Node
from sedml.service.server.ops import certificate_watch
from sedml.service.server.run.meeting import Advance, meet
from sedml.service.server.run.ray_workers import open_workers
from sedml.service.server.storage.tables import jobs
from sedml.service.states import ENDED, ENDED_WITHOUT_RESULT, UNDER_WAY, JobState

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_SWEEP = 5.0
_LOOK = 0.5
_GREETING = 10.0
_DAY = 86_400.0
_AT_ONCE = 4

_log = structlog.get_logger("sedml.runner")

T = TypeVar("T")


def attempt(node: Node, job: str, meeting: Callable[[], Advance]) -> Advance:
    """One meeting about a job: an error that cannot be mended ends it, any other is noted and raised."""
    condemned = node.condemned.get(job)
    if condemned is not None:
        _fail(node, job, condemned)
        return "over"
    try:
        advance = meeting()
    except SedmlError as error:
        # Whoever caught the other server has condemned the job at once, whatever else has gone wrong since.
        cause = node.condemned.get(job, error)
        if cause.ends_job:
            _fail(node, job, cause)
            return "over"
        _note(node, job, problem_of(error).model_dump_json())
        raise
    except Exception:  # a fault of ours does not bring whoever was caught another try either
        if (caught := node.condemned.get(job)) is None:
            raise
        _fail(node, job, caught)
        return "over"
    _note(node, job, None)
    return advance


def calling(node: Node) -> dict[str, JobState | None]:
    """The jobs that S1 has something to call about, in whatever state they are here.

    Those that can go on, those whose end S0 has not heard of, and those that S0 knows something else of (`greeting`).
    """
    with node.store.read() as connection:
        going: dict[str, JobState | None] = {record.id: record.state for record in in_states(connection, UNDER_WAY)}
        untold = sa.select(jobs.c.id, jobs.c.state).where(jobs.c.state.in_(ENDED_WITHOUT_RESULT), ~jobs.c.peer_told)
        going |= {row.id: JobState(row.state) for row in connection.execute(untold)}
        for job in node.peer.differing - going.keys():
            record = find(connection, job)
            going[job] = None if record is None else record.state
        return going


@dataclass(frozen=True)
class _Pause:
    """How long to wait since the last call about a job, in the state it was in then."""

    state: JobState | None
    seconds: float
    until: float


class Runner:
    """Drives the jobs of a server between `start` and `stop`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._stop = threading.Event()
        self._busy: set[str] = set()
        self._channels: dict[str, Channel] = {}
        self._pauses: dict[str, _Pause] = {}
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="sedml-job")
        # Of its own: however long jobs run, the two servers stay in touch.
        self._greeter = ThreadPoolExecutor(1, thread_name_prefix="sedml-greeting")
        self._misses_peer = False
        self._greets = True
        self._thread = threading.Thread(target=self._loop, name="sedml-runner", daemon=True)
        self._host = Host(node, self._hosted) if node.role == 0 else None
        self._pool = open_workers(node)

    @property
    def link_port(self) -> int:
        """Where S0 listens for S1, and where S1 finds it."""
        return self._node.settings.link_port if self._host is None else self._host.port

    def start(self) -> None:
        """Begin."""
        if self._host is not None:
            self._host.start()
        self._thread.start()

    def stop(self) -> None:
        """Break off what is under way; it goes on when the server is started again."""
        self._stop.set()
        self._node.wake()
        with self._lock:
            for channel in self._channels.values():
                channel.abort()
        if self._host is not None:
            self._host.stop()
        if self._thread.ident is not None:  # or it was never started
            self._thread.join()
        for threads in (self._workers, self._greeter):
            threads.shutdown(wait=True, cancel_futures=True)
        self._pool.close()

    def _opened(self, job: str, channel: Channel) -> None:
        """A call is on its way; `stop` has to find it."""
        with self._lock:
            self._channels[job] = channel
            if self._stop.is_set():
                channel.abort()

    def _meet(self, job: str, channel: Channel) -> Advance:
        return meet(self._node, job, channel, self._pool)

    def _hosted(self, job: str, channel: Channel) -> Advance:
        return attempt(self._node, job, lambda: self._meet(job, channel))

    def _loop(self) -> None:
        next_sweep = next_look = 0.0
        while not self._stop.is_set():
            self._node.work.clear()
            if monotonic() >= next_sweep:
                _guarded(lambda: retention.sweep(self._node))
                _guarded(self._pool.sweep)
                self._watch_peer()
                next_sweep = monotonic() + _SWEEP
            if monotonic() >= next_look:
                _guarded(lambda: certificate_watch.warn(self._node))
                next_look = monotonic() + _DAY
            pause = _guarded(self._call_all) if self._node.role == 1 else None
            # Other replicas, who take requests as well, cannot wake this one.
            longest = _LOOK if self._node.settings.replicated else _SWEEP
            self._node.work.wait(min(longest, _SWEEP if pause is None else pause))

    def _watch_peer(self) -> None:
        """Say once that the other server is gone, and once that it is back."""
        silent = self._node.peer.is_silent()
        if silent and not self._misses_peer:
            seconds = round(self._node.peer.silent_seconds())
            _log.warning("peer.silent", peer=self._node.kit.peer, seconds=seconds, what="No job can run without it.")
        elif self._misses_peer and not silent:
            _log.info("peer.heard", peer=self._node.kit.peer)
        self._misses_peer = silent

    def _call_all(self) -> float:
        """Call about every job that may go on; how long to wait before the next look."""
        # A job that waits to be cosigned is worth a greeting at once, and some soon after it: S0 may have more.
        with self._node.store.read() as connection:
            waits = JobState.CREATED if public_log.due(connection) else None
        going = calling(self._node) | {NO_JOB: waits}
        soonest = _SWEEP
        with self._lock:
            self._pauses = {job: pause for job, pause in self._pauses.items() if job in going}
            for job, state in going.items():
                if job in self._busy:
                    continue
                pause = self._pauses.get(job)
                # A job that has moved on since has something new to call about.
                if pause is not None and pause.state is state and (left := pause.until - monotonic()) > 0:
                    soonest = min(soonest, left)
                else:
                    self._busy.add(job)
                    (self._greeter if job == NO_JOB else self._workers).submit(self._call, job, state)
        return soonest

    def _call(self, job: str, state: JobState | None) -> None:
        last, greeted = self._pauses.get(job), False
        try:
            if not self._stop.is_set():
                attempt(self._node, job, lambda: call(self._node, job, self._meet, self._opened))
                if job == NO_JOB:
                    greeted = self._greets = True
        except SedmlError as error:
            if job != NO_JOB:
                _log.info("job.waits", job=job, error=type(error).__name__, what=error.what)
            elif self._greets:  # once, however long it lasts
                self._greets = False
                _log.warning("greeting.failed", error=type(error).__name__, what=error.what)
        except Exception as error:
            _log.error("job.error", job=job, error=type(error).__name__)
        finally:
            with self._lock:
                self._busy.discard(job)
                self._node.peer.has_called_about(job)
                self._channels.pop(job, None)
                seconds = _FIRST_PAUSE if last is None or last.state is not state else 2 * last.seconds
                seconds = min(seconds, _GREETING if greeted else _LONGEST_PAUSE)
                self._pauses[job] = _Pause(state, seconds, monotonic() + seconds)
            self._node.wake()


def _guarded(work: Callable[[], T]) -> T | None:
    """Whatever goes wrong in one piece of work, the others go on."""
    try:
        return work()
    except SedmlError as error:
        _log.error("runner", error=type(error).__name__, what=error.what)
    except Exception as error:  # a fault of ours
        _log.error("runner", error=type(error).__name__)
    return None


def _fail(node: Node, job: str, error: SedmlError) -> None:
    """End a job that must not go on. If it was started it stays charged.

    Until that is on disk the job is condemned in memory: a full disk must not give whoever was caught another try.
    """
    node.condemned[job] = error
    _log.error("job.failed", job=job, error=type(error).__name__, what=error.what)
    with node.store.write() as connection:
        record = get(connection, job, "update")
        if record.state not in ENDED:
            record = move(connection, node, record, "fail", node.kit.name, problem=problem_of(error).model_dump_json())
        # Once for a job: whoever was caught can call about it again and again, also when it has long ended.
        if isinstance(error, CheatingError) and not public_log.alarmed(connection, job):
            told = {"kind": "alarm", "job": job}
            public_log.write(connection, node, node.kit.peer, public_log.ALARM, job, error.what, told)
    node.condemned.pop(job, None)
    charges.cancel(node, job, record.terms)


def _note(node: Node, job: str, problem: str | None) -> None:
    """Say in the status of a job what it is waiting for, or that it waits for nothing any more."""
    with node.store.read() as connection:
        record = find(connection, job)
        if record is None or record.state in ENDED or (problem is None and record.problem is None):
            return
    with node.store.write() as connection:
        if get(connection, job, "update").state not in ENDED:
            update(connection, job, problem=problem)
