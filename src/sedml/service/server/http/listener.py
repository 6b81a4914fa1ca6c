"""The socket that the interface listens on, which takes no more connections than the server can serve.

A connection counts from the moment it is taken, so also while its TLS handshake is pending. One address may hold half
of all at most: whoever opens as many as it can does not keep all others out.
"""

from __future__ import annotations

import resource
import socket
import weakref
from collections import Counter
from typing import Any

from sedml.errors import InputError
from sedml.service.server.http.limits import source_of

__all__ = ["Listener", "affordable", "open_listener"]

_OTHER_FILES = 256  # of databases, the link, uploads


class Listener(socket.socket):
    """A listening socket with a limit; what comes above that is closed at once."""

    most: int
    held: Counter[str]

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection, if there is room for it."""
        taken, address = super().accept()
        source = source_of(str(address[0]))
        if self.held.total() >= self.most or self.held[source] >= max(1, self.most // 2):
            taken.close()
            # What the event loop takes for a client that left before it was taken.
            raise ConnectionAbortedError
        connection = _Connection(taken.family, taken.type, taken.proto, taken.detach())
        self.held[source] += 1
        connection.release = weakref.finalize(connection, _let_go, self.held, source)
        return connection, address


class _Connection(socket.socket):
    """A connection that says when it is closed."""

    release: weakref.finalize[..., Any]

    def close(self) -> None:
        super().close()
        self.release()


def affordable(most: int) -> int:
    """So many connections, or as many as the process may have; raises its own limit of open files as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = most + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, min(most, soft - _OTHER_FILES))
    return most


def open_listener(host: str, port: int, most: int) -> Listener:
    """Listen on this address; port 0 takes any free one. The caller closes it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small pieces at once only on sockets that say they are TCP.
    listener = Listener(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.most = most
    listener.held = Counter()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise InputError(
            f"Cannot listen on {host} port {port} ({error.strerror}).",
            "Choose an address of this machine and a free port.",
        ) from None
    listener.setblocking(False)
    return listener


def _let_go(held: Counter[str], source: str) -> None:
    held[source] -= 1
    if not held[source]:
        del held[source]
