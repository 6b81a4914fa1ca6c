"""Samples from tables: a CSV, TSV or Parquet file, or a frame, as the arrays that teachers are sent.

One row is a sample, one column its id, and all others are features, by their order. Numbers stay numbers; if any
feature is text, all are sent as text, which is what models of `sedml train` take as well.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, InputError, warn
from sedml.files.headings import is_number, words

_Array: TypeAlias = npt.NDArray[Any]

_LONGEST_ID = 200
_SEVERAL = 3
"""Rows from which on it means something that no two are alike."""
_ID = re.compile(r"(?i)(.*[\W_])?(id|idx|index|sample|samples|image|item|query)|.*[a-z](Id|ID)")


def is_table(data: object, id_column: str | None) -> bool:
    """Whether samples have to be made into arrays: by a file's suffix; a frame only if it has more than numbers."""
    if isinstance(data, Path):
        return data.suffix.lower() in (".csv", ".tsv", ".parquet")
    if not hasattr(data, "to_csv") or not hasattr(data, "dtypes"):
        return False
    return id_column is not None or not all(kind.kind in "biufc" for kind in data.dtypes)


def table_arrays(data: object, id_column: str | None, class_names: Sequence[str]) -> dict[str, Any]:
    """The samples `x` (Q, features), what the `columns` are called, and the `ids` of the samples if they have any.

    `id_column` says which column has the ids; without it, the first one does if it is called like one (id, image_id).
    """
    from sedml.parts.part_files import open_records  # not above: a vote only checks ids

    where = str(data) if isinstance(data, Path) else "the data"
    values, names = open_records(data, None).features(set())
    if len(values) == 0 or all(is_number(name) for name in names):
        raise FileFormatError(
            f"{where} has no line of names, or nothing below it.",
            "Begin with the names of the columns, then one line for each sample.",
        )
    ids = _ids(names, id_column, where)
    kept = [k for k in range(len(names)) if k != ids]
    if not kept:
        raise FileFormatError(f"{where} has no column but the ids.", "Give columns for the models to see.")
    known = set(class_names)
    columns = []
    for k in kept:
        cells = ["" if cell is None else cell for cell in values[:, k].tolist()]
        if any(isinstance(cell, list | dict | bytes) for cell in cells):
            raise FileFormatError(f"The column {names[k]!r} of {where} holds lists.", "Give arrays as .npz or .npy.")
        if known and {str(cell).strip() for cell in cells} <= known:
            raise FileFormatError(
                f"The column {names[k]!r} of {where} holds classes, and samples are sent without their labels.",
                "Leave that column out of the file.",
            )
        columns.append(_numbers(cells))
    arrays = {"x": _together(columns, where), "columns": words([[names[k] for k in kept]], where)[0]}
    if ids is not None:
        texts = [_text(cell) for cell in values[:, ids].tolist()]
        check_ids(texts, where)
        arrays["ids"] = np.array(texts, np.str_)
    return arrays


def doubt_ids(arrays: Mapping[str, _Array], where: object) -> None:
    """Warn of features that may be ids: texts that differ in every row, beside others."""
    samples = arrays["x"]
    # Where a text is all there is, it is what the models are to see.
    if samples.dtype.kind != "U" or samples.ndim != 2 or len(samples) < _SEVERAL:
        return
    for name, column in zip(arrays["columns"], samples.T, strict=True):
        if len(set(column)) == len(column) and not all(map(is_number, column)):
            warn(
                f"The column {str(name)!r} of {where} differs in every row as ids do, and is a feature here.",
                "Name it as the id column (--id-column), or leave it out of the file if models are not to see it.",
            )


def columns_of(path: Path, id_column: str | None) -> tuple[list[str], str | None]:
    """What the features of a table are called, and the column of the ids if it has one."""
    from sedml.parts.part_files import open_records

    names = list(open_records(path, None).features(set())[1])
    ids = _ids(names, id_column, str(path))
    return names, None if ids is None else names.pop(ids)


def check_ids(ids: Sequence[str], where: str) -> None:
    """Raise unless each sample has an id of its own that can be shown, and is not another sample's number."""
    if len(set(ids)) < len(ids) or not all(ids):
        raise FileFormatError(f"Some samples of {where} have no id, or one that another has too.", "Give each its own.")
    if not all(len(name) <= _LONGEST_ID and name.isprintable() for name in ids):
        raise FileFormatError(f"Some ids of {where} cannot be shown.", f"Use up to {_LONGEST_ID} printable characters.")
    if any(name[0] in "=+-@" and not is_number(name) for name in ids):
        raise FileFormatError(f"Some ids of {where} are formulas to a spreadsheet.", "Begin with a letter or a digit.")
    if all(map(is_number, ids)):
        numbers = np.array(ids, np.float64)
        for start in (0, 1):
            counted = np.arange(start, start + len(ids))
            if np.array_equal(np.sort(numbers), counted) and not np.array_equal(numbers, counted):
                raise FileFormatError(
                    f"The ids of {where} count the samples in another order than they are in.",
                    "Sort the samples by id, so that an id and a sample's number are the same.",
                )


def _ids(names: Sequence[str], id_column: str | None, where: str) -> int | None:
    """Which column has the ids."""
    if id_column is None:
        return 0 if len(names) > 1 and _ID.fullmatch(names[0].strip()) else None
    if id_column in names:
        return list(names).index(id_column)
    near = difflib.get_close_matches(id_column, names, n=1)
    meant = f"Did you mean {near[0]!r}? " if near else ""
    shown = ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")
    raise InputError(f"{where} has no column {id_column!r}.", f"{meant}Its columns are {shown}.")


def _numbers(cells: list[Any]) -> _Array | list[Any]:
    """The column as numbers, NaN where a cell is empty; as it is if there is anything else."""
    gaps = ("nan" if isinstance(cell, str) and not cell.strip() else cell for cell in cells)
    try:
        return np.array([float(cell) for cell in gaps])
    except (TypeError, ValueError):
        return cells


def _together(columns: list[_Array | list[Any]], where: str) -> _Array:
    if all(isinstance(column, np.ndarray) for column in columns):
        return np.column_stack(columns)
    texts = [[_text(cell) for cell in column] for column in columns]
    array = words(texts, where)
    return array[0] if len(texts) == 1 else np.ascontiguousarray(array.T)


def _text(cell: object) -> str:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return ""
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() else repr(float(cell))
    return str(cell).strip()
