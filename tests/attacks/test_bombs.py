"""A requester, a server or a colleague sends something small that is meant to fill a machine's memory.

Limits are a hundredth of the real ones here, so that a bomb is quickly made; what is measured is memory at its peak, of
NumPy, of zlib and of Python.
"""

from __future__ import annotations

import gzip
import struct
import tempfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import anyio
import httpx2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import FileFormatError, ServerError, TaskError, UnreachableError
from sedml.files.parquet_pages import unpacked_size
from sedml.files.reading import load_predictions
from sedml.parts.part_files import open_records
from sedml.service.client import AsyncTeacher
from sedml.service.client.samples import count_samples, load_samples, sample_ids
from support.client_parties import Model, Parties
from support.stage import deployed, kits, provisioned, small_blocks, stage

__all__ = ["deployed", "kits", "provisioned", "small_blocks", "stage"]

MB = 1 << 20
BOMB = 48 * MB
ALLOWED = 4 * MB
"""What the limit of the tests, 2 MB, may take in all."""


@pytest.fixture(autouse=True)
def small_limit(monkeypatch):
    monkeypatch.setattr("sedml.files.formats._SMALL", 2 * MB)


def peak(call: Callable[[], object]) -> int:
    """Bytes that a call has taken at its peak."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def header(descr: object, shape: object, version: int = 1, padding: int = 0) -> bytes:
    """The beginning of an .npy file that says this."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode() + b" " * padding + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text


def zipped(path: Path, content: bytes, packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("x.npy", content)
    return path


def zeros(path: Path) -> Path:
    return zipped(path, header("<f8", (50, BOMB // 400)) + bytes(BOMB))


def wide_items(path: Path) -> Path:
    """The shape is small, and a single item is not."""
    return zipped(path, header(f"|V{BOMB // 50}", (50,)) + bytes(BOMB))


def items_of_items(path: Path) -> Path:
    return zipped(path, header([("a", "<f8", (BOMB // 400,))], (50,)) + bytes(BOMB))


def long_header(path: Path) -> Path:
    """NumPy reads a header of up to 4 GB before it finds it too long."""
    return zipped(path, header("<f8", (50, 2), 2, BOMB) + bytes(800))


def lying_directory(path: Path) -> Path:
    """The directory says that there are few bytes, and there are many."""
    zeros(path)
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02")
    content[place + 24 : place + 28] = struct.pack("<I", 900)
    path.write_bytes(content)
    return path


def lying_header(path: Path) -> Path:
    """The header says that there are many, and there are none: space for them must not be taken."""
    path = path.with_suffix(".npy")
    path.write_bytes(header("<f8", (50, 1 << 40)))
    return path


def negative(path: Path) -> Path:
    return zipped(path, header("<f8", (-50, -BOMB // 400)) + bytes(BOMB))


def pickled(path: Path) -> Path:
    return zipped(path, header("|O", (50,)) + bytes(BOMB))


def packed_otherwise(path: Path) -> Path:
    """Its sender says how much memory unpacking it takes."""
    return zipped(path, header("<f8", (50, 2)) + bytes(800), zipfile.ZIP_LZMA)


BOMBS = [
    zeros,
    wide_items,
    items_of_items,
    long_header,
    lying_directory,
    lying_header,
    negative,
    pickled,
    packed_otherwise,
]


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("read", [count_samples, load_samples, load_predictions])
def test_a_small_file_takes_little_memory_or_is_refused(tmp_path, bomb, read):
    path = bomb(tmp_path / "bomb.npz")

    def attempt() -> None:
        with pytest.raises(FileFormatError) as refused:
            read(path)
        assert refused.value.do

    if bomb is lying_directory and read is count_samples:
        return  # whose header is all that is read
    assert peak(attempt) < ALLOWED


def test_a_file_of_a_million_arrays_is_refused_before_they_are_listed(tmp_path):
    path = tmp_path / "bomb.npz"
    entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0) + b"a.npy"
    many = 100_000
    directory = entry * many
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(directory), 4, 0)
    path.write_bytes(b"PK\x03\x04" + directory + end)
    with pytest.raises(FileFormatError, match="more than 1,000 arrays"):
        count_samples(path)

    def attempt() -> None:
        with pytest.raises(FileFormatError, match="more than 1,000 arrays"):
            load_predictions(path)

    assert peak(attempt) < ALLOWED


def repeated_number(path: Path) -> Path:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"label": pa.array(np.zeros(BOMB // 8, np.int64))}), path)
    return path


def shared_text():
    pa = pytest.importorskip("pyarrow")
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(BOMB // 9000, np.int32)), pa.array(["x" * 9000]))


def repeated_text(path: Path) -> Path:
    """One long text, which is written once."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"sample": shared_text().cast(pa.string()), "label": pa.array(np.zeros(BOMB // 9000, np.int64))}
    parquet.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize("read", [load_predictions, lambda path: open_records(path, None)])
@pytest.mark.parametrize("kind", ["structure", "list"])
def test_texts_of_a_parquet_file_are_not_hidden_within_others(tmp_path, kind, read):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    texts, path = shared_text(), tmp_path / "bomb.parquet"
    if kind == "structure":
        column = pa.StructArray.from_arrays([texts], ["t"])
    else:
        column = pa.ListArray.from_arrays(pa.array(np.arange(len(texts) + 1, dtype=np.int32)), texts)
    parquet.write_table(pa.table({"label": pa.array(np.zeros(len(texts), np.int64)), "s": column}), path)
    assert path.stat().st_size < MB
    with pytest.raises(FileFormatError, match="lists or structures"):
        read(path)


def varint(number: int, width: int = 0) -> bytes:
    """A number as the footer of a Parquet file has it, in so many bytes at least."""
    parts, left = [], number << 1
    while left or len(parts) < width:
        parts.append(left & 0x7F)
        left >>= 7
    return bytes([part | 0x80 for part in parts[:-1]] + parts[-1:])


def test_a_parquet_file_that_says_it_has_few_values_is_refused(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, many = tmp_path / "bomb.parquet", BOMB // 8
    table, in_one_page = pa.table({"label": np.zeros(many, np.int64)}), {"data_page_size": 1 << 30}
    parquet.write_table(table, path, row_group_size=many, write_batch_size=many, write_statistics=False, **in_one_page)
    group = parquet.ParquetFile(path).metadata.row_group(0)
    content, said = path.read_bytes(), varint(group.num_rows)
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    places = [place for place in range(start, len(content)) if content.startswith(said, place)]
    assert places
    pool, lied = pa.default_memory_pool(), []
    for place in places:
        path.write_bytes(content[:place] + varint(8, len(said)) + content[place + len(said) :])
        pool.release_unused()
        lied.append(parquet.ParquetFile(path).metadata.row_group(0).column(0).num_values == 8)
        before = pool.max_memory()
        with pytest.raises(FileFormatError):
            load_predictions(path)
        assert pool.max_memory() == before
    assert any(lied)


def test_a_parquet_file_that_says_its_pages_are_small_is_refused(tmp_path):
    """One long text, which a good packing has in some kilobytes; the footer denies it."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path, table = tmp_path / "bomb.parquet", pa.table({"label": [1], "sample": ["x" * BOMB]})
    parquet.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)
    group, content = parquet.ParquetFile(path).metadata.row_group(0), path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    footer = content[start:]
    for size in (group.column(1).total_uncompressed_size, group.total_byte_size):
        footer = footer.replace(varint(size), varint(64, len(varint(size))))
    path.write_bytes(content[:start] + footer)
    del table
    assert parquet.ParquetFile(path).metadata.row_group(0).column(1).total_uncompressed_size == 64
    assert path.stat().st_size < MB
    pool = pa.default_memory_pool()
    pool.release_unused()
    before = pool.max_memory()
    with pytest.raises(FileFormatError, match="of memory"):
        load_predictions(path)
    assert pool.max_memory() == before


@given(
    rows=st.integers(1, 300),
    packing=st.sampled_from(["none", "snappy", "gzip", "zstd", "lz4", "brotli"]),
    version=st.sampled_from(["1.0", "2.0"]),
    words=st.booleans(),
    page=st.sampled_from([1, 64, 1 << 20]),
    group=st.integers(1, 300),
)
@settings(max_examples=40)
def test_pages_of_a_parquet_file_say_as_much_as_an_honest_footer(rows, packing, version, words, page, group):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    values = np.arange(rows) % 7
    table = pa.table({"number": values, "maybe": [None if one else 1.5 for one in values], "text": values.astype(str)})
    with tempfile.TemporaryFile() as stream:
        options = {"use_dictionary": words, "data_page_size": page, "write_batch_size": 10, "row_group_size": group}
        parquet.write_table(table, stream, compression=packing, data_page_version=version, **options)
        file = parquet.ParquetFile(stream).metadata
        for number in range(file.num_row_groups):
            for one in (file.row_group(number).column(place) for place in range(3)):
                start = one.data_page_offset if one.dictionary_page_offset is None else one.dictionary_page_offset
                size = unpacked_size(stream, start, one.num_values, one.total_compressed_size)
                assert stream.tell() == start + one.total_compressed_size
                assert 0 < size < one.total_uncompressed_size, "which counts the headers of pages too"


def test_arrays_that_are_small_each_are_refused_together(tmp_path):
    path = tmp_path / "records.npz"
    np.savez_compressed(path, **{f"a{number}": np.zeros((50, MB // 50), np.uint8) for number in range(40)})

    def attempt() -> None:
        with pytest.raises(FileFormatError, match="of memory"):
            open_records(path, None)

    assert peak(attempt) < ALLOWED


def test_ids_that_are_all_the_same_are_refused_before_they_are_texts(tmp_path):
    path = tmp_path / "public.npz"
    many = MB // 8
    np.savez_compressed(path, x=np.zeros((many, 1), np.uint8), ids=np.full(many, 123456789012345678, np.int64))

    def attempt() -> None:
        with pytest.raises(FileFormatError, match="the same id"):
            sample_ids(path)

    assert peak(attempt) < ALLOWED


@pytest.mark.parametrize("bomb", [repeated_number, repeated_text])
def test_a_parquet_file_whose_values_are_repeated_is_refused_before_they_are(tmp_path, bomb):
    path = bomb(tmp_path / "bomb.parquet")
    assert path.stat().st_size < MB
    pool = pytest.importorskip("pyarrow").default_memory_pool()
    pool.release_unused()
    before = pool.max_memory()
    with pytest.raises(FileFormatError, match="of memory"):
        load_predictions(path)
    # Its writer has taken more in this process, so that the peak shows only what is read besides.
    assert pool.max_memory() == before


def test_texts_of_a_parquet_file_come_back_as_they_were(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "own.parquet"
    parquet.write_table(pa.table({"sample": ["1", "0", "2"], "label": [1, 0, 2]}), path)
    assert load_predictions(path).tolist() == [[0, 1, 2]]


def test_a_teacher_that_waits_for_jobs_says_why_it_does_not_vote_on_a_bomb(kits, deployed, tmp_path, monkeypatch):
    """The requester's own client refuses to ask for it; another one need not."""
    path = zeros(tmp_path / "public.npz")
    with pytest.raises(FileFormatError, match="of memory"):
        Parties(kits, False).create(path)
    monkeypatch.setattr("sedml.service.client.requester.count_samples", lambda _: 50)
    job = Parties(kits, False).create(path).id
    events: list = []

    async def wait() -> None:
        async for event in AsyncTeacher(kits / "teacher-001").watch(model=Model(), max_epsilon=100.0):
            events.append(event)
            return

    assert peak(lambda: anyio.run(wait)) < ALLOWED + 8 * MB
    assert [(event.what, event.job.id) for event in events] == [("skipped", job)]
    assert "MB of memory" in events[0].reason


def test_a_job_whose_ballots_would_fill_a_teachers_memory_is_refused(kits, deployed, tmp_path):
    """Its terms are short, its samples take a byte each, and every teacher would need nine gigabytes."""
    np.savez_compressed(tmp_path / "public.npz", x=np.zeros(MB, np.uint8))
    with pytest.raises(TaskError, match=r"has ballots of 4,\d\d\d,\d\d\d,\d\d\d bytes"):
        Parties(kits, False).create(tmp_path / "public.npz", classes=1000, sigma=16_000.0, cohort="guarded")
    assert not deployed.servers[0].jobs


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "gzip, gzip"])
@pytest.mark.parametrize("pattern", ["GET .*/data", "GET /v1/jobs$"])
def test_what_a_server_has_packed_is_not_unpacked(kits, deployed, tmp_path, encoding, pattern):
    """No client asks for it, so that only a server that wants to do harm sends it."""
    np.savez(tmp_path / "public.npz", x=np.zeros((50, 2)))
    parties = Parties(kits, False)
    job = parties.create(tmp_path / "public.npz").id
    content = bytes(BOMB)
    for one in reversed(encoding.split(", ")):
        content = zlib.compress(content) if one == "deflate" else gzip.compress(content, 1)
    answer = {"headers": {"Content-Encoding": encoding}, "stream": Stream(content)}
    for server in deployed.servers:
        server.fault(pattern, lambda _: httpx2.Response(200, **answer))

    def ask() -> None:
        with pytest.raises(ServerError, match="makes no sense"):
            parties.teacher(1, *(("fetch", job) if "data" in pattern else ("jobs",)))

    assert peak(ask) < ALLOWED


@pytest.mark.parametrize("pattern", ["GET .*/data", "GET /v1/jobs$"])
def test_a_server_that_answers_byte_by_byte_is_left(kits, deployed, tmp_path, pattern, monkeypatch):
    """Each byte comes before a time-out would, and the last one never."""
    np.savez(tmp_path / "public.npz", x=np.zeros((50, 200)))
    parties = Parties(kits, False)
    job = parties.create(tmp_path / "public.npz").id
    heard: list[int] = []
    clock = iter(range(0, 10**6, 50))
    monkeypatch.setattr("sedml.service.client.connection.anyio.current_time", lambda: next(clock))
    for server in deployed.servers:
        server.fault(pattern, lambda _: httpx2.Response(200, stream=Drops(heard)))

    async def ask() -> None:
        teacher = AsyncTeacher(kits / "teacher-001", patience=0)
        await (teacher.fetch(job) if "data" in pattern else teacher.jobs())

    with pytest.raises(UnreachableError, match="no answer in time"):
        anyio.run(ask)
    assert len(heard) < 10


class Drops(httpx2.AsyncByteStream):
    """A body that has no end."""

    def __init__(self, heard: list[int]) -> None:
        self._heard = heard

    async def __aiter__(self):
        for number in range(1000):
            self._heard.append(number)
            yield b" "


class Stream(httpx2.AsyncByteStream):
    """A body that is sent piece by piece."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self):
        for start in range(0, len(self._content), 1 << 16):
            yield self._content[start : start + (1 << 16)]
