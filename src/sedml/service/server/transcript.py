"""What was said in the run of a job, on disk before the next word: nobody gets a second answer to another question.

All that a server sends in a run follows from what it has on disk (its shares, its noise, its coins) and from what the
other server has sent so far. So a run that broke off is repeated word for word, under the same masks, and tells nothing
new, provided that the other server repeats its words too. Without that proviso it could hang up, come back with
shifted shares, and subtract. Hence, for every message of a run:

1. Before a server sends it, a digest of it is on disk, and digests of all that has come up to then that it follows
   from: of its block and, since before the first block, of the set-up. A message of which another digest is on record
   is not sent (`ReplayError`): this server's shares or its software are not what they were.
2. What comes must be what came at this place before, or the job is over (`CheatingError`) before another word is said.

A record is a file of its own beside the store, for each job: 80 bytes for a message sent or received, appended and
synced once a round. It is made with the seeds that the words of the run follow from, and never again: seeds without a
record are those of a store that was put back, and are not used. Entries carry a check value, because a crash may tear
the last write; nothing was sent on the strength of it, so what is torn is dropped. Digests and check values are keyed:
without the kit the record tells nothing but which steps were taken.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import CheatingError, ReplayError, StoreError
from sedml.files import flush
from sedml.mpc.channel.frame import Frame

__all__ = ["Transcript", "begin"]

_ENTRY = struct.Struct("<B36s32s")  # sent or received, place, digest
_CHECK = 11
_SIZE = _ENTRY.size + _CHECK
_WRITTEN_TOGETHER = 2
"""Entries of one write: what came last, and what is about to be sent."""

Way: TypeAlias = Literal[0, 1]
_SENT: Way = 0
_RECEIVED: Way = 1


def begin(path: Path) -> None:
    """Make an empty record, durably."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        flush(path.parent)
    except OSError as error:
        raise _unwritten(error) from None


class Transcript:
    """The record of one job, open and locked; the `Witness` of a channel, from the threads of all its lanes."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._key = key
        self._said: set[bytes] = set()
        self._unwritten: dict[int, bytes] = {}  # by block
        self._lock = Lock()
        self._file = _opened(path)
        try:
            self._known = self._read()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What came last may be why the run ends here, and must not be forgotten for that.
        with suppress(StoreError):
            self.keep()
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def keep(self) -> None:
        """Put on disk what is not there yet."""
        with self._lock:
            for block in list(self._unwritten):
                self._write(block)

    def _write(self, block: int) -> None:
        """What is not on disk yet of this block: a block has one message on its way, and writes little at once."""
        if block not in self._unwritten:
            return
        try:
            append(self._file, self._unwritten[block])
        except OSError as error:
            raise _unwritten(error) from None
        del self._unwritten[block]

    def sends(self, frame: Frame) -> None:
        """Raise unless the message is new or the same as before; then all that it follows from is on disk."""
        digest = self._digest(frame.pieces(0))
        with self._lock:
            if frame.place in self._said:
                raise ReplayError(f"The run comes to {_where(frame)} a second time.", "Report this fault of sedml.")
            self._said.add(frame.place)
            if not self._holds(_SENT, frame, digest):
                raise ReplayError(
                    f"This server would change what it had said at {_where(frame)}.",
                    "Its store or its software was changed while the job was running. Create a new job.",
                )
            self._write(frame.block)

    def receives(self, frame: Frame, message: npt.NDArray[np.uint8]) -> None:
        """Raise unless the peer's message is new or the same as before."""
        digest = self._digest([message.data])
        with self._lock:
            holds = self._holds(_RECEIVED, frame, digest)
        if not holds:
            raise CheatingError(
                f"The other server changed what it had said at {_where(frame)}.",
                "It hung up and came back with other inputs, or it was put back to an older state. Nothing more was "
                "sent to it. Tell both operators.",
            )

    def _digest(self, pieces: Iterable[bytes | memoryview]) -> bytes:
        whole = hashlib.sha256()  # with the processor's help it is twice as fast as BLAKE2
        for piece in pieces:
            whole.update(piece)
        return self._keyed(whole.digest(), 32)

    def _holds(self, way: Way, frame: Frame, digest: bytes) -> bool:
        """Whether a message is the one on record; one of which nothing is on record goes there with the next write."""
        if (known := self._known.get((way, frame.place))) is not None:
            return known == digest
        self._known[way, frame.place] = digest
        entry = _ENTRY.pack(way, frame.place, digest)
        self._unwritten[frame.block] = self._unwritten.get(frame.block, b"") + entry + self._keyed(entry, _CHECK)
        return True

    def _keyed(self, content: bytes, size: int) -> bytes:
        return hashlib.blake2b(content, key=self._key, digest_size=size, person=b"sedml-said-v1").digest()

    def _read(self) -> dict[tuple[int, bytes], bytes]:
        content = _content(self._file)
        known = {}
        for start in range(0, len(content), _SIZE):
            entry, check = content[start : start + _ENTRY.size], content[start + _ENTRY.size : start + _SIZE]
            if check != self._keyed(entry, _CHECK):
                if len(content) - start > _WRITTEN_TOGETHER * _SIZE:
                    raise ReplayError(
                        "The record of what was said in the job is damaged, or is of another run.", "Create a new job."
                    )
                os.ftruncate(self._file, start)
                break
            way, place, digest = _ENTRY.unpack(entry)
            known[way, place] = digest
        os.fsync(self._file)  # a process that was killed may have left them unsynced
        return known


def append(file: int, content: bytes) -> None:
    """At the end of the file, and on disk when this returns."""
    if os.write(file, content) < len(content):
        raise OSError("the disk is full")
    os.fsync(file)


def _opened(path: Path) -> int:
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        raise ReplayError(
            "The record of what was said in the job is gone: it cannot run again.",
            "It lies in the folder of the server's data and is in no backup. Create a new job.",
        ) from None
    except OSError as error:
        raise _unwritten(error) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise StoreError("Another process runs the same job.", "Stop it: one process serves a kit.") from None
    return file


def _content(file: int) -> bytes:
    with suppress(OSError), open(file, "rb", closefd=False) as stream:
        return stream.read()
    raise StoreError("The record of what was said in the job cannot be read.", "Check the disk.")


def _unwritten(error: OSError) -> StoreError:
    return StoreError(
        f"The record of what was said in the job cannot be written ({error.strerror or error}).",
        "Make room on the disk, and check who may write there. The job goes on then.",
    )


def _where(frame: Frame) -> str:
    return f"{frame.step} of block {frame.block}"
