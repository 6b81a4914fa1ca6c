"""What was said in the run of a job, on disk before the next word: nobody gets a second answer to another question.

All that a server sends in a run follows from what it has on disk (its shares, its noise, its coins) and from what the
other server has sent so far. So a run that broke off is repeated word for word, under the same masks, and tells nothing
new, provided that the other server repeats its words too. Without that proviso it could hang up, come back with
shifted shares, and subtract. Hence, for every message of a run:

1. Before a server sends it, a digest of it is on disk, and digests of all that has come up to then that it follows
   from: of its block and, since before the first block, of the set-up. A message of which another digest is on record
   is not sent (`ReplayError`): this server's shares or its software are not what they were.
2. What comes must be what came at this place before, or the job is over (`CheatingError`) before another word is said.

Where the randomness of the first blocks was made before (`stock`), the record begins with its name, followed by what
was said to make it. A name is binding once the other server has shown that it has it on record too, by its first word
of the run; until then it can be given up, for nothing was said that follows from a vote.

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

__all__ = ["NAME", "Memo", "Transcript", "begin", "digest_of"]

NAME = 32
"""Bytes of a stock's name."""

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
_STOCK = 2
"""Names a stock: in place of the place its name and its blocks, in place of the digest how many entries it has."""
_FIRST_WORD = "agree"


def begin(path: Path) -> None:
    """Make an empty record, durably."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        flush(path.parent)
    except OSError as error:
        raise _unwritten(error) from None


class Memo:
    """Remembers what was said, for a record that is written later; the `Witness` of a channel."""

    def __init__(self) -> None:
        self.said: list[tuple[Way, bytes, bytes]] = []

    def sends(self, frame: Frame) -> None:
        """A message of this server."""
        self.said.append((_SENT, frame.place, digest_of(frame.pieces(0))))

    def receives(self, frame: Frame, message: npt.NDArray[np.uint8]) -> None:
        """A message of the other one."""
        self.said.append((_RECEIVED, frame.place, digest_of([message.data])))


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
        self.stock: tuple[bytes, int] | None = None
        """Name and blocks of the stock that the run began with, if it began with one."""
        self.binding = False
        """Whether the other server has said a word in the run."""
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

    @property
    def empty(self) -> bool:
        """Whether nothing is on record."""
        return not self._where and not self._blocks and self.stock is None

    def adopt(self, name: bytes, blocks: int, memo: Memo) -> None:
        """Put on an empty record that the run begins with this stock, and what was said to make it."""
        entries = [_ENTRY.pack(way, place, self._keyed(digest, 32)) for way, place, digest in memo.said]
        size = len(entries).to_bytes(32, "little")
        try:
            # The name alone first: what is torn behind it is known to be so.
            self._append(_ENTRY.pack(_STOCK, name + blocks.to_bytes(4, "little"), size))
            start = os.fstat(self._file).st_size
            self._append(*entries)
        except OSError as error:
            raise _unwritten(error) from None
        self.stock = name, blocks
        for position, (_, place, _) in enumerate(memo.said):
            self._note(block_at(place), start + position * _SIZE)

    def give_up_stock(self) -> None:
        """Begin with an empty record again; only if it is not binding."""
        if self.binding:
            raise ReplayError("A run cannot change its randomness.", "Report this fault of sedml.")
        try:
            os.ftruncate(self._file, 0)
            os.fsync(self._file)
        except OSError as error:
            raise _unwritten(error) from None
        self.stock, self._blocks, self._where = None, {}, {}

    def _append(self, *entries: bytes) -> None:
        append(self._file, b"".join(entry + self._keyed(entry, _CHECK) for entry in entries))

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
        try:
            self._note(number, os.fstat(self._file).st_size, len(block.unwritten))
            append(self._file, block.unwritten)
        except OSError as error:
            raise _unwritten(error) from None
        block.unwritten = b""

    def _note(self, number: int, start: int, size: int = _SIZE) -> None:
        """That something about a block is here in the file."""
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
        """As `sends`, of a message that is not here: its place, its `digest_of`, and where this run of it has been."""
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
        """As `receives`, of a message that is not here."""
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
        self._hear(way, place)
        entry = _ENTRY.pack(way, place, digest)
        block.unwritten += entry + self._keyed(entry, _CHECK)
        return True

    def _hear(self, way: int, place: bytes) -> None:
        self.binding |= way == _RECEIVED and place.startswith(_FIRST_WORD.encode() + b"\0")

    def _keyed(self, content: bytes, size: int) -> bytes:
        return hashlib.blake2b(content, key=self._key, digest_size=size, person=b"sedml-said-v1").digest()

    def _read(self) -> None:
        """Look through the record, and note where the entries of each block are."""
        size, begun_with, entries = os.fstat(self._file).st_size, 0, 0
        for start, entry in self._entries(0, size):
            if entry is None:
                if begun_with and size <= (1 + begun_with) * _SIZE:
                    break  # torn before the run had a word
                if size - start > _WRITTEN_TOGETHER * _SIZE:
                    raise _damaged()
                os.ftruncate(self._file, start)
                break
            way, place, digest = entry
            if way == _STOCK:
                # Entries of a stock are there all together or not at all.
                self.stock, begun_with = (
                    (place[:NAME], int.from_bytes(place[NAME:], "little")),
                    int.from_bytes(digest, "little"),
                )
                continue
            entries += 1
            self._note(block_at(place), start)
            self._hear(way, place)
        if entries < begun_with:
            os.ftruncate(self._file, 0)
            self.stock, self._where, self.binding = None, {}, False
        os.fsync(self._file)  # a process that was killed may have left them unsynced

    def _recall(self, number: int) -> dict[tuple[int, bytes], bytes]:
        """What the record has of a block."""
        known: dict[tuple[int, bytes], bytes] = {}
        everywhere = 0, os.fstat(self._file).st_size if self._over >> number & 1 else 0
        for _, entry in self._entries(*self._where.get(number, everywhere)):
            if entry is None:  # it was whole when it was written, or read
                raise _damaged()
            way, place, digest = entry
            if way != _STOCK and block_at(place) == number:
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
    """Of a message, as it goes on record once it is keyed."""
    whole = hashlib.sha256()  # with the processor's help it is twice as fast as BLAKE2
    for piece in pieces:
        whole.update(piece)
    return whole.digest()


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
