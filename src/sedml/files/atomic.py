"""Files that are whole or not there: written aside, put on disk, then given their name.

A crash, a full disk or a raised error leaves the old file or the new one, never half of one and nothing beside it.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def replace_file(path: Path, content: bytes | memoryview, *, private: bool = False) -> None:
    """Put a file with this content in the place of another, or of none; raises `OSError` if that cannot be done."""
    with replacing(path, private=private) as stream:
        stream.write(content)


@contextlib.contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """A stream to write a file to, which takes its place when the block ends; `private`, for its owner only."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    # Not tempfile: its files are readable by their owner alone, whatever the umask says.
    descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(descriptor, "w+b") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
        flush(path.parent)
    except BaseException:
        # A failure to clean up must not hide the failure that made it necessary.
        with contextlib.suppress(OSError):
            aside.unlink()
        raise


def flush(path: Path) -> None:
    """Wait until a file, or what a folder holds, is on disk."""
    if os.name == "posix":  # elsewhere a folder cannot be opened
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
