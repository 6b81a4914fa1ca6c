"""The link of the deployment: S0 waits for S1, and S1 says which job it calls about.

One connection is one meeting. Whoever connects gets no further than the door without S1's certificate, so the lines are
S1's alone. If S1 calls about a job that an older connection is still busy with, that one is dead (its
network was cut, or S1 started anew): it is cut off. Workers of S1 come to the same port (`worker_connections`).
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import structlog

from sedml.errors import ChannelError, SedmlError
from sedml.mpc.channel import Channel, TlsChannel, connect, listen
from sedml.service.server.link.handshakes import Handshakes
from sedml.service.server.link.ports import cannot_listen
from sedml.service.server.node import Node

_HELLO = b"sedml/link/hello"
_LINES = 16
_PATIENCE = 5.0
_POLL = 0.5

T = TypeVar("T")
Handler = Callable[[str, Channel], T]
"""What is said about a job once it is clear which one: a meeting."""

_log = structlog.get_logger("sedml.link")


def call(node: Node, job: str, handle: Handler[T], opened: Callable[[str, Channel], None] = lambda _, __: None) -> T:
    """S1's end: call S0 about a job, and say the rest; `opened` hears of the channel before anything is said."""
    settings = node.settings
    address = settings.link_host, settings.link_port
    with connect(
        address, _HELLO, node.credentials, peer="s0", patience=_PATIENCE, timeout=settings.link_timeout
    ) as channel:
        opened(job, channel)
        channel.exchange(0, "hello", [np.frombuffer(bytes.fromhex(job), np.uint8)])
        node.peer.hear()
        return handle(job, channel)


class Host:
    """S0's end: a thread that answers calls, each handled by a thread of its own."""

    def __init__(self, node: Node, handle: Handler[object]) -> None:
        self._node = node
        self._handle = handle
        self._stop = threading.Event()
        self._calls: dict[str, Channel] = {}
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        host, port = node.settings.link_host, node.settings.link_port
        try:
            self._listener = listen(host, port)
        except ChannelError as error:
            raise cannot_listen("S1", host, port, error.__cause__) from None
        self._handshakes = Handshakes(self._listener, lambda: node.credentials, node.worker_connections.receive)
        self._workers = ThreadPoolExecutor(_LINES, thread_name_prefix="sedml-link")
        self._thread = threading.Thread(target=self._answer, name="sedml-link", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._listener.getsockname()[1]
        return port

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()
        _log.info("listening", callers="S1", host=self._node.settings.link_host, port=self.port)

    def stop(self) -> None:
        """Cut off all calls and answer no more."""
        self._stop.set()
        with self._lock:
            for channel in self._calls.values():
                channel.abort()
        if self._thread.is_alive():
            self._thread.join()
        self._workers.shutdown(wait=True)
        self._handshakes.close()
        self._listener.close()

    def _answer(self) -> None:
        while not self._stop.is_set():
            try:
                for connection in self._handshakes.turn(_POLL):
                    self._workers.submit(self._serve, connection)
            except Exception as error:  # such as too many open files: it passes
                _log.warning("link.answer", error=type(error).__name__)
                self._stop.wait(_POLL)

    def _serve(self, connection: ssl.SSLSocket) -> None:
        try:
            with TlsChannel(connection, _HELLO, timeout=self._node.settings.link_timeout) as channel:
                [called] = channel.exchange(0, "hello", [np.zeros(16, np.uint8)])
                self._node.peer.hear()
                self._meet(called.tobytes().hex(), channel)
        except SedmlError as error:
            _log.info("link.call", error=type(error).__name__, what=error.what)
        except Exception as error:
            _log.error("link.call", error=type(error).__name__)

    def _meet(self, job: str, channel: Channel) -> None:
        with self._lock:
            older = self._calls.get(job)
            if older is not None:
                older.abort()
            self._calls[job] = channel
            turn = self._locks.setdefault(job, threading.Lock())
        try:
            with turn:
                # Of several that have waited only the newest is alive, and it may be done by now.
                with self._lock:
                    newest = self._calls.get(job) is channel
                if newest and not self._stop.is_set():
                    self._handle(job, channel)
        finally:
            with self._lock:
                if self._calls.get(job) is channel:
                    del self._calls[job]
                    del self._locks[job]
