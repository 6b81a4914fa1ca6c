"""What a server and one of its workers say to each other about a block: over a pair of sockets, or over TLS.

The server sends an `Assignment`. The worker makes the attempt, and says

- `SHARE`: its label share, and what it cost; it waits for `YES`, which comes once that is on disk, and only then tells
  the other operator's worker;
- `DONE` once that one has said the same; or `FAILED` with an error, at any time. Then it is free for another block.

An assignment is pickled, for it comes from the operator's own server and over a link that nobody else has an
end of; what comes back from a worker is plain bytes of known sizes.
"""

from __future__ import annotations

import json
import pickle
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field

from sedml import errors
from sedml.errors import SedmlError, WorkerGoneError
from sedml.mpc.certificates import Credentials
from sedml.mpc.channel import PhaseCost
from sedml.mpc.ring import Array
from sedml.protocol.task import Block, Task

ERRAND, SHARE, DONE, FAILED, YES = range(1, 6)

_HEAD = struct.Struct("<BQ")
_COST = struct.Struct("<dQQ")
_LARGEST = 1 << 28
"""Bytes that a worker may send at once: more than the label share of any block has."""


@dataclass(frozen=True)
class Assignment:
    """One attempt at a block for a worker, with all that it takes; it draws its noise itself."""

    role: int
    task: Task
    block: Block
    attempt: int
    counts: Array = field(repr=False)
    """Its server's shares of the counts: uint[N, Q]."""
    credentials: Credentials
    peer: str
    """Name of the other server, which it must prove."""
    address: tuple[str, int] | None
    """Where to connect; None where an open connection is handed over instead."""
    opening: bytes = field(repr=False)
    """What to say there first, in the clear."""
    timeout: float


class Wire:
    """One end. Not for use by two threads at once, but for `cut`."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._reader = stream.makefile("rb")

    def fileno(self) -> int:
        """The number to watch it by."""
        return self._stream.fileno()

    def send_assignment(self, assignment: Assignment) -> None:
        """Send a worker its block."""
        self.send(ERRAND, pickle.dumps(assignment, protocol=5))

    def receive_assignment(self) -> Assignment:
        """From the server; raises when there will be no more."""
        kind, body = self._receive(None)
        if kind != ERRAND:
            raise _gone()
        assignment = pickle.loads(body)  # noqa: S301 - the other end is this operator's own server
        assert isinstance(assignment, Assignment)  # noqa: S101
        return assignment

    def send(self, kind: int, body: bytes = b"") -> None:
        """One message."""
        head = _HEAD.pack(kind, len(body))
        try:
            if len(body) < _LARGEST >> 12:
                self._stream.sendall(head + body)
            else:
                self._stream.sendall(head)
                self._stream.sendall(body)
        except (OSError, ValueError):
            raise _gone() from None

    def ask(self, kind: int, body: bytes) -> None:
        """Send it, and wait until the server has said yes."""
        self.send(kind, body)
        if self.receive()[0] != YES:
            raise _gone()

    def receive(self) -> tuple[int, bytes]:
        """The next message: its kind and its content."""
        return self._receive(_LARGEST)

    def _receive(self, most: int | None) -> tuple[int, bytes]:
        try:
            head = self._reader.read(_HEAD.size)
            if len(head) < _HEAD.size:
                raise _gone()
            kind, size = _HEAD.unpack(head)
            if most is not None and size > most:
                raise _gone()
            body = self._reader.read(size)
        except (OSError, ValueError):
            raise _gone() from None
        if len(body) < size:
            raise _gone()
        return kind, body

    def cut(self) -> None:
        """Make whoever waits here find the other end gone; from any thread."""
        with suppress(OSError):
            socket.socket.shutdown(self._stream, socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self._reader.close()
        with suppress(OSError):
            self._stream.close()


def costed(cost: PhaseCost, document: bytes) -> bytes:
    """The content of `SHARE`."""
    return _COST.pack(cost.seconds, cost.rounds, cost.bytes) + document


def from_costed(body: bytes) -> tuple[PhaseCost, bytes]:
    """The cost and the label share in `SHARE`."""
    if len(body) < _COST.size:
        raise _gone()
    return PhaseCost(*_COST.unpack_from(body)), body[_COST.size :]


def error_to(error: BaseException) -> bytes:
    """The content of `FAILED`: of an error that is not of ours only its kind, for its text may hold anything."""
    if isinstance(error, SedmlError):
        return json.dumps([type(error).__name__, error.what, error.do]).encode()
    return json.dumps(["", type(error).__name__, ""]).encode()


def error_from(body: bytes) -> SedmlError:
    """The error in `FAILED`."""
    with suppress(ValueError, TypeError):
        name, what, do = json.loads(body)
        kind = getattr(errors, str(name), None)
        if isinstance(kind, type) and issubclass(kind, SedmlError):
            return kind(what, do)
        return WorkerGoneError(f"A worker failed in the middle of a block ({what}).", "Report this fault of sedml.")
    return _gone()


def _gone() -> WorkerGoneError:
    return WorkerGoneError(
        "A worker is gone in the middle of a block.", "The block runs again. If it happens often, look at the memory."
    )
