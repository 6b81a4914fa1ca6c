"""Which format a file has by its name, NumPy's own files, and why a file cannot be read, in words.

Pickled objects are refused.
"""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, MissingExtraError, explain_missing

__all__ = ["array_names", "by_suffix", "load_parquet", "open_array", "read_array", "read_explained", "reason"]

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


def load_parquet() -> Any:  # noqa: ANN401 - pyarrow has no types
    """The library for Parquet, the one format that needs a library of its own; raises unless it is installed."""
    with explain_missing():
        return importlib.import_module("pyarrow.parquet")
