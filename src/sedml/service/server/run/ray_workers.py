"""Workers on an operator's own Ray cluster: a task for each block (`ray_process` starts them).

A worker calls its server back, at `compute_host` and `compute_port`: with an opening that is good once, then over TLS
in which both ends show the certificate of the same kit, which lies on every node. Only there does it get a block to
work on. What a worker of S1 sends to S0's link port is copied to the worker of S0 that it is for, as it comes: the TLS
is between those two, and the server in between cannot read it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from time import monotonic

import structlog

from sedml.errors import ChannelError, WorkerGoneError
from sedml.extras import require_libraries
from sedml.mpc.channel import listen, secure
from sedml.service.server.link.handshakes import Handshakes
from sedml.service.server.link.ports import cannot_listen
from sedml.service.server.live.worker_connections import WorkerConnections, opening_of
from sedml.service.server.node import Node
from sedml.service.server.run.relay import keep_alive, relay
from sedml.service.server.run.worker_messages import Wire
from sedml.service.server.run.worker_pool import LocalWorkers, Route, Worker, WorkerPool

_COMING = 60.0  # seconds until a worker that was sent for must be there
_SHAKING = 10.0
_ANSWER = 15.0  # seconds that Ray may take to say how large its cluster is
_AGAIN = 60.0  # seconds before a cluster that could not be reached is tried again
_POLL = 0.5
_CALLS, _FETCHES = 0, 1
"""Why a worker connects: to be given work, or to fetch a connection that is for it."""

_log = structlog.get_logger("sedml.workers")


def open_workers(node: Node) -> WorkerPool:
    """The workers that the operator has set."""
    where, local = node.settings.compute, LocalWorkers(node.settings.compute_workers)
    if where == "local" or (where == "auto" and not (_is_installed() and _is_there())):
        return local
    require_libraries("ray")
    pool = RayWorkers(node, where)
    if where == "auto" and not pool.size(1):
        pool.close()
        return local
    return pool


def _is_installed() -> bool:
    return find_spec("ray") is not None


def _is_there() -> bool:
    """Whether there is a sign of a cluster on this machine, as `ray start` leaves it."""
    mark = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"  # noqa: S108 - Ray's own place
    return bool(os.environ.get("RAY_ADDRESS")) or mark.exists()


class RayWorkers:
    """Tasks on the cluster at `address`, which is Ray's name for it, or "auto"."""

    def __init__(self, node: Node, address: str) -> None:
        self._node, self._address = node, address
        self._kit = str(node.settings.compute_kit or node.kit.folder.absolute())
        self._lock = threading.Lock()
        self._numbers = count()
        self._coming: dict[int, Future[Wire]] = {}
        self._fetching: dict[int, socket.socket] = {}
        self._sizes: list[int] = []
        self._sized = threading.Condition(self._lock)
        self._process: subprocess.Popen[str] | None = None
        self._not_before = 0.0
        self._stop = threading.Event()
        host, port = node.settings.compute_host, node.settings.compute_port
        try:
            self._listener = listen(host, port)
        except ChannelError as error:
            raise cannot_listen("workers", host, port, error.__cause__) from None
        self._visits, self._open = WorkerConnections(), ExitStack()
        self._key = self._open.enter_context(self._visits.expected(self._visited))
        self._handshakes = Handshakes(self._listener, lambda: node.credentials, self._visits.receive)
        self._threads = ThreadPoolExecutor(thread_name_prefix="sedml-shake", max_workers=16)
        self._thread = threading.Thread(target=self._answer, name="sedml-workers", daemon=True)
        self._thread.start()
        with self._lock:
            self._running()  # it takes seconds to come up

    def size(self, under_way: int) -> int:
        """Cores of the cluster, or fewer if the operator wants that; 0 while it cannot be reached."""
        with self._sized:
            if not self._running():
                return 0
            self._sizes.clear()
            if not self._tell(size=True) or not self._sized.wait_for(lambda: self._sizes, _ANSWER):
                return 0
            most = self._node.settings.compute_workers
            return min(self._sizes[-1], most or self._sizes[-1])

    def hire(self, given_up: Callable[[], bool]) -> Worker:
        """A new task, once it has called."""
        number, coming = next(self._numbers), Future[Wire]()
        with self._lock:
            self._coming[number] = coming
            host, port = self._listener.getsockname()[:2]
            opening = opening_of(self._key, number, _CALLS).hex()
            told = self._running() and self._tell(hire=number, kit=self._kit, host=host, port=port, opening=opening)
        try:
            if not told:
                raise _none("The Ray cluster cannot be reached.")
            deadline = monotonic() + _COMING
            while not coming.done() and monotonic() < deadline and not given_up():
                wait([coming], _POLL)
            with self._lock:
                if not coming.done():
                    raise _none(f"No worker came from the Ray cluster within {_COMING:g} s.")
            wire = coming.result()
        except WorkerGoneError:
            self._let_go(number)
            raise
        finally:
            with self._lock:
                del self._coming[number]

        def pass_on(connection: socket.socket) -> Route:
            with self._lock:
                self._fetching[number] = connection.dup()
            connection.close()
            return (host, port), opening_of(self._key, number, _FETCHES)

        def end() -> None:
            wire.cut()
            wire.close()
            self._let_go(number)

        return Worker(wire, pass_on, end)

    def release(self, worker: Worker) -> None:
        """Its task is over; Ray keeps the process for the next."""
        worker.wire.cut()
        worker.wire.close()

    def sweep(self) -> None:
        """Nothing: no task waits for work."""

    def close(self) -> None:
        """End the ray_process, and with it all tasks."""
        self._stop.set()
        self._thread.join()
        with self._lock:
            process, self._process = self._process, None
            fetching, self._fetching = self._fetching, {}
        for connection in fetching.values():
            connection.close()
        if process is not None:
            _end(process)
        self._open.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._handshakes.close()
        self._listener.close()

    # ---- The ray_process; these hold the lock --------------------------------------------------------------------

    def _running(self) -> bool:
        """Start it unless it runs, or has failed a moment ago."""
        if self._process is not None and self._process.poll() is None:
            return True
        if monotonic() < self._not_before or self._stop.is_set():
            return False
        self._not_before = monotonic() + _AGAIN
        if self._process is not None:
            _end(self._process)
        self._process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-m", "sedml.service.server.run.ray_process", self._address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(self._process,), name="sedml-ray_process", daemon=True).start()
        return True

    def _tell(self, **order: object) -> bool:
        try:
            assert self._process is not None and self._process.stdin is not None  # noqa: S101, PT018 - it runs
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    # ---- Threads -----------------------------------------------------------------------------------------------

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Listen to what the ray_process says."""
        assert process.stdout is not None  # noqa: S101 - see above
        with suppress(ValueError, OSError):
            for line in process.stdout:
                said = json.loads(line)
                with self._sized:
                    if "size" in said:
                        self._sizes.append(int(said["size"]))
                        self._sized.notify_all()
                    elif "failed" in said and (coming := self._coming.get(said["failed"])) and not coming.done():
                        coming.set_exception(_none(f"A task of the Ray cluster failed ({said['what']})."))
                    elif "unreachable" in said:
                        _log.warning("compute.unreachable", error=str(said["unreachable"]), what="Blocks run here.")
        with self._sized:
            self._sizes.append(0)
            self._sized.notify_all()
            waiting = list(self._coming.values())
        for one in waiting:
            if not one.done():
                one.set_exception(_none("The connection to the Ray cluster is gone."))

    def _let_go(self, number: int) -> None:
        with self._lock:
            left = self._fetching.pop(number, None)
            if self._process is not None:
                self._tell(go=number)
        if left is not None:
            left.close()

    def _answer(self) -> None:
        while not self._stop.is_set():
            try:
                for stranger in self._handshakes.turn(_POLL):
                    stranger.close()  # whoever it is has no opening
            except Exception as error:
                _log.warning("workers.answer", error=type(error).__name__)
                self._stop.wait(_POLL)

    def _visited(self, connection: socket.socket, number: int, why: int) -> None:
        try:
            self._threads.submit(self._welcome if why == _CALLS else self._join, connection, number)
        except RuntimeError:  # it is closing
            connection.close()

    def _welcome(self, plain: socket.socket, number: int) -> None:
        """A worker calls: if it has the kit, it is the one that was sent for."""
        credentials = self._node.credentials
        try:
            stream = secure(plain, credentials, credentials.name, _SHAKING)
        except ChannelError as error:
            _log.info("worker.refused", error=type(error).__name__, what=error.what)
            return
        stream.settimeout(None)
        keep_alive(stream)
        wire = Wire(stream)
        with self._lock:
            coming = self._coming.get(number)
            if coming is not None and not coming.done():
                coming.set_result(wire)
                return
        wire.close()

    def _join(self, theirs: socket.socket, number: int) -> None:
        """A worker fetches the connection that is for it: copy, both ways, until either end hangs up."""
        with self._lock:
            other = self._fetching.pop(number, None)
        if other is None:
            theirs.close()
            return
        relay(theirs, other)


def _end(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _none(what: str) -> WorkerGoneError:
    return WorkerGoneError(what, "Look at the cluster. The job continues when it can.")
