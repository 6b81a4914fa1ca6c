"""Files of unlabelled samples: how many there are, their fingerprint, and the array that a model takes.

`.npz` or `.npy`, told apart by their first bytes. In an `.npz` the samples are the array `x`, `X`, `data` or `samples`,
or the only one, and `ids`, if it is there, says what they are called. Tables are made into one: `sample_tables`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import FileFormatError
from sedml.files.digest import size_and_sha256
from sedml.files.formats import array_names, array_shape, open_array, read_array, read_explained, reason

Samples: TypeAlias = npt.NDArray[Any]

T = TypeVar("T")

_NAMES = ("x", "X", "data", "samples")
_IDS = "ids"
_ZIP = b"PK\x03\x04"
_NPY = b"\x93NUMPY"
_AGAIN = "Write it with np.savez(path, x=...), or as a table (.csv, .parquet)."


def count_samples(path: Path) -> int:
    """The length of the array of samples; only its header is read."""
    return read_explained(path, lambda: _read(path, lambda stream: _length(stream, path)), _AGAIN)


def load_samples(path: Path) -> Samples:
    """The array of samples, the first axis over samples."""
    samples = read_explained(path, lambda: _read(path, lambda stream: read_array(stream, path)), _AGAIN)
    if samples.ndim == 0:
        raise FileFormatError(f"{path} holds a single number.", _AGAIN)
    return samples


def sample_ids(path: Path) -> list[str] | None:
    """What the samples are called, each once, if the file has `ids` for them."""
    if _IDS not in read_explained(path, lambda: array_names(path), _AGAIN):
        return None

    def read() -> npt.NDArray[Any]:
        with open_array(path, _IDS) as stream:
            return read_array(stream, path)

    from sedml.service.client.sample_tables import check_ids

    found = read_explained(path, read, _AGAIN)
    if found.shape != (count_samples(path),) or found.dtype.kind not in "Uiu":
        raise FileFormatError(f"The array 'ids' of {path} is not one text or number for each sample.", _AGAIN)
    if len(np.unique(found)) < len(found):  # before each takes up a Python object
        raise FileFormatError(f"Two samples of {path} have the same id.", "Give each its own.")
    ids = [str(one) for one in found.tolist()]
    check_ids(ids, str(path))
    return ids


def fingerprint(path: Path, progress: Progress = silent) -> tuple[int, str]:
    """How many bytes a file has, and its SHA-256."""
    try:
        return size_and_sha256(path, progress)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({reason(error)}).", "Check the path.") from None


def suffix_of(first: bytes) -> str:
    """`.npz`, `.npy` or nothing, by the first bytes of a file."""
    return ".npz" if first.startswith(_ZIP) else ".npy" if first.startswith(_NPY) else ""


def _read(path: Path, read: Callable[[IO[bytes]], T]) -> T:
    with path.open("rb") as stream:
        suffix = suffix_of(stream.read(len(_NPY)))
        stream.seek(0)
        if suffix == ".npy":
            return read(stream)
    if suffix == ".npz":
        with open_array(path, _name(path)) as member:
            return read(member)
    raise FileFormatError(f"{path} is neither an .npz nor an .npy file.", _AGAIN)


def _name(path: Path) -> str:
    names = array_names(path)
    found = names if len(names) == 1 else [name for name in _NAMES if name in names]
    if len(found) != 1:
        raise FileFormatError(
            f"{path} contains {len(names)} arrays, and it is not clear which one has the samples.",
            f"Name one of them {', '.join(_NAMES[:-1])} or {_NAMES[-1]}.",
        )
    return found[0]


def _length(stream: IO[bytes], path: Path) -> int:
    shape = array_shape(stream, path)
    if not shape:
        raise ValueError
    return shape[0]
