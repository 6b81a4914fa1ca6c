"""A fourth round: files whose readers do not agree about what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import FileFormatError
from sedml.files.formats import read_parquet
from sedml.files.reading import load_predictions

MB = 1 << 20
BOMB = 48 * MB


@pytest.fixture
def small_limit(monkeypatch):
    monkeypatch.setattr("sedml.files.formats._SMALL", MB)


def varint(number: int) -> bytes:
    """A number as the headers of a Parquet file have it."""
    parts, left = [], number << 1 if number >= 0 else -2 * number - 1
    while left or not parts:
        parts.append(left & 0x7F)
        left >>= 7
    return bytes([part | 0x80 for part in parts[:-1]] + parts[-1:])


SIZE = b"\x15" + varint(BOMB + 10)
"""How large the page is, in its header: field 2, a number of 32 bits."""


def in_another_kind(head: bytes) -> bytes:
    """And then a smaller one, of 64 bits, which pyarrow passes over."""
    return head.replace(SIZE, SIZE + b"\x06" + varint(2) + varint(64))


def in_a_wide_field(head: bytes) -> bytes:
    """Before it a smaller one, and it as field 65,538, which is field 2 in 16 bits; field 3 comes next."""
    size = b"\x15" + varint(64) + b"\x05" + varint(65_538) + SIZE[1:]
    before, after = head.split(SIZE)
    return before + size + b"\x05" + varint(3) + after[1:]


def bomb(path: Path, lie: Callable[[bytes], bytes]) -> None:
    """One long text, whose page says to some that it is short."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"label": [1], "sample": ["x" * BOMB]})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    column, content = parquet.ParquetFile(path).metadata.row_group(0).column(1), path.read_bytes()
    start, packed = column.data_page_offset, column.total_compressed_size
    head = lie(content[start : start + 40])
    footer = start + packed
    longer = varint(packed + len(head) - 40)
    assert len(longer) == len(varint(packed))
    footers = content[footer:].replace(varint(packed), longer)
    path.write_bytes(content[:start] + head + content[start + 40 : footer] + footers)


def refused_unread(path: Path, patch: pytest.MonkeyPatch) -> None:
    read = []
    patch.setattr(pytest.importorskip("pyarrow.parquet").ParquetFile, "read", lambda *asked: read.append(asked))
    with pytest.raises(FileFormatError):
        load_predictions(path)
    assert read == []


@pytest.mark.parametrize("lie", [in_another_kind, in_a_wide_field])
@pytest.mark.usefixtures("small_limit")
def test_a_page_that_says_its_size_twice_is_refused(tmp_path, lie, monkeypatch):
    bomb(tmp_path / "bomb.parquet", lie)
    refused_unread(tmp_path / "bomb.parquet", monkeypatch)


@pytest.mark.usefixtures("small_limit")
def test_a_page_does_not_hide_the_next_one(tmp_path, monkeypatch):
    """It says that it has 2^31 + 1 values, of which pyarrow takes 32 bits, and reads on."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, table = tmp_path / "bomb.parquet", pa.table({"label": [1, 2], "sample": ["x", "x" * BOMB]})
    one_each = {"use_dictionary": False, "write_batch_size": 1, "data_page_size": 1}
    parquet.write_table(table, path, compression="zstd", write_statistics=False, **one_each)
    column, content = parquet.ParquetFile(path).metadata.row_group(0).column(1), path.read_bytes()
    start, packed = column.data_page_offset, column.total_compressed_size
    head = content[start : start + 40].replace(b"\x2c\x15\x02", b"\x2c\x15" + varint(2**31 + 1), 1)
    longer, footer = varint(packed + len(head) - 40), start + packed
    assert len(longer) == len(varint(packed))
    footers = content[footer:].replace(varint(packed), longer)
    path.write_bytes(content[:start] + head + content[start + 40 : footer] + footers)
    refused_unread(path, monkeypatch)


def test_pages_are_looked_at_once(tmp_path, monkeypatch):
    """A footer whose columns all are one and the same: looking at each would take the square of the file's size."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, seen = tmp_path / "many.parquet", []
    parquet.write_table(pa.table({f"c{one}": [1.0] * 100 for one in range(9)}), path)
    true = parquet.ParquetFile(path).metadata.row_group(0).column(0).total_compressed_size
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    lied = content[start:].replace(varint(true), varint(8000))
    assert len(varint(8000)) == len(varint(true))
    path.write_bytes(content[:start] + lied)
    monkeypatch.setattr("sedml.files.formats.unpacked_size", lambda *asked: seen.append(asked) or 0)
    with pytest.raises(FileFormatError):
        load_predictions(path)
    assert seen == []


def test_a_group_without_rows_is_no_damage(tmp_path):
    """Tools that filter write some; of truths, such a group has no page at all."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, some = tmp_path / "votes.parquet", pa.table({"label": [0, 1, 2], "sure": [True, False, True]})
    with parquet.ParquetWriter(path, some.schema) as writer:
        writer.write_table(some)
        writer.write_table(some.slice(0, 0))
    assert read_parquet(path).num_rows == 3


@pytest.mark.usefixtures("small_limit")
def test_a_group_of_less_than_no_rows_makes_no_room_for_another_one(tmp_path, monkeypatch):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, many = tmp_path / "votes.parquet", BOMB // 8
    some = pa.table({"label": np.zeros(many, np.int64)})
    with parquet.ParquetWriter(path, some.schema, write_statistics=False) as writer:
        writer.write_table(some, row_group_size=many)
        writer.write_table(some.slice(1), row_group_size=many)
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:start] + content[start:].replace(varint(many - 1), varint(1 - many)))
    assert parquet.ParquetFile(path).metadata.row_group(1).num_rows == 1 - many
    refused_unread(path, monkeypatch)
