"""A user's own data: tables of features or stacks of images with labels, in .npz, .csv, .tsv or .parquet.

- `.npz`: x and y, or x_train, y_train, x_test and y_test; images and labels, or train_images, train_labels,
  test_images and test_labels, work too. Images are (n, H, W) or (n, H, W, C), 8-bit or 0 to 1; features are (n, d).
- `.csv`, `.tsv`: one line per sample. The label is in the column named label, or else in the last one; a first line
  with the names of the columns is optional.
- `.parquet`: one row per sample, with the label as in a .csv file. Needs pyarrow.
- A folder: files called `train` and `test`, each with one of these suffixes.

Labels are class ids from 0 without gaps, or names, which are numbered in alphabetical order. The data is private, so no
error quotes a value.
"""

from __future__ import annotations

import csv
import importlib
import itertools
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, InputError, MissingExtraError, explain_missing
from sedml.files.suffixes import by_suffix, reason

__all__ = ["Part", "as_samples", "class_ids", "read_parts"]

_Array: TypeAlias = npt.NDArray[Any]

_LABEL = "label"
_WHOLE = [("x", "y"), ("images", "labels")]
_SPLIT = [("x_train", "y_train", "x_test", "y_test"), ("train_images", "train_labels", "test_images", "test_labels")]


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """Samples and their labels as a file has them, not yet checked."""

    samples: _Array
    labels: _Array


def read_parts(path: Path) -> tuple[Part, Part | None]:
    """The training part and the test part of a file or folder; all samples and None if it holds no such parts."""
    if path.is_dir():
        train, test = _in_folder(path, "train"), _in_folder(path, "test")
        return _one_part(train), _one_part(test)
    reader = by_suffix(path, _READERS)
    try:
        parts: tuple[Part, Part | None] = reader(path)
        return parts
    except (FileFormatError, MissingExtraError):
        raise
    except FileNotFoundError:
        problem = f"{path} does not exist.", "Check the path."
    except MemoryError:
        problem = f"{path} does not fit in memory, or is damaged.", "Write fewer samples, or smaller numbers."
    except OSError as error:
        problem = f"{path} cannot be read ({reason(error)}).", "Check that you may read it."
    except Exception:  # a damaged file makes the parsers raise nearly anything
        problem = f"{path} is damaged, truncated or not a {path.suffix} file.", "Write the data again."
    # Raised out here so that the parser's error, which may quote a value, is not chained to ours.
    raise FileFormatError(*problem)


def as_samples(values: _Array, path: Path) -> npt.NDArray[np.float32]:
    """Images as float32[n, H, W, C] from 0 to 1, features as float32[n, d]."""
    if values.dtype.kind not in "biuf" or values.ndim not in (2, 3, 4):
        raise InputError(
            f"The samples of {path} have shape {values.shape} and type {values.dtype}.",
            "Give numbers, as (samples, height, width[, channels]) for images or (samples, features).",
        )
    if values.ndim > 2 and values.dtype == np.uint8:
        values = np.divide(values, np.float32(255), dtype=np.float32)
    with np.errstate(over="ignore"):
        images = values.astype(np.float32, copy=False)
    return images[..., np.newaxis] if images.ndim == 3 else images


def class_ids(labels: list[_Array], path: Path) -> tuple[list[npt.NDArray[np.int64]], tuple[str, ...]]:
    """The labels of all parts as class ids, and the names of the classes.

    Every class must have a sample in the first part, the training part: no teacher could ever vote for it otherwise.
    """
    if any(part.ndim != 1 for part in labels):
        shapes = " and ".join(str(part.shape) for part in labels)
        raise InputError(f"The labels of {path} have shape {shapes}.", "Give one label per sample.")
    if all(part.dtype.kind in "US" for part in labels):
        known, codes = np.unique(np.concatenate([part.astype(str) for part in labels]), return_inverse=True)
        names = tuple(str(name) for name in known)
        ids = np.split(codes.astype(np.int64), np.cumsum([part.size for part in labels])[:-1])
    else:
        ids = [_whole_numbers(part, path) for part in labels]
        highest = max((int(part.max()) for part in ids if part.size), default=0)
        if highest >= sum(part.size for part in ids):
            raise InputError(f"{path} has class ids above its number of samples.", "Number the classes from 0.")
        names = tuple(str(i) for i in range(highest + 1))
    missing = sorted(set(range(len(names))) - set(ids[0].tolist()))
    if missing:
        few = ", ".join(names[i] for i in missing[:10]) + (", ..." if len(missing) > 10 else "")
        raise InputError(
            f"{path} has no training sample of class {few}.",
            "Number the classes from 0 without gaps, and give every class a training sample.",
        )
    return ids, names


def _whole_numbers(labels: _Array, path: Path) -> npt.NDArray[np.int64]:
    do = "Label every sample with a class id from 0, or all of them with names."
    if labels.dtype.kind not in "biuf":
        raise InputError(f"The labels of {path} are of type {labels.dtype}.", do)
    if not np.isfinite(labels).all() or (labels != np.floor(labels)).any() or (labels < 0).any():
        raise InputError(f"Some labels of {path} are negative, empty or not whole numbers.", do)
    return labels.astype(np.int64)


def _in_folder(folder: Path, stem: str) -> Path:
    found = [folder / f"{stem}{suffix}" for suffix in _READERS if (folder / f"{stem}{suffix}").is_file()]
    if len(found) != 1:
        state = "several files" if found else "no file"
        raise FileFormatError(
            f"{folder} has {state} named {stem} with a suffix of {', '.join(_READERS)}.",
            "Put one file train.* and one file test.* there.",
        )
    return found[0]


def _one_part(path: Path) -> Part:
    part, test = read_parts(path)
    if test is not None:
        raise FileFormatError(
            f"{path} holds a training part and a test part.",
            "Give that file instead of the folder, or write one part to it, as x and y.",
        )
    return part


def _read_npz(path: Path) -> tuple[Part, Part | None]:
    # np.load takes a text file for a pickle and says so; a user should hear that it is not an .npz file.
    if path.stat().st_size and not zipfile.is_zipfile(path):
        raise FileFormatError(f"{path} is damaged, truncated or not a .npz file.", "Write the data again.")
    with np.load(path, allow_pickle=False) as content:
        keys = {key.lower(): key for key in content.files}
        for names in _SPLIT:
            if set(names) <= set(keys):
                x, y, x_test, y_test = (content[keys[name]] for name in names)
                return Part(x, y), Part(x_test, y_test)
        for x_name, y_name in _WHOLE:
            if {x_name, y_name} <= set(keys):
                return Part(content[keys[x_name]], content[keys[y_name]]), None
    raise FileFormatError(
        f"{path} has no samples and labels, but the arrays {', '.join(sorted(keys.values())[:20]) or '(none)'}.",
        "Name them x and y, or x_train, y_train, x_test and y_test.",
    )


def _read_csv(path: Path) -> tuple[Part, None]:
    rows: list[npt.NDArray[np.float32]] = []
    labels: list[str] = []
    with path.open(encoding="utf-8-sig", newline="") as stream:
        lines = _lines(stream, "\t" if path.suffix.lower() == ".tsv" else ",")
        _, first = next(lines, (0, [""]))
        names = [cell.strip().lower() for cell in first]
        if not names[0]:
            what = f"{path} is empty, or its first line begins with an empty cell, as if an index column followed."
            raise FileFormatError(what, "Write it without one: frame.to_csv(path, index=False).")
        width, position = len(names), names.index(_LABEL) if _LABEL in names else len(names) - 1
        # Names that are numbers (the columns of a frame made from an array) leave the last one to tell.
        second = next(lines, None)
        is_header = (
            _LABEL in names
            or not any(map(_is_number, names))
            or (not _is_number(names[-1]) and second is not None and _is_number(second[1][-1]))
        )
        start = [] if is_header else [(1, first)]
        for line, cells in itertools.chain(start, [] if second is None else [second], lines):
            label, values = _sample(cells, width, position, f"Line {line} of {path}")
            labels.append(label)
            rows.append(values)
    try:
        return Part(np.array(rows), np.array(labels, np.float64)), None
    except ValueError:
        return Part(np.array(rows), np.array(labels)), None


def _sample(cells: list[str], width: int, position: int, where: str) -> tuple[str, npt.NDArray[np.float32]]:
    problem = None
    if len(cells) != width or width < 2:
        problem = f"{where} has {len(cells)} columns, where {max(width, 2)} were expected."
    elif not cells[position].strip():
        problem = f"{where} has no label."
    else:
        label = cells[position].strip()
        try:
            return label, np.array(cells[:position] + cells[position + 1 :], np.float32)
        except ValueError:
            problem = f"{where} has a feature that is not a number."
    raise FileFormatError(problem, "Write one line per sample: its features, all numbers, and its label.")


def _lines(stream: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(stream, delimiter=delimiter)
    return ((reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> tuple[Part, None]:
    with explain_missing():
        parquet = importlib.import_module("pyarrow.parquet")
    # Not read_table: it takes a folder named like a=1 in the path for one more column.
    with parquet.ParquetFile(path) as file:
        table = file.read()
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    table = table.drop_columns([name for name in index if isinstance(name, str)])
    names = [name.lower() for name in table.column_names]
    if len(names) < 2:
        raise FileFormatError(f"{path} has fewer than two columns.", "Write the features and the label of a sample.")
    position = names.index(_LABEL) if _LABEL in names else len(names) - 1
    columns: list[_Array] = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count:
            raise FileFormatError(f"The column {name} of {path} has empty cells.", "Fill them in.")
        columns.append(column.to_numpy())
    label = columns.pop(position)
    if any(column.dtype.kind not in "biuf" for column in columns):
        raise FileFormatError(f"Some features of {path} are not numbers.", "Give features as numbers.")
    return Part(np.column_stack(columns), label.astype(str) if label.dtype.kind == "O" else label), None


_READERS: dict[str, Callable[[Path], tuple[Part, Part | None]]] = {
    ".npz": _read_npz,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": _read_parquet,
}
