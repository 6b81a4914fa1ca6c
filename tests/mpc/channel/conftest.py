"""Both transports behind one factory, and two threads to play the two servers."""

from __future__ import annotations

import queue
import socket
import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from sedml.mpc.certificates import Authority, Credentials, client_context, issue_certificate, make_authority
from sedml.mpc.channel import Channel, MemoryChannel, accept, connect, listen
from sedml.mpc.channel.memory import Mailbox

TASK = bytes(range(16))
WITHIN = 120.0
"""Seconds that anything may take on a busy machine."""


def run_both(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    """What the two callables, run at the same time, return or raise."""
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(first), pool.submit(second)]
        return [future.exception(WITHIN) or future.result() for future in futures]


@dataclass(frozen=True)
class Servers:
    authority: Authority
    s0: Credentials
    s1: Credentials

    @contextmanager
    def link(
        self,
        kind: str,
        *,
        tasks: tuple[bytes, bytes] = (TASK, TASK),
        timeout: float = WITHIN,
        delays: tuple[float, float] = (0.0, 0.0),
    ) -> Iterator[tuple[Channel, Channel]]:
        """Both ends of a channel, which may disagree. The time-out is of what they say, and not of how they meet."""
        with ExitStack() as stack:
            if kind == "memory":
                forth: Mailbox = queue.SimpleQueue()
                back: Mailbox = queue.SimpleQueue()
                ends: list[Any] = [
                    MemoryChannel(tasks[0], back, forth, delay=delays[0]),
                    MemoryChannel(tasks[1], forth, back, delay=delays[1]),
                ]
            else:
                listener = stack.enter_context(listen("127.0.0.1", 0))
                address = listener.getsockname()
                ends = run_both(
                    lambda: accept(listener, tasks[0], self.s0, timeout=WITHIN, delay=delays[0]),
                    lambda: connect(address, tasks[1], self.s1, timeout=WITHIN, delay=delays[1]),
                )
            for end in ends:
                end._timeout = timeout
                stack.enter_context(end)
            yield ends[0], ends[1]

    @contextmanager
    def raw_peer(self, *, timeout: float = WITHIN) -> Iterator[tuple[Channel, ssl.SSLSocket]]:
        """S0's channel, and a TLS connection of S1 on which the test can do what no channel would."""

        def dial() -> ssl.SSLSocket:
            plain = socket.create_connection(address, timeout=WITHIN)
            wrapped = client_context(self.s1).wrap_socket(plain, server_hostname="s0")
            assert wrapped.recv(1) == b"+"
            return wrapped

        with listen("127.0.0.1", 0) as listener:
            address = listener.getsockname()
            channel, peer = run_both(lambda: accept(listener, TASK, self.s0, timeout=WITHIN), dial)
        with channel, peer:
            channel._timeout = timeout
            yield channel, peer


@pytest.fixture(scope="session")
def servers() -> Servers:
    authority = make_authority()
    return Servers(authority, issue_certificate(authority, "s0"), issue_certificate(authority, "s1"))


@pytest.fixture(scope="session")
def both() -> Callable[[Callable[[], Any], Callable[[], Any]], list[Any]]:
    return run_both


@pytest.fixture(scope="session")
def task() -> bytes:
    return TASK
