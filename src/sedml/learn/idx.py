"""Reader of idx files of bytes, the format of MNIST and its relatives, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sedml.errors import FileFormatError
from sedml.files.formats import reason

_AGAIN = "Get the file again: it may be damaged or cut short."


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """The array in an idx file."""
    try:
        data = Path(path).read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise FileFormatError(f"{path} is not a whole gzip file.", _AGAIN) from None
    except OSError as error:
        raise FileFormatError(f"Cannot read {path}: {reason(error)}.", "Check the path and its permissions.") from None
    # Two zeros, the type (8: bytes), the number of dimensions, and the size of each of them.
    if len(data) < 4 or data[:3] != b"\0\0\x08" or data[3] == 0:
        raise FileFormatError(f"{path} is not an idx file of bytes.", "Name a file such as train-images-idx3-ubyte.gz.")
    start = 4 + 4 * data[3]
    shape = struct.unpack(f">{data[3]}I", data[4:start]) if len(data) >= start else (0,)
    if len(data) != start + math.prod(shape):
        raise FileFormatError(f"{path} does not have as many bytes as its header promises.", _AGAIN)
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape).copy()  # torch wants arrays it may write to
