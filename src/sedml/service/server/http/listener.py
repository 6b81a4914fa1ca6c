"""The socket that the interface listens on, which takes no more connections than the server can serve.

A connection counts from the moment it is taken, so also while its TLS handshake is pending.
"""

from __future__ import annotations

import os
import resource
import socket
import weakref
from contextlib import suppress
from typing import Any

from sedml.service.server.http.connections import Connections, Peer
from sedml.service.server.link.ports import cannot_listen
from sedml.service.server.link.unidentified import source_of

_OTHER_FILES = 512  # of databases, the link and its strangers, uploads, downloads


class Listener(socket.socket):
    """A listening socket with a limit; what comes above that is closed at once."""

    connections: Connections
    taken: weakref.WeakValueDictionary[Peer, _Connection]
    has_cut: bool

    def accept(self) -> tuple[socket.socket, Any]:
        """Take a connection, if there is room for it."""
        if self.has_cut:
            # The event loop takes as many as wait, unless it is told that none do: it is to clean up first.
            self.has_cut = False
            raise BlockingIOError
        taken, address = super().accept()
        if len(self.connections) >= self.connections.most:
            taken.close()
            self.connections.refused += 1
            # What the event loop takes for a client that left before it was taken.
            raise ConnectionAbortedError
        peer: Peer = address[:2]
        connection = _Connection(taken.family, taken.type, taken.proto, taken.detach())
        connection.release = weakref.finalize(connection, self.connections.leave, peer)
        going = self.connections.add(peer, source_of(peer[0]))
        self.taken[peer] = connection
        if going is not None and (other := self.taken.pop(going, None)) is not None:
            # The event loop takes it for a client that has left, and cleans up.
            self.has_cut = True
            with suppress(OSError):
                other.shutdown(socket.SHUT_RDWR)
        return connection, address


class _Connection(socket.socket):
    """A connection that says when it is closed."""

    release: weakref.finalize[..., Any]

    def close(self) -> None:
        super().close()
        self.release()


def affordable(most: int) -> int:
    """How many connections the process may have, so many at most; raises its own limit of open files to that end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = most + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return max(1, min(most, soft - _OTHER_FILES))
    return most


def open_listener(bound: socket.socket, connections: Connections) -> Listener:
    """Take connections from this address; other workers may do so too. The caller closes it."""
    listener = Listener(bound.family, bound.type, bound.proto, os.dup(bound.fileno()))
    listener.connections = connections
    listener.has_cut = False
    listener.taken = weakref.WeakValueDictionary()
    listener.setblocking(False)
    return listener


def bind(host: str, port: int) -> socket.socket:
    """This address, for `open_listener`; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small pieces at once only on sockets that say they are TCP.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # From the beginning: whether it blocks is the same for all who share it, and a worker that starts later must not
    # make those wait that are in the middle of taking connections.
    bound.setblocking(False)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise cannot_listen("clients", host, port, error) from None
    return bound
