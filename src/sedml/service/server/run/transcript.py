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

In memory is only what is known of the blocks under way: a block's entries are looked up when its first message comes,
and let go of when it is over. So a job takes no more memory for having many blocks. A worker that was killed
(`blocks_on_workers`) may come to a block that is over once more, with the same words, and the whole record is searched
for them; a lane may not.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import CheatingError, ReplayError, StoreError
from sedml.files import flush
from sedml.mpc.channel.frame import Frame, block_at, step_at

__all__ = ["Transcript", "begin", "digest_of"]

_ENTRY = struct.Struct("<B36s32s")  # sent or received, place, digest
_CHECK = 11
_SIZE = _ENTRY.size + _CHECK
_WRITTEN_TOGETHER = 2
"""Entries of one write: what came last, and what is about to be sent."""
_AT_ONCE = 4096
"""Entries read together."""

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


@dataclass
class _Block:
    """What was said about one block, by way and place."""

    known: dict[tuple[int, bytes], bytes]
    said: set[bytes] = field(default_factory=set)
    """Places that this run has come to."""
    unwritten: bytes = b""


class Transcript:
    """The record of one job, open and locked; the `Witness` of a channel, from the threads of all its lanes."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._key = key
        self._blocks: dict[int, _Block] = {}  # those under way
        self._over = 0  # a bit for each block that is over
        self._where: dict[int, tuple[int, int]] = {}  # by block: where its entries begin and end in the file
        self._lock = Lock()
        self._file = _opened(path)
        try:
            self._read()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What came last may be why the run ends here, and must not be forgotten for that.
        try:
            with suppress(StoreError):
                self.keep()
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def keep(self) -> None:
        """Put on disk what is not there yet."""
        with self._lock:
            for number in self._blocks:
                self._write(number)

    def leave(self, number: int) -> None:
        """Put on disk what is not there yet of a block, and let go of it: no more is said about it here."""
        with self._lock:
            if number in self._blocks:
                self._write(number)
                del self._blocks[number]
            self._where.pop(number, None)
            self._over |= 1 << number

    def _block(self, number: int) -> _Block:
        if number not in self._blocks:
            self._blocks[number] = _Block(self._recall(number))
        return self._blocks[number]

    def _write(self, number: int) -> None:
        """What is not on disk yet of this block: a block has one message on its way, and writes little at once."""
        block = self._blocks[number]
        if not block.unwritten:
            return
        start = os.fstat(self._file).st_size
        try:
            append(self._file, block.unwritten)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, start)  # what was written in part would be taken for damage
            raise _unwritten(error) from None
        self._note(number, start, len(block.unwritten))
        block.unwritten = b""

    def _note(self, number: int, start: int, size: int = _SIZE) -> None:
        """Note that something about a block is here in the file."""
        self._where[number] = self._where.get(number, (start, 0))[0], start + size

    def sends(self, frame: Frame) -> None:
        """Raise unless the message is new or the same as before; then all that it follows from is on disk."""
        with self._lock:
            if self._over >> frame.block & 1:
                raise _again(frame.place)
            said = self._block(frame.block).said
        self.says(frame.place, digest_of(frame.pieces(0)), said)

    def receives(self, frame: Frame, message: npt.NDArray[np.uint8]) -> None:
        """Raise unless the peer's message is new or the same as before."""
        self.hears(frame.place, digest_of([message.data]))

    def says(self, place: bytes, digest: bytes, said: set[bytes]) -> None:
        """Do as `sends`, for a message that is not here: its place, its `digest_of`, and where this run has been."""
        digest = self._keyed(digest, 32)
        with self._lock:
            if place in said:
                raise _again(place)
            said.add(place)
            if not self._holds(_SENT, place, digest):
                raise ReplayError(
                    f"This server would change what it had said at {_where(place)}.",
                    "Its store or its software was changed while the job was running. Create a new job.",
                )
            self._write(block_at(place))

    def hears(self, place: bytes, digest: bytes) -> None:
        """Do as `receives`, for a message that is not here."""
        digest = self._keyed(digest, 32)
        with self._lock:
            holds = self._holds(_RECEIVED, place, digest)
        if not holds:
            raise CheatingError(
                f"The other server changed what it had said at {_where(place)}.",
                "It hung up and came back with other inputs, or it was put back to an older state. Nothing more was "
                "sent to it. Tell both operators.",
            )

    def _holds(self, way: Way, place: bytes, digest: bytes) -> bool:
        """Whether a message is the one on record; one of which nothing is on record goes there with the next write."""
        block = self._block(block_at(place))
        if (known := block.known.get((way, place))) is not None:
            return known == digest
        block.known[way, place] = digest
        entry = _ENTRY.pack(way, place, digest)
        block.unwritten += entry + self._keyed(entry, _CHECK)
        return True

    def _keyed(self, content: bytes, size: int) -> bytes:
        return hashlib.blake2b(content, key=self._key, digest_size=size, person=b"sedml-said-v1").digest()

    def _read(self) -> None:
        """Look through the record, and note where the entries of each block are."""
        size = os.fstat(self._file).st_size
        for start, entry in self._entries(0, size):
            if entry is None:
                if size - start > _WRITTEN_TOGETHER * _SIZE:
                    raise _damaged()
                os.ftruncate(self._file, start)
                break
            self._note(block_at(entry[1]), start)
        os.fsync(self._file)  # a process that was killed may have left them unsynced

    def _recall(self, number: int) -> dict[tuple[int, bytes], bytes]:
        """What the record has of a block."""
        known: dict[tuple[int, bytes], bytes] = {}
        everywhere = 0, os.fstat(self._file).st_size if self._over >> number & 1 else 0
        for _, entry in self._entries(*self._where.get(number, everywhere)):
            if entry is None:  # it was whole when it was written, or read
                raise _damaged()
            way, place, digest = entry
            if block_at(place) == number:
                known[way, place] = digest
        return known

    def _entries(self, start: int, stop: int) -> Iterator[tuple[int, tuple[int, bytes, bytes] | None]]:
        """The entries of a part of the file with their places in it; None for the first that is torn, the last then."""
        while start < stop:
            content = _content(self._file, start, min(stop - start, _AT_ONCE * _SIZE))
            for inner in range(0, len(content), _SIZE):
                entry, check = content[inner : inner + _ENTRY.size], content[inner + _ENTRY.size : inner + _SIZE]
                if check != self._keyed(entry, _CHECK):
                    yield start + inner, None
                    return
                yield start + inner, _ENTRY.unpack(entry)
            start += len(content)


def digest_of(pieces: Iterable[bytes | memoryview]) -> bytes:
    """The digest of a message, as it goes on record once it is keyed."""
    whole = hashlib.sha256()  # with the processor's help it is twice as fast as BLAKE2
    for piece in pieces:
        whole.update(piece)
    return whole.digest()


def append(file: int, content: bytes) -> None:
    """Write at the end of the file; it is on disk when this returns."""
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


def _content(file: int, start: int, size: int) -> bytes:
    with suppress(OSError):
        if content := os.pread(file, size, start):
            return content
    raise StoreError("The record of what was said in the job cannot be read.", "Check the disk.")


def _damaged() -> ReplayError:
    return ReplayError("The record of what was said in the job is damaged, or is of another run.", "Create a new job.")


def _unwritten(error: OSError) -> StoreError:
    return StoreError(
        f"The record of what was said in the job cannot be written ({error.strerror or error}).",
        "Make room on the disk, and check who may write there. The job goes on then.",
    )


def _again(place: bytes) -> ReplayError:
    return ReplayError(f"The run comes to {_where(place)} a second time.", "Report this fault of sedml.")


def _where(place: bytes) -> str:
    return f"{step_at(place)} of block {block_at(place)}"
