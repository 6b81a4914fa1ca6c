"""Reader of idx files, the format of MNIST and its relatives, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sedml.errors import FileFormatError

__all__ = ["read_idx"]

# The type codes of the format; numbers of several bytes are big-endian.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_AGAIN = "Get the file again: it may be damaged or cut short."


def read_idx(path: str | Path) -> NDArray[Any]:
    """The array in an idx file, in native byte order."""
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileFormatError(f"Cannot read {path}: {error.strerror}.", "Check the path and its permissions.") from None
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            raise FileFormatError(f"{path} is not a whole gzip file.", _AGAIN) from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _TYPES or data[3] == 0:
        raise FileFormatError(f"{path} is not an idx file.", "Name a file such as train-images-idx3-ubyte.gz.")
    dtype, start = np.dtype(_TYPES[data[2]]), 4 + 4 * data[3]
    if len(data) < start:
        raise FileFormatError(f"{path} ends within its header.", _AGAIN)
    shape = struct.unpack(f">{data[3]}I", data[4:start])
    expected = start + math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise FileFormatError(f"{path} has {len(data)} bytes where its header promises {expected}.", _AGAIN)
    return np.frombuffer(data, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))
