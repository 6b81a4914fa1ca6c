"""Which format a file has by its name, NumPy's own files and Parquet, and why a file cannot be read, in words.

Files may come from others. Pickled objects are refused, and so is what would take far more memory than the file has
bytes: what a file says of its arrays is read, and checked, before anything is unpacked.
"""

from __future__ import annotations

import importlib
import io
import math
import mmap
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, MissingExtraError
from sedml.extras import explain_missing
from sedml.files.parquet_pages import unpacked_size

_SMALL = 256 << 20  # bytes that any file may take up
_UNPACKED = 16  # times what it has on disk, that a larger one may
_HEADER = 16 << 10  # of an array; NumPy takes no longer one, but reads it first
_MEMBERS = 1000  # of an .npz file: each takes ten times of memory what it has on disk
_MEMBER = re.compile(rb"PK\x01\x02")  # how its entry in the directory of the file begins
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # NumPy's own; others allocate what they are told to

T = TypeVar("T")


def by_suffix(path: Path, table: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The entry of a table of formats that a file's suffix chooses."""
    known = table.get(path.suffix.lower())
    if known is None:
        raise FileFormatError(
            f"{path} is not a file of a known kind ({path.suffix or 'no suffix'}).", f"Use one of {', '.join(table)}."
        )
    return known


def read_explained(path: Path, read: Callable[[], T], again: str) -> T:
    """What `read` returns, or an error that says why the file cannot be read and quotes nothing of it."""
    try:
        return read()
    except (FileFormatError, MissingExtraError):
        raise
    except FileNotFoundError:
        problem = f"{path} does not exist.", "Check the path."
    except MemoryError:
        problem = f"{path} does not fit in memory, or is damaged.", f"{again} Use small numbers."
    except OSError as error:
        problem = f"{path} cannot be read ({reason(error)}).", "Check that it is a whole file you may read."
    except UnicodeDecodeError:
        problem = f"{path} is not UTF-8 text.", "Save it as UTF-8, which Excel calls CSV UTF-8, or as .parquet."
    except Exception:  # a damaged file makes the parsers raise nearly anything
        problem = f"{path} is damaged, truncated or not a {path.suffix} file.", again
    # Raised out here so that the parser's error, which may quote a value, is not chained to ours.
    raise FileFormatError(*problem)


def reason(error: OSError) -> str:
    """The system's own words for what went wrong."""
    return error.strerror or type(error).__name__


def array_names(path: Path) -> list[str]:
    """What the arrays of an .npz file are called; none if it is not such a file."""
    if not zipfile.is_zipfile(path):
        return []
    with _archive(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


@contextmanager
def open_array(path: Path, name: str) -> Iterator[IO[bytes]]:
    """A stream of one array of an .npz file, for `read_array` or `array_shape`."""
    with _archive(path) as archive:
        member = archive.getinfo(f"{name}.npy")
        if member.compress_type not in _PACKINGS:
            raise FileFormatError(f"{path} is packed in another way than NumPy's.", "Write it with np.savez.")
        with archive.open(member) as stream:
            yield stream


def array_shape(stream: IO[bytes], path: Path, besides: int = 0) -> tuple[int, ...]:
    """The shape of the array in a stream of the file at `path`; raises if it is none that `read_array` would read.

    Of the stream, no more is read than the header. `besides` is how many bytes other arrays of the file take up.
    """
    head = io.BytesIO(stream.read(_HEADER))
    version = np.lib.format.read_magic(head)
    # NumPy has a public reader of headers for each of the two formats that files have.
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(head)
    if dtype.hasobject:
        raise FileFormatError(
            f"{path} holds pickled Python objects, which can run code when they are loaded.",
            "Save a plain array of numbers: np.save(path, np.asarray(predictions, dtype=np.int16)).",
        )
    if any(length < 0 for length in shape) or not dtype.itemsize:  # of nothing, any number takes no room
        raise ValueError
    _check_room(path, besides + math.prod(shape) * dtype.itemsize)
    return shape


def read_array(stream: IO[bytes], path: Path, besides: int = 0) -> npt.NDArray[Any]:
    """The array in a stream of the file at `path`."""
    array_shape(stream, path, besides)
    stream.seek(0)
    array: npt.NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def load_parquet() -> Any:  # noqa: ANN401 - pyarrow has no types
    """The library for Parquet, the one format that needs a library of its own; raises unless it is installed."""
    with explain_missing():
        return importlib.import_module("pyarrow.parquet")


def read_parquet(path: Path) -> Any:  # noqa: ANN401
    """The table of a Parquet file."""
    parquet = load_parquet()
    compute = importlib.import_module("pyarrow.compute")
    with parquet.ParquetFile(path) as file:
        found, schema = file.metadata, file.schema_arrow
        columns = [file.schema.column(number) for number in range(found.num_columns)]
    if any(column.path != column.name or column.max_repetition_level for column in columns):
        raise FileFormatError(f"{path} has a column of lists or structures.", "Write one value a row in each column.")
    groups = [found.row_group(number) for number in range(found.num_row_groups)]
    if any(group.column(number).num_values != group.num_rows for group in groups for number in range(len(columns))):
        raise ValueError
    if any(group.num_rows < 0 for group in groups):  # which would make room for another one
        raise ValueError
    # A value that is repeated takes next to nothing on disk: numbers are counted, texts are read but once each.
    numbers = sum(max(8, column.length or 0) * group.num_rows for group in groups for column in columns)
    parts = [group.column(number) for group in groups for number in range(len(columns)) if group.num_rows]
    if sum(part.total_compressed_size for part in parts) > path.stat().st_size:
        raise ValueError
    with path.open("rb") as stream:
        pages = sum(
            unpacked_size(
                stream,
                min(filter(None, (one.dictionary_page_offset, one.data_page_offset))),
                one.num_values,
                one.total_compressed_size,
            )
            for one in parts
        )
    _check_room(path, numbers + pages)
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    # Not read_table: it takes a folder named like a=1 in the path for one more column.
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read()
    chunks = [chunk for column in table.columns for chunk in column.chunks if hasattr(chunk, "dictionary")]
    lengths = (compute.sum(compute.binary_length(chunk.dictionary).take(chunk.indices)) for chunk in chunks)
    _check_room(path, sum(length.as_py() or 0 for length in lengths))
    return table.cast(schema)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if next(islice(_MEMBER.finditer(content), _MEMBERS, None), None) is not None:
            raise FileFormatError(f"{path} contains more than {_MEMBERS:,} arrays.", "Write those that are needed.")
    with zipfile.ZipFile(path) as archive:
        yield archive


def _check_room(path: Path, size: int) -> None:
    """Raise if so many bytes are out of all proportion to the file."""
    stored = path.stat().st_size
    if size > max(_SMALL, _UNPACKED * stored):
        raise FileFormatError(
            f"{path} has {stored / 1e6:,.1f} MB, and would take {size / 1e6:,.0f} MB of memory, or is damaged.",
            "If you trust its author, have it written without compression (np.savez), or with smaller numbers "
            "(uint8, int16, float32).",
        )
