"""Files that the laboratory writes: whole or not there, and if not, why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from sedml.errors import FileFormatError
from sedml.files import replacing
from sedml.files.formats import reason


@contextmanager
def saving(path: Path) -> Iterator[BinaryIO]:
    """A stream to write a file to; its folder is made if need be, and the file appears when the block ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            yield stream
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be written ({reason(error)}).",
            "Choose a folder that you may write to, on a disk with enough space.",
        ) from error


def save_text(path: Path, text: str) -> None:
    """Write a text file."""
    with saving(path) as stream:
        stream.write(text.encode())
