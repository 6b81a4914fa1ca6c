"""The idx reader takes whole files and says what is wrong with others."""

import gzip
import struct

import numpy as np
import pytest

from sedml.errors import FileFormatError
from sedml.learn.idx import read_idx


def idx(array, code=8):
    return struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape) + array.tobytes()


BYTES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_whole_files(tmp_path, pack):
    path = tmp_path / "file"
    path.write_bytes(pack(idx(BYTES)))
    read = read_idx(path)
    np.testing.assert_array_equal(read, BYTES)
    assert read.flags.writeable


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "not an idx file"),
        (b"PNG image", "not an idx file"),
        (idx(BYTES, 0x07), "not an idx file"),
        (idx(BYTES)[:9], "promises"),
        (idx(BYTES)[:-1], "promises"),
        (idx(BYTES) + b"!", "promises"),
        (gzip.compress(idx(BYTES), mtime=0)[:-9], "gzip"),
        (b"\x1f\x8b" + bytes(30), "gzip"),
    ],
)
def test_damaged_files(tmp_path, data, match):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=match):
        read_idx(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileFormatError, match="Cannot read"):
        read_idx(tmp_path / "nothing")
