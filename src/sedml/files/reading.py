"""Predictions from files: NumPy, CSV and Parquet, told apart by the suffix.

In every format a row of predictions is a teacher and a column is a sample. Predictions are secret, so no
error quotes the contents of a file.
"""

from __future__ import annotations

import csv
import functools
import itertools
import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, MissingExtraError
from sedml.files.parquet import read_parquet
from sedml.files.suffixes import by_suffix, reason

__all__ = ["load_predictions"]

_Array: TypeAlias = npt.NDArray[Any]

_DEFAULT_KEY = "predictions"
_KEYS_SHOWN = 20


def load_predictions(path: str | os.PathLike[str], key: str | None = None) -> _Array:
    """The array of predictions in a file, for `sedml.protocol.votes.as_votes` to check.

    - `.npy`: the array. Pickled objects are refused, here and in `.npz`.
    - `.npz`: the array named `key`; without a key, the only array, or the one named 'predictions'.
    - `.csv`, `.tsv`: one line per teacher, one column per sample, separated by commas or tabs. The first line
      may hold names, none of which is a number; there is no index column. Class ids only.
    - `.parquet`: one row per teacher, one column per sample; an index that pandas stored is left out. Class
      ids only. Needs pyarrow.
    """
    path = Path(path)
    reader = by_suffix(path, _READERS)
    if key is not None and reader is not _read_npz:
        what = f"The key {key!r} was given for {path}, which is not an .npz file."
        raise FileFormatError(what, "Leave the key out.")
    try:
        if path.is_file() and path.stat().st_size == 0:
            raise FileFormatError(f"{path} is empty.", "Write the predictions again.")
        array: _Array = reader(path, key)
    except (FileFormatError, MissingExtraError):
        raise
    except MemoryError:
        problem = f"{path} does not fit in memory, or is damaged.", "Write the predictions as small integers."
    except FileNotFoundError:
        problem = f"{path} does not exist.", "Check the path."
    except OSError as error:
        problem = f"{path} cannot be read ({reason(error)}).", "Check that it is a whole file you may read."
    except Exception:  # a damaged file makes the parsers raise nearly anything
        problem = f"{path} is damaged, truncated or not a {path.suffix} file.", "Write the predictions again."
    else:
        if array.size == 0:
            raise FileFormatError(f"{path} holds no predictions.", "Write one row per teacher.")
        return array
    # Raised out here so that the parser's error, which may quote a prediction, is not chained to ours.
    raise FileFormatError(*problem)


def _read_npy(path: Path, key: str | None) -> _Array:
    with path.open("rb") as stream:
        return _read_array(stream, path)


def _read_array(stream: BinaryIO | Any, path: Path) -> _Array:  # noqa: ANN401 - zipfile's streams
    try:
        array: _Array = np.lib.format.read_array(stream, allow_pickle=False)
    except ValueError as error:
        if "Object arrays" not in str(error):
            raise
    else:
        return array
    raise FileFormatError(
        f"{path} holds pickled Python objects, which can run code when they are loaded.",
        "Save a plain array of numbers: np.save(path, np.asarray(predictions, dtype=np.int16)).",
    )


def _read_npz(path: Path, key: str | None) -> _Array:
    with zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")}
        with archive.open(members[_choose_key(path, list(members), key)]) as stream:
            return _read_array(stream, path)


def _choose_key(path: Path, keys: list[str], key: str | None) -> str:
    listed = ", ".join(repr(name) for name in keys[:_KEYS_SHOWN]) + (", ..." if len(keys) > _KEYS_SHOWN else "")
    if not keys:
        raise FileFormatError(f"{path} contains no arrays.", "Write it with np.savez(path, predictions=...).")
    if key is None and len(keys) == 1:
        return keys[0]
    if key is None and _DEFAULT_KEY in keys:
        return _DEFAULT_KEY
    if key is None:
        raise FileFormatError(f"{path} contains several arrays.", f"Say which with a key; it has {listed}.")
    if key not in keys:
        raise FileFormatError(f"{path} contains no array {key!r}.", f"Use a key that is there: {listed}.")
    return key


def _read_text(path: Path, key: str | None, *, delimiter: str) -> _Array:
    try:
        with path.open(encoding="utf-8-sig") as stream:
            rows = (line for _, line in _table_lines(stream, path, delimiter))
            first = next(rows, None)
            if first is None:
                raise FileFormatError(f"{path} has no line of numbers.", _separated(delimiter))
            # Quotes are allowed: some writers put every cell in them.
            return np.loadtxt(
                itertools.chain([first], rows), delimiter=delimiter, comments=None, quotechar='"', ndmin=2
            )
    except UnicodeDecodeError:
        problem = f"{path} is not UTF-8 text.", "Write it as UTF-8, or use .npy."
    except FileFormatError:
        raise
    except ValueError:
        problem = _text_problem(path, delimiter)
    raise FileFormatError(*problem)


def _table_lines(stream: Iterator[str], path: Path, delimiter: str) -> Iterator[tuple[int, str]]:
    """The numbered lines of predictions: without blank lines and the line of names."""
    lines = ((number, line) for number, line in enumerate(stream, 1) if line.strip(" \n"))
    for number, line in itertools.islice(lines, 1):
        cells = _cells(line, delimiter)
        if not cells[0].strip():
            raise FileFormatError(
                f"The first cell of {path} is empty, as if an index column followed.",
                "Write it without one: frame.to_csv(path, index=False, header=False).",
            )
        if any(_is_number(cell) for cell in cells):
            yield number, line
    yield from lines


def _text_problem(path: Path, delimiter: str) -> tuple[str, str]:
    """Where a file that does not parse goes wrong: NumPy's own message would quote the cell."""
    width = None
    with path.open(encoding="utf-8-sig") as stream:
        for number, line in _table_lines(stream, path, delimiter):
            cells = _cells(line, delimiter)
            for column, cell in enumerate(cells, 1):
                if not _is_number(cell):
                    state = "not a number" if cell.strip() else "empty"
                    return f"Line {number}, column {column} of {path} is {state}.", _separated(delimiter)
            width = width or len(cells)
            if len(cells) != width:
                return (
                    f"Line {number} of {path} has {len(cells)} columns, the lines before it {width}.",
                    "Give every teacher one column per sample.",
                )
    return f"{path} cannot be read as a table of numbers.", "Write it again, or use .npy."


def _separated(delimiter: str) -> str:
    name = "commas" if delimiter == "," else "tabs"
    return f"Write class ids, a negative number to abstain, separated by {name}."


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter))


def _is_number(cell: str) -> bool:
    # float() also takes 1_000 and the digits of other scripts; NumPy's reader does not.
    if "_" in cell or not cell.isascii():
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


_READERS: dict[str, Callable[..., _Array]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": functools.partial(_read_text, delimiter=","),
    ".tsv": functools.partial(_read_text, delimiter="\t"),
    ".parquet": read_parquet,
}
