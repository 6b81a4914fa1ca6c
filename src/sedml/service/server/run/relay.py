"""Two connections joined into one: what comes over either goes out over the other, unread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

_CHUNK = 1 << 18
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""With these, a machine without power is missed within half a minute."""


def relay(one: socket.socket, other: socket.socket) -> None:
    """Copy, both ways, until either end hangs up; both connections are closed then."""
    for end in (one, other):
        end.setblocking(True)
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(end)
    ended = count()
    for pair in ((one, other), (other, one)):
        threading.Thread(target=_copy, args=(*pair, ended), name="sedml-relay", daemon=True).start()


def _copy(source: socket.socket, target: socket.socket, ended: Iterator[int]) -> None:
    """One way, until that ends; whoever is the second to end closes both."""
    space, way = memoryview(bytearray(_CHUNK)), socket.SHUT_RDWR
    with suppress(OSError):
        while size := source.recv_into(space):
            target.sendall(space[:size])
        way = socket.SHUT_WR  # the other end may have something left to say
    with suppress(OSError):
        target.shutdown(way)
    if next(ended):
        source.close()
        target.close()


def keep_alive(stream: socket.socket) -> None:
    """Find out when the other machine is gone without a word."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
