"""Labels to files: NumPy, CSV and Parquet, told apart by the suffix."""

from __future__ import annotations

import csv
import functools
import importlib
import io
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, counted
from sedml.files.atomic import replace_file
from sedml.files.formats import by_suffix, load_parquet, reason

_Labels: TypeAlias = npt.NDArray[np.integer[Any]]


def save_labels(
    path: str | os.PathLike[str],
    labels: npt.ArrayLike,
    names: Sequence[str] = (),
    ids: Sequence[str] | None = None,
) -> None:
    """Write the labels of a job, one integer per sample (-1: no consensus), replacing a file that is there.

    `.npy` is the array, `.npz` has it as 'labels', with 'class_names' and 'ids' if there are any; `.csv`, `.tsv` and
    `.parquet` have the columns 'sample' (its id, or its number from 0) and 'label' (the name of its class, empty if it
    has none, or the class id). `.parquet` needs pyarrow.
    """
    path = Path(path)
    writer = by_suffix(path, _WRITERS)
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise FileFormatError(
            f"Labels of shape {array.shape} and type {array.dtype} cannot be written.",
            "Give one integer per sample.",
        )
    if ids is not None and len(ids) != array.size:
        raise FileFormatError(
            f"There are {counted(array.size, 'label')} and {counted(len(ids), 'id')} of samples.", "Give one for each."
        )
    content = io.BytesIO()
    writer(content, array, names, ids)
    try:
        replace_file(path, content.getbuffer())
    except OSError as error:
        raise _unwritable(path, reason(error)) from error


def check_labels_file(path: str | os.PathLike[str]) -> None:
    """Raise what `save_labels` would, short of a full disk: before labels are paid for that nothing could keep."""
    path = Path(path)
    if by_suffix(path, _WRITERS) is _write_parquet:
        load_parquet()
    if not path.parent.is_dir():
        raise FileFormatError(f"The folder of {path} does not exist.", "Create it, or choose another file.")
    if path.is_dir():
        raise _unwritable(path, "Is a directory")
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        # Asking the system for its permissions would miss read-only disks and names that are too long.
        aside.touch(0o600, exist_ok=False)
        aside.unlink()
    except OSError as error:
        raise _unwritable(path, reason(error)) from error


def _unwritable(path: Path, why: str) -> FileFormatError:
    return FileFormatError(
        f"{path} cannot be written ({why}).",
        "Choose a file in an existing folder that you may write to, with enough space.",
    )


def _write_npy(stream: BinaryIO, labels: _Labels, names: Sequence[str], ids: Sequence[str] | None) -> None:
    np.lib.format.write_array(stream, labels, allow_pickle=False)


def _write_npz(stream: BinaryIO, labels: _Labels, names: Sequence[str], ids: Sequence[str] | None) -> None:
    more = {"class_names": names, "ids": ids or ()}
    arrays: dict[str, Any] = {name: np.array(one, np.str_) for name, one in more.items() if one}
    np.savez_compressed(stream, labels=labels, **arrays)


def _columns(labels: _Labels, names: Sequence[str], ids: Sequence[str] | None) -> dict[str, Sequence[object]]:
    called = [names[label] if label >= 0 else None for label in labels.tolist()] if names else labels.tolist()
    return {"sample": range(labels.size) if ids is None else ids, "label": called}


def _write_text(
    stream: BinaryIO, labels: _Labels, names: Sequence[str], ids: Sequence[str] | None, *, delimiter: str
) -> None:
    columns = _columns(labels, names, ids)
    text = io.StringIO()
    lines = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    lines.writerows([list(columns), *zip(*columns.values(), strict=True)])
    stream.write(text.getvalue().encode())


def _write_parquet(stream: BinaryIO, labels: _Labels, names: Sequence[str], ids: Sequence[str] | None) -> None:
    columns = {name: list(values) for name, values in _columns(labels, names, ids).items()}
    load_parquet().write_table(importlib.import_module("pyarrow").table(columns), stream)


_WRITERS: dict[str, Callable[..., None]] = {
    ".npy": _write_npy,
    ".npz": _write_npz,
    ".csv": functools.partial(_write_text, delimiter=","),
    ".tsv": functools.partial(_write_text, delimiter="\t"),
    ".parquet": _write_parquet,
}
