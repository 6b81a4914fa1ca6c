"""Parquet files: the one format that needs a library of its own."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, explain_missing

__all__ = ["read_parquet", "require_parquet", "write_parquet"]

_Array: TypeAlias = npt.NDArray[Any]


def read_parquet(path: Path, key: str | None) -> _Array:
    """One row per teacher, one column per sample; an index that pandas stored is left out."""
    # Not read_table: it takes a folder named like a=1 in the path for one more column.
    with _parquet().ParquetFile(path) as file:
        table = file.read()
    index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    table = table.drop_columns([name for name in index if isinstance(name, str)])
    columns: list[_Array] = []
    for position, column in enumerate(table.columns):
        values = column.to_numpy()
        if column.null_count or values.dtype.kind not in "biuf":
            state = "has empty cells" if column.null_count else "does not hold numbers"
            what = f"Column {position} (counting from 0) of {path} {state}."
            raise FileFormatError(what, "Write class ids, a negative number to abstain.")
        columns.append(values)
    return np.column_stack(columns) if columns else np.empty((0, 0))


def write_parquet(stream: BinaryIO, labels: npt.NDArray[np.integer[Any]]) -> None:
    """The columns 'sample' and 'label'."""
    parquet = _parquet()
    columns = {"sample": np.arange(labels.size), "label": labels}
    parquet.write_table(importlib.import_module("pyarrow").table(columns), stream)


def require_parquet() -> None:
    """Raise unless the library is installed."""
    _parquet()


def _parquet() -> Any:  # noqa: ANN401 - pyarrow has no types
    with explain_missing():
        return importlib.import_module("pyarrow.parquet")
