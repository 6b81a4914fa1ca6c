"""NumPy's own files: which arrays an .npz archive has, and the array behind a stream. Pickled objects are refused."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError

__all__ = ["array_names", "open_array", "read_array"]


def array_names(path: Path) -> list[str]:
    """What the arrays of an .npz file are called; none if it is not such a file."""
    if not zipfile.is_zipfile(path):
        return []
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


@contextmanager
def open_array(path: Path, name: str) -> Iterator[IO[bytes]]:
    """A stream of one array of an .npz file, for `read_array`."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as stream:
        yield stream


def read_array(stream: IO[bytes], path: Path) -> npt.NDArray[Any]:
    """The array in a stream of the file at `path`."""
    try:
        array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    except ValueError as error:
        if "Object arrays" not in str(error):
            raise
    else:
        return array
    raise FileFormatError(
        f"{path} holds pickled Python objects, which can run code when they are loaded.",
        "Save a plain array of numbers: np.save(path, np.asarray(predictions, dtype=np.int16)).",
    )
