"""A user's own data: tables of features or stacks of images with labels, in .npz, .csv or .parquet.

- `.npz`: x and y, or x_train, y_train, x_test and y_test. Images are (n, H, W) or (n, H, W, C), 8-bit or 0 to 1;
  features are (n, d).
- `.csv`: the names of the columns, then one line per sample. The label is in the column named label, or else in the
  last one.
- `.parquet`: one row per sample, with the label as in a .csv file. Needs pyarrow.

Labels are class ids from 0 without gaps, or names, which are numbered in alphabetical order. The data is private, so no
error quotes a value.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, InputError
from sedml.files.formats import array_names, by_suffix, open_array, read_array, read_explained, read_parquet

_Array: TypeAlias = npt.NDArray[Any]

_LABEL = "label"
_WHOLE, _SPLIT = ("x", "y"), ("x_train", "y_train", "x_test", "y_test")


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """Samples and their labels as a file has them, not yet checked."""

    samples: _Array
    labels: _Array


def read_parts(path: Path) -> tuple[Part, Part | None]:
    """The training part and the test part of a file; all samples and None if it holds no such parts."""
    reader = by_suffix(path, _READERS)
    parts: tuple[Part, Part | None] = read_explained(path, lambda: reader(path), "Write the data again.")
    return parts


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


def _read_npz(path: Path) -> tuple[Part, Part | None]:
    keys = {name.lower(): name for name in array_names(path)}
    if not keys:
        raise FileFormatError(f"{path} is damaged, truncated or not a .npz file.", "Write the data again.")
    for names in (_SPLIT, _WHOLE):
        if set(names) <= set(keys):
            x, y, *test = [_array(path, keys[name]) for name in names]
            return Part(x, y), Part(*test) if test else None
    raise FileFormatError(
        f"{path} has no samples and labels, but the arrays {', '.join(sorted(keys.values())[:20])}.",
        "Name them x and y, or x_train, y_train, x_test and y_test.",
    )


def _array(path: Path, name: str) -> _Array:
    with open_array(path, name) as stream:
        return read_array(stream, path)


def _read_csv(path: Path) -> tuple[Part, None]:
    rows: list[npt.NDArray[np.float32]] = []
    labels: list[str] = []
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream)
        names = [cell.strip().lower() for cell in next(reader, [])]
        position = _label_column(names, path)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            label = cells.pop(position).strip() if len(cells) == len(names) else ""
            try:
                rows.append(np.array(cells, np.float32))
            except ValueError:
                label = ""
            if not label:
                what = f"Line {reader.line_num} of {path} has too few cells, no label, or a feature that is no number."
                raise FileFormatError(what, "Write one line per sample: its features, all numbers, and its label.")
            labels.append(label)
    try:
        return Part(np.array(rows), np.array(labels, np.float64)), None
    except ValueError:
        return Part(np.array(rows), np.array(labels)), None


def _label_column(names: list[str], path: Path) -> int:
    """Where the label is, by the names of the columns."""
    position = names.index(_LABEL) if _LABEL in names else len(names) - 1
    if len(names) < 2 or names[position].replace(".", "").isdigit():
        what = f"{path} has fewer than two columns, or does not begin with their names."
        raise FileFormatError(what, "Name the columns; the label is in the one named label, or in the last.")
    if not names[0]:
        what = f"The first column of {path} has no name, as if it were an index."
        raise FileFormatError(what, "Write it without one: frame.to_csv(path, index=False).")
    return position


def _read_parquet(path: Path) -> tuple[Part, None]:
    table = read_parquet(path)
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    table = table.drop_columns([name for name in index if isinstance(name, str)])
    position = _label_column([name.lower() for name in table.column_names], path)
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
    ".parquet": _read_parquet,
}
