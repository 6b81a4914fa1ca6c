"""Files of unlabelled samples: how many there are, their fingerprint, and the array that a model takes.

`.npz` or `.npy`, told apart by their first bytes. In an `.npz` the samples are the array `x`, `X`, `data` or `samples`,
or the only one.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import FileFormatError

__all__ = ["CHUNK", "Samples", "count_samples", "fingerprint", "load_samples", "suffix_of"]

Samples: TypeAlias = npt.NDArray[Any]

T = TypeVar("T")

CHUNK = 1 << 20
"""Bytes read or sent together."""

_NAMES = ("x", "X", "data", "samples")
_ZIP = b"PK\x03\x04"
_NPY = b"\x93NUMPY"


def count_samples(path: Path) -> int:
    """The length of the array of samples; only its header is read."""
    return _open(path, _length)


def load_samples(path: Path) -> Samples:
    """The array of samples, the first axis over samples."""
    return _open(path, _array)


def fingerprint(path: Path, progress: Progress = silent) -> tuple[int, str]:
    """How many bytes a file has, and its SHA-256."""
    digest, done = hashlib.sha256(), 0
    try:
        total = path.stat().st_size
        with path.open("rb") as stream:
            while part := stream.read(CHUNK):
                digest.update(part)
                done += len(part)
                progress("reading", done, total)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror}).", "Check the path.") from None
    return done, digest.hexdigest()


def suffix_of(first: bytes) -> str:
    """`.npz`, `.npy` or nothing, by the first bytes of a file."""
    return ".npz" if first.startswith(_ZIP) else ".npy" if first.startswith(_NPY) else ""


def _open(path: Path, read: Callable[[IO[bytes]], T]) -> T:
    try:
        with path.open("rb") as stream:
            suffix = suffix_of(stream.read(len(_NPY)))
            stream.seek(0)
            if suffix == ".npy":
                return read(stream)
            if suffix == ".npz":
                with zipfile.ZipFile(stream) as archive, archive.open(_member(path, archive)) as member:
                    return read(member)
    except FileFormatError:
        raise
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror}).", "Check the path.") from None
    except Exception:  # a damaged file makes the parsers raise nearly anything
        raise FileFormatError(
            f"{path} is damaged, or contains something other than numbers.", "Write it with np.savez(path, x=...)."
        ) from None
    raise FileFormatError(f"{path} is neither an .npz nor an .npy file.", "Write it with np.savez(path, x=...).")


def _member(path: Path, archive: zipfile.ZipFile) -> str:
    names = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
    if len(names) == 1:
        return next(iter(names.values()))
    found = [name for name in _NAMES if name in names]
    if len(found) != 1:
        raise FileFormatError(
            f"{path} contains {len(names)} arrays, and it is not clear which one has the samples.",
            f"Name one of them {', '.join(_NAMES[:-1])} or {_NAMES[-1]}.",
        )
    return names[found[0]]


def _array(stream: IO[bytes]) -> Samples:
    samples: Samples = np.lib.format.read_array(stream, allow_pickle=False)
    if samples.ndim == 0:
        raise ValueError
    return samples


def _length(stream: IO[bytes]) -> int:
    version = np.lib.format.read_magic(stream)
    # NumPy has a public reader of headers for each of the two formats that files have.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject or not shape:
        raise ValueError
    return int(shape[0])
