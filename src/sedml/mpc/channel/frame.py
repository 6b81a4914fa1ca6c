"""What one server sends the other in one round, byte by byte.

A frame is a header of 64 bytes, the arrays' bytes one after the other, and, only where a delay is simulated,
a time stamp. Numbers are little-endian::

    task     16 bytes  the task id
    step     32 bytes  name of the protocol step, ASCII, padded with zero bytes
    block     4 bytes  block of samples
    delay     4 bytes  simulated one-way delay in microseconds, 0 for none
    length    8 bytes  size of the payload in bytes
    payload            the arrays in C order, as they lie in memory (both servers are little-endian)
    sent      8 bytes  only if delay > 0: the sender's monotonic clock in nanoseconds, once the rest was sent

Both sides of a round send the same shapes, so a receiver expects a header equal to its own, bit for bit, and
knows how to cut the payload. It allocates by its own arrays, never by a length that the peer names.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sedml.errors import FrameMismatchError, InputError

TASK_SIZE = 16
STEP_SIZE = 32
STAMP = struct.Struct("<Q")

_HEADER = struct.Struct(f"<{TASK_SIZE}s{STEP_SIZE}sIIQ")
HEADER_SIZE = _HEADER.size
_MAX_BLOCK = 2**32 - 1


class Frame(NamedTuple):
    """One message of one round: the packed header and the arrays behind it. Its repr shows no contents."""

    header: bytes
    arrays: Sequence[NDArray[Any]]
    size: int  # in bytes, header and payload: what the traffic counts

    def __repr__(self) -> str:
        return f"Frame({self.size} bytes)"

    @property
    def step(self) -> str:
        """The name of the step."""
        return self.header[TASK_SIZE : TASK_SIZE + STEP_SIZE].rstrip(b"\0").decode()

    @property
    def block(self) -> int:
        """The block of samples."""
        return block_of(self.header)

    def pieces(self, joined: int) -> list[bytes | memoryview]:
        """The bytes to send: a frame up to the size `joined` as one piece, a larger one uncopied in several."""
        if self.size <= joined:
            return [b"".join([self.header, *[array.tobytes() for array in self.arrays]])]
        views = [array.ravel().view(np.uint8).data for array in self.arrays if array.nbytes]
        return [self.header, *views]


def make_frame(task: bytes, block: int, step: str, delay: int, arrays: Sequence[NDArray[Any]]) -> Frame:
    """Pack the header for these arrays."""
    if not (0 < len(step) <= STEP_SIZE and step.isascii() and step.isprintable()):
        raise InputError(
            f"The name of a step must be 1 to {STEP_SIZE} printable ASCII characters, not {step!r}.",
            "Choose a shorter, plain name.",
        )
    if not 0 <= block <= _MAX_BLOCK:
        raise InputError(f"Block {block} is out of range.", f"Number blocks from 0 to {_MAX_BLOCK}.")
    length = 0
    for array in arrays:
        if array.dtype.hasobject:
            raise InputError(
                f"Step {step!r} sends an array of Python objects.",
                "Send arrays of numbers with a fixed size.",
            )
        length += array.nbytes
    header = _HEADER.pack(task, step.encode(), block, delay, length)
    return Frame(header, arrays, HEADER_SIZE + length)


def split(message: NDArray[np.uint8], like: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Cut the peer's message into arrays of these shapes and dtypes, in place where alignment allows."""
    pieces: list[NDArray[Any]] = []
    start = HEADER_SIZE
    for model in like:
        piece: NDArray[Any] = np.ndarray(model.shape, model.dtype, message, start)
        pieces.append(piece if piece.flags.aligned else piece.copy())
        start += model.nbytes
    return pieces


def block_of(header: bytes) -> int:
    """The block that a header names."""
    block: int = _HEADER.unpack(header)[2]
    return block


def check_header(ours: bytes, theirs: bytes) -> None:
    """Raise unless the peer is at the same task, block and step with a payload of the same size."""
    if ours == theirs:
        return
    known = _fields(ours)
    found = _fields(theirs)
    if found is None or known is None:
        raise FrameMismatchError(
            "What came from the peer is not a frame of this protocol.",
            "Check that both servers run the same version of SEDML.",
        )
    names = [name for name in known if known[name] != found[name]]
    mine = ", ".join(f"{name} {known[name]}" for name in names)
    peers = ", ".join(f"{name} {found[name]}" for name in names)
    raise FrameMismatchError(
        f"The two servers are not at the same point: here {mine}; at the peer {peers}.",
        "Check that both run the same task with the same settings, and start it again on both.",
    )


def _fields(header: bytes) -> dict[str, str] | None:
    """The fields by name; nothing for what cannot be a header, since those bytes might be part of a share."""
    task, name, block, delay, length = _HEADER.unpack(header)
    step = name.rstrip(b"\0").decode("latin-1")
    if not (step and step.isascii() and step.isprintable()):
        return None
    return {
        "task": task.hex(),
        "block": str(block),
        "step": repr(step),
        "length": f"{length} bytes",
        "delay": f"{delay} us",
    }
