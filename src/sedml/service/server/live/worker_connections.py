"""Connections of S1's workers: they come to the one port of the link, and S0 passes each on to a worker of its own.

What such a connection opens with is in the clear, ahead of TLS, which is between the two workers: S0 only finds out
whom it is for. The opening is made with a key that S0 drew for the run and told S1 over their link, and is good once.
Whoever overhears it can do no more than be refused by a worker for want of a certificate.

    magic    4 bytes  no record of TLS begins like that
    name    16 bytes  of the run
    block    4 bytes  little-endian
    attempt  4 bytes  little-endian: a block that runs again has a higher one
    check   16 bytes  of all these
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock

MAGIC = b"SEDB"
KEY = 32
"""Bytes of the key of a run."""
_NAME = 16
_CHECK = 16
_BODY = struct.Struct(f"<4s{_NAME}sII")
OPENING = _BODY.size + _CHECK
"""Bytes of an opening."""

Visit = Callable[[socket.socket, int, int], None]
"""Takes over a connection for a block, at this attempt."""


def opening_of(key: bytes, block: int, attempt: int) -> bytes:
    """What a worker of S1 says first."""
    body = _BODY.pack(MAGIC, _name(key), block, attempt)
    return body + _check(key, body)


def _name(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=_NAME, person=b"sedml-run-name").digest()


def _check(key: bytes, body: bytes) -> bytes:
    return hashlib.blake2b(body, key=key, digest_size=_CHECK, person=b"sedml-visit").digest()


@dataclass
class WorkerConnections:
    """The runs that expect some."""

    _expecting: dict[bytes, tuple[bytes, Visit]] = field(default_factory=dict, repr=False)
    _seen: dict[bytes, dict[int, int]] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @contextmanager
    def expected(self, visit: Visit) -> Iterator[bytes]:
        """Have `visit` take over the connections of a run until the block ends; the key of the run."""
        key = secrets.token_bytes(KEY)
        name = _name(key)
        with self._lock:
            self._expecting[name], self._seen[name] = (key, visit), {}
        try:
            yield key
        finally:
            with self._lock:
                del self._expecting[name], self._seen[name]

    def receive(self, connection: socket.socket, opening: bytes) -> bool:
        """Pass a connection on to the run that it is for; if there is none, it is closed."""
        body, check = opening[: _BODY.size], opening[_BODY.size :]
        _, name, block, attempt = _BODY.unpack(body)
        with self._lock:
            key, visit = self._expecting.get(name, (bytes(KEY), None))
            genuine = hmac.compare_digest(check, _check(key, body))
            if visit is None or not genuine or self._seen[name].get(block, -1) >= attempt:
                connection.close()
                return False
            self._seen[name][block] = attempt
        visit(connection, block, attempt)
        return True
