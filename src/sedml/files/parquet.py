"""Parquet files: the one format that needs a library of its own."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, explain_missing
from sedml.files.natural_tables import Table, has_index

__all__ = ["load_library", "read_parquet", "write_parquet"]

_Array: TypeAlias = npt.NDArray[Any]

_STORED_INDEX = re.compile(r"__index_level_\d+__")
"""What pandas calls an index without a name."""


def read_parquet(path: Path, key: str | None) -> Table:
    """The table of a file, with the index that pandas stored."""
    # Not read_table: it takes a folder named like a=1 in the path for one more column.
    with load_library().ParquetFile(path) as file:
        table = file.read()
    known = [name for name in (table.schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)]
    stored = [name for name in table.column_names if name in known or _STORED_INDEX.fullmatch(name)]
    headings = tuple(name.strip().lower() for name in table.column_names)
    lead = stored[:1] or ([table.column_names[0]] if has_index(headings) else [])
    index = tuple(str(value) for name in lead for value in table.column(name).to_pylist()) if lead else None
    heading = [] if index is None else ["" if stored else headings[0]]
    table = table.drop_columns([*stored] or lead)
    columns: list[_Array] = []
    for position, column in enumerate(table.columns):
        values = column.to_numpy()
        if column.null_count or values.dtype.kind not in "biuf":
            state = "has empty cells" if column.null_count else "does not hold numbers"
            what = f"Column {position} (counting from 0) of {path} {state}."
            raise FileFormatError(what, "Write class ids, a negative number to abstain.")
        columns.append(values)
    names = (*heading, *(name.strip().lower() for name in table.column_names))
    return Table(path, np.column_stack(columns) if columns else np.empty((0, 0)), names, index, certain=bool(stored))


def write_parquet(stream: BinaryIO, labels: npt.NDArray[np.integer[Any]]) -> None:
    """The columns 'sample' and 'label'."""
    columns = {"sample": np.arange(labels.size), "label": labels}
    load_library().write_table(importlib.import_module("pyarrow").table(columns), stream)


def load_library() -> Any:  # noqa: ANN401 - pyarrow has no types
    """The library that reads and writes Parquet; raises unless it is installed."""
    with explain_missing():
        return importlib.import_module("pyarrow.parquet")
