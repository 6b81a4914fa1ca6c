"""Predictions from files: NumPy, CSV and Parquet, told apart by the suffix.

In every format a row of predictions is a teacher and a column is a sample; `natural_tables` knows what else is written.
Predictions are secret, so no error quotes the contents of a file.
"""

from __future__ import annotations

import csv
import functools
import itertools
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, counted
from sedml.files.formats import array_names, by_suffix, open_array, read_array, read_explained, read_parquet
from sedml.files.headings import Table, has_index, is_number, table_names, table_of_words
from sedml.files.natural_tables import SampleIds, all_teachers, one_teacher

_Array: TypeAlias = npt.NDArray[Any]

_DEFAULT_KEY = "predictions"
_KEYS_SHOWN = 20
_STORED_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name."""


def load_predictions(
    path: str | os.PathLike[str], key: str | None = None, *, names: Sequence[str] = (), ids: SampleIds | None = None
) -> _Array:
    """The array of predictions in a file, for `sedml.protocol.votes.as_votes` to check.

    - `.npy`: the array. Pickled objects are refused, here and in `.npz`.
    - `.npz`: the array named `key`; without a key, the only array, or the one named 'predictions'.
    - `.csv`, `.tsv`, `.parquet`: class ids, one row per teacher and one column per sample, or a column 'sample' and one
      for each teacher. One column alone is the votes of one teacher. Ids or numbers of samples, on top or in a column,
      give their order; the index of pandas is left out; what could be either an index or votes is refused. Parquet
      needs pyarrow.

    Where classes have `names`, these may stand for class ids, in every format. `ids` gives the samples' own ids, if
    they have any: it is called if the rows or the columns of a table are named and not numbered.
    """
    return _load(path, key, names, lambda table: all_teachers(table, ids, names))


def load_one_teacher(
    path: str | os.PathLike[str], key: str | None = None, *, names: Sequence[str] = (), ids: SampleIds | None = None
) -> _Array:
    """One teacher's predictions in a file of the same formats: class ids (samples,), or scores (samples, classes).

    In `.csv`, `.tsv` and `.parquet` a row is a sample, unless there is only one; ids or numbers of samples give their
    order, and headings that are classes give that of scores.
    """
    return _load(path, key, names, lambda table: one_teacher(table, ids, names))


def _load(
    path: str | os.PathLike[str], key: str | None, names: Sequence[str], arrange: Callable[[Table], _Array]
) -> _Array:
    path = Path(path)
    reader = by_suffix(path, _READERS)
    if key is not None and reader is not _read_npz:
        what = f"The key {key!r} was given for {path}, which is not an .npz file."
        raise FileFormatError(what, "Leave the key out.")

    def read() -> _Array:
        if path.is_file() and path.stat().st_size == 0:
            raise FileFormatError(f"{path} is empty.", "Write the predictions again.")
        found: _Array | Table = reader(path, key, tuple(names))
        if (found.numbers if isinstance(found, Table) else found).size == 0:
            raise FileFormatError(f"{path} holds no predictions.", "Write one row per teacher.")
        return arrange(found) if isinstance(found, Table) else found

    return read_explained(path, read, "Write the predictions again.")


def _read_npy(path: Path, key: str | None, _: tuple[str, ...]) -> _Array:
    with path.open("rb") as stream:
        return read_array(stream, path)


def _read_npz(path: Path, key: str | None, _: tuple[str, ...]) -> _Array:
    with path.open("rb") as stream:
        if not zipfile.is_zipfile(stream):
            raise zipfile.BadZipFile
    with open_array(path, _choose_key(path, array_names(path), key)) as stream:
        return read_array(stream, path)


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


def _read_text(path: Path, key: str | None, names: tuple[str, ...], *, delimiters: str) -> Table:
    with path.open(encoding="utf-8-sig") as stream:
        # Where the comma is for decimals, programs write semicolons.
        delimiter = max(delimiters, key=stream.readline().count)
    try:
        with path.open(encoding="utf-8-sig") as stream:
            found = _read_numbers(stream, path, delimiter)
        if found is None:
            with path.open(encoding="utf-8-sig", newline="") as stream:
                found = table_of_words(path, list(csv.reader(stream, delimiter=delimiter, strict=True)), names)
        if found is not None:
            return found
        problem = _text_problem(path, delimiter, names)
    except csv.Error:
        problem = _text_problem(path, delimiter, names)
    raise FileFormatError(*problem)


def _read_numbers(stream: Iterator[str], path: Path, delimiter: str) -> Table | None:
    """A table that has nothing but numbers beside its headings and its index; None if there is anything else."""
    names, rows = _table_lines(stream, path, delimiter)
    index: list[str] | None = [] if has_index(names) else None
    lines: Iterator[str] = (line for _, line in rows)
    lines = lines if index is None else _without_index(lines, delimiter, index)
    first = next(lines, None)
    if first is None:
        return None
    try:
        # Quotes are allowed: some writers put every cell in them.
        numbers = np.loadtxt(
            itertools.chain([first], lines), delimiter=delimiter, comments=None, quotechar='"', ndmin=2
        )
    except UnicodeDecodeError:
        raise
    except ValueError:
        return None
    # NumPy skips a line with nothing but its index, and knows nothing of the headings.
    whole = numbers.shape if index is None else (len(index), numbers.shape[1] + 1)
    if len(numbers) != whole[0] or (names is not None and len(names) != whole[1]):
        return None
    return Table(path, numbers, names, None if index is None else tuple(index))


def _table_lines(
    stream: Iterator[str], path: Path, delimiter: str
) -> tuple[tuple[str, ...] | None, Iterator[tuple[int, str]]]:
    """The headings, if there are any, and the numbered lines of predictions, without blank ones."""
    lines = ((number, line) for number, line in enumerate(stream, 1) if line.strip(" \n"))
    first = next(lines, None)
    if first is None:
        return None, lines
    names = table_names(_cells(first[1], delimiter), path)
    return names, lines if names is not None else itertools.chain([first], lines)


def _without_index(lines: Iterator[str], delimiter: str, index: list[str]) -> Iterator[str]:
    for line in lines:
        cell, *rest = _cells(line, delimiter)
        index.append(cell)
        yield delimiter.join(rest)


def _text_problem(path: Path, delimiter: str, known: tuple[str, ...]) -> tuple[str, str]:
    """Where a file that does not parse goes wrong: NumPy's own message would quote the cell."""
    with path.open(encoding="utf-8-sig") as stream:
        names, rows = _table_lines(stream, path, delimiter)
        width, number = (None if names is None else len(names)), 0
        for number, line in rows:
            cells = _cells(line, delimiter)
            for column, cell in enumerate(cells, 1):
                if not is_number(cell) and not (known and cell.strip()) and not (column == 1 and has_index(names)):
                    state = "not a number" if cell.strip() else "empty"
                    return f"Line {number}, column {column} of {path} is {state}.", _separated(delimiter, line)
            width = width or len(cells)
            if len(cells) != width:
                return (
                    f"Line {number} of {path} has {counted(len(cells), 'column')}, the lines before it {width}.",
                    "Give every row the same number of columns.",
                )
    if not number:
        return f"{path} has no line of predictions.", _separated(delimiter)
    return f"{path} cannot be read as a table of predictions.", f"{_separated(delimiter)} Leave no cell empty."


def _separated(delimiter: str, line: str = "") -> str:
    name = {",": "commas", ";": "semicolons", "\t": "tabs"}[delimiter]
    advice = f"Write classes, a negative number to abstain, separated by {name}."
    for other, found in (("commas", ","), ("semicolons", ";"), ("tabs", "\t"), ("spaces", None)):
        cells = line.split(found)
        if len(cells) > 1 and all(is_number(cell) for cell in cells) and other != name:
            return f"{advice} This line is separated by {other}."
    return advice


def _cells(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter))


def _read_parquet(path: Path, key: str | None, classes: tuple[str, ...]) -> Table:
    """The table of a file, with the index that pandas stored."""
    table = read_parquet(path)
    known = [name for name in (table.schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)]
    stored = [name for name in table.column_names if name in known or _STORED_INDEX.fullmatch(name)]
    headings = tuple(map(str.strip, table.column_names))
    lead = stored[:1] or ([table.column_names[0]] if has_index(headings) else [])
    index = tuple(str(value) for name in lead for value in table.column(name).to_pylist()) if lead else None
    heading = [] if index is None else ["" if stored else headings[0]]
    table = table.drop_columns([*stored] or lead)
    names = (*heading, *map(str.strip, table.column_names))
    columns = [column.to_numpy() for column in table.columns]
    if not any(column.null_count for column in table.columns) and any(one.dtype.kind == "O" for one in columns):
        cells: list[Iterable[str]] = [] if index is None else [index]
        words = table_of_words(path, [names, *zip(*cells, *(one.tolist() for one in columns), strict=True)], classes)
        if words is not None:
            return words
    for position, (column, values) in enumerate(zip(table.columns, columns, strict=True), 1):
        if column.null_count or values.dtype.kind not in "biuf":
            state = "has empty cells" if column.null_count else "does not hold numbers"
            what = f"Column {position} of {len(columns)} of {path} {state}."
            raise FileFormatError(what, "Write class ids, a negative number to abstain.")
    return Table(path, np.column_stack(columns) if columns else np.empty((0, 0)), names, index, certain=bool(stored))


_READERS: dict[str, Callable[..., _Array | Table]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": functools.partial(_read_text, delimiters=",;"),
    ".tsv": functools.partial(_read_text, delimiters="\t"),
    ".parquet": _read_parquet,
}
