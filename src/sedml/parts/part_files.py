"""Records in the formats that organisations have them in: columns by name, and the same format split into parts.

CSV and TSV keep the text of every record. What a file holds is secret: no error quotes a cell, nor the names of its
columns, as a file without names has a record there.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TextIO, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml import Progress
from sedml.errors import FileFormatError, InputError, counted
from sedml.files.formats import (
    array_names,
    by_suffix,
    load_parquet,
    open_array,
    read_array,
    read_explained,
    read_parquet,
)

_Array: TypeAlias = npt.NDArray[Any]

_STEP = 1 << 14
_IMAGES = ("x", "X", "data", "samples")


class Records(Protocol):
    """Records that can be read and split."""

    @property
    def suffix(self) -> str:
        """Of the files that they are split into."""

    def columns(self, *names: str) -> list[Sequence[Any]]:
        """Columns by name."""

    def split(self, places: npt.NDArray[np.int64], streams: Sequence[BinaryIO], progress: Progress) -> None:
        """Write each record to the stream of its place, in the order they are in."""

    def features(self, without: set[str]) -> tuple[_Array, tuple[str, ...]]:
        """What is left without these columns, (records, features), and what the features are called."""


def open_records(data: object, by: str | None) -> Records:
    """The records of a file, of a pandas frame, or of a mapping from names to arrays; `by` is a column they have."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        read: Callable[[Path, str | None], Records] = by_suffix(path, _READERS)
        return read_explained(path, lambda: read(path, by), "Write the records again.")
    if hasattr(data, "to_csv") and hasattr(data, "columns"):
        text = data.to_csv(index=by is not None and by not in data.columns, lineterminator="\n")
        return _Text(Path("the data"), by, lambda: io.StringIO(text))
    if hasattr(data, "keys"):
        arrays = {str(name): np.asarray(data[name]) for name in data.keys()}  # type: ignore[index] # noqa: SIM118
        return _exact_ids(_Arrays("the data", arrays), by)
    raise InputError(
        f"Records of type {type(data).__name__} cannot be split.",
        "Give the path of a file, a pandas frame, or a dict of arrays of one length.",
    )


class _Text:
    """A CSV file, separated by whatever makes a column of the name that is asked for, or else the most columns."""

    def __init__(self, path: Path, by: str | None, opened: Callable[[], TextIO] | None = None) -> None:
        self.path, self.suffix = path, path.suffix.lower() or ".csv"
        self._open = opened or (lambda: path.open(encoding="utf-8-sig", newline=""))
        with self._open() as stream:
            self._head = _ended(stream.readline())
        heads = {
            delimiter: [name.strip() for name in next(csv.reader([self._head], delimiter=delimiter), [])]
            for delimiter in ("\t" if self.suffix == ".tsv" else ",;\t")
        }
        fitting = [one for one, names in heads.items() if by is None or by in names]
        if not fitting:
            _position([], by or "", path)
        self._delimiter = max(fitting, key=lambda one: len(heads[one]))
        self._names = heads[self._delimiter]

    def columns(self, *names: str) -> list[Sequence[Any]]:
        places = [_position(self._names, name, self.path) for name in names]
        found: list[list[str]] = [[] for _ in names]
        for cells, _ in self._records():
            for values, place in zip(found, places, strict=True):
                values.append(cells[place])
        return list(found)

    def split(self, places: npt.NDArray[np.int64], streams: Sequence[BinaryIO], progress: Progress) -> None:
        for stream in streams:
            stream.write(self._head.encode())
        try:
            for done, ((_, text), place) in enumerate(zip(self._records(), places.tolist(), strict=True)):
                streams[place].write(text.encode())
                if done % _STEP == 0:
                    progress("writing", done, len(places))
        except ValueError:
            problem = f"{self.path} changed while it was read."
            raise FileFormatError(problem, "Run it again when it is complete.") from None

    def features(self, without: set[str]) -> tuple[_Array, tuple[str, ...]]:
        kept = [place for place, name in enumerate(self._names) if name not in without and not _is_index(name)]
        rows = [[cells[place] for place in kept] for cells, _ in self._records()]
        return np.array(rows, object).reshape(len(rows), len(kept)), tuple(self._names[place] for place in kept)

    def _records(self) -> Iterator[tuple[list[str], str]]:
        """The cells of every record, and its text as it is in the file."""
        taken: list[str] = []
        number = 0
        with self._open() as stream:
            stream.readline()

            def lines() -> Iterator[str]:
                for line in stream:
                    taken.append(line)
                    yield line

            try:
                for cells in csv.reader(lines(), delimiter=self._delimiter, strict=True):
                    text = "".join(taken)
                    taken.clear()
                    if not text.strip():
                        continue
                    number += 1
                    if len(cells) != len(self._names):
                        break
                    yield cells, _ended(text)
                else:
                    return
                problem = f"has {counted(len(cells), 'cell')}, the line of names {len(self._names)}"
            except csv.Error:
                problem = "cannot be read as separated values"
            except UnicodeDecodeError:
                problem = "is followed by text that is not UTF-8"
        raise FileFormatError(f"Record {number} of {self.path} {problem}.", "Write the file again, as UTF-8.")


@dataclass(frozen=True, eq=False)
class _Arrow:
    """A Parquet file."""

    path: Path
    table: Any = field(repr=False)
    suffix: str = ".parquet"

    def columns(self, *names: str) -> list[Sequence[Any]]:
        found = [self.table.column(_position(self.table.column_names, name, self.path)) for name in names]
        if any(column.type.num_fields for column in found):
            raise FileFormatError(f"An id or a label in {self.path} is a list.", "Give one value a record.")
        return [column.to_pylist() for column in found]

    def split(self, places: npt.NDArray[np.int64], streams: Sequence[BinaryIO], progress: Progress) -> None:
        for k, stream in enumerate(streams):
            load_parquet().write_table(self.table.take(np.flatnonzero(places == k)), stream)
            progress("writing", k + 1, len(streams))

    def features(self, without: set[str]) -> tuple[_Array, tuple[str, ...]]:
        named = enumerate(self.table.column_names)
        kept = [(place, name) for place, name in named if name not in without and not _is_index(name)]
        values = np.empty((self.table.num_rows, len(kept)), object)
        for k, (place, _) in enumerate(kept):
            values[:, k] = self.table.column(place).to_pylist()
        return values, tuple(name for _, name in kept)


@dataclass(frozen=True, eq=False)
class _Arrays:
    """Arrays of one length, as in an .npz file."""

    where: Path | str
    arrays: dict[str, _Array] = field(repr=False)
    suffix: str = ".npz"

    def __post_init__(self) -> None:
        if len({array.shape[:1] for array in self.arrays.values()}) != 1 or any(
            array.ndim == 0 or array.dtype.hasobject for array in self.arrays.values()
        ):
            raise FileFormatError(
                f"The arrays of {self.where} are not all of one length, or hold Python objects.",
                "Give plain arrays that have one entry per record.",
            )

    def columns(self, *names: str) -> list[Sequence[Any]]:
        keys = list(self.arrays)
        found = [self.arrays[keys[_position(keys, name, self.where)]] for name in names]
        if any(array.size != len(array) for array in found):
            raise FileFormatError(f"An id or a label in {self.where} is more than one number.", "Give one a record.")
        return [array.ravel().tolist() for array in found]

    def split(self, places: npt.NDArray[np.int64], streams: Sequence[BinaryIO], progress: Progress) -> None:
        for k, stream in enumerate(streams):
            np.savez(stream, allow_pickle=False, **{name: array[places == k] for name, array in self.arrays.items()})
            progress("writing", k + 1, len(streams))

    def features(self, without: set[str]) -> tuple[_Array, tuple[str, ...]]:
        names = [name for name in self.arrays if name not in without]
        names = names if len(names) == 1 else [name for name in _IMAGES if name in names]
        if len(names) != 1:
            raise FileFormatError(
                f"It is not clear which array of {self.where} has the samples.",
                f"Name one of them {', '.join(_IMAGES[:-1])} or {_IMAGES[-1]}.",
            )
        return self.arrays[names[0]].reshape(len(self.arrays[names[0]]), -1), ()


def _position(names: Sequence[str], name: str, where: Path | str) -> int:
    if names.count(name) == 1:
        return names.index(name)
    many = "several columns" if name in names else "no column (or array)"
    raise FileFormatError(
        f"{where} has {many} named {name!r}.", "Check the spelling; a file must begin with its names."
    )


def _is_index(name: str) -> bool:
    """Whether it is what pandas writes beside the columns of a frame."""
    return name == "" or re.fullmatch(r"(?i)unnamed: 0|__index_level_\d+__", name) is not None


def _ended(line: str) -> str:
    return line if line.endswith(("\n", "\r")) else f"{line}\n"


def _exact_ids(arrays: _Arrays, by: str | None) -> _Arrays:
    if by is not None and by in arrays.arrays:
        _refuse_rounded(arrays.arrays[by].dtype in (np.float16, np.float32), by, arrays.where)
    return arrays


def _refuse_rounded(short: bool, by: str, where: Path | str) -> None:
    if short:
        raise FileFormatError(
            f"{by!r} of {where} has numbers of fewer digits than ids need: two units may have become one number.",
            "Write ids as text or whole numbers.",
        )


def _read_parquet(path: Path, by: str | None) -> _Arrow:
    table = read_parquet(path)
    if by is not None and table.column_names.count(by) == 1:
        _refuse_rounded(str(table.column(by).type) in ("halffloat", "float"), by, path)
    return _Arrow(path, table)


def _read_npz(path: Path, by: str | None) -> _Arrays:
    arrays: dict[str, _Array] = {}
    for name in array_names(path):
        with open_array(path, name) as stream:
            arrays[name] = read_array(stream, path, sum(array.nbytes for array in arrays.values()))
    return _exact_ids(_Arrays(path, arrays), by)


_READERS: dict[str, Callable[[Path, str | None], Records]] = {
    ".csv": _Text,
    ".tsv": _Text,
    ".parquet": _read_parquet,
    ".npz": _read_npz,
}
SUFFIXES = tuple(_READERS)
