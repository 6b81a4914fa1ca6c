"""The idx reader takes whole files and says what is wrong with others."""

import gzip
import struct

import numpy as np
import pytest

from sedml.errors import FileFormatError
from sedml.learn.idx import read_idx


def idx(array, code, head=b"\0\0"):
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return head + bytes([code, array.ndim]) + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()


BYTES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(("array", "code"), [(BYTES, 0x08), (np.array([1, -70000], np.int32), 0x0C)])
def test_whole_files(tmp_path, pack, array, code):
    path = tmp_path / "file"
    path.write_bytes(pack(idx(array, code)))
    read = read_idx(path)
    assert read.dtype == array.dtype
    assert read.dtype.isnative
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "not an idx file"),
        (b"PNG image", "not an idx file"),
        (idx(BYTES, 0x07), "not an idx file"),
        (idx(BYTES, 0x08)[:9], "within its header"),
        (idx(BYTES, 0x08)[:-1], "promises"),
        (idx(BYTES, 0x08) + b"!", "promises"),
        (gzip.compress(idx(BYTES, 0x08), mtime=0)[:-9], "gzip"),
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
