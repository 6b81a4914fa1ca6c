"""Labels to files: NumPy, CSV and Parquet, told apart by the suffix."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError
from sedml.files.atomic import replace_file
from sedml.files.parquet import write_parquet
from sedml.files.suffixes import by_suffix, reason

__all__ = ["save_labels"]

_Labels: TypeAlias = npt.NDArray[np.integer[Any]]


def save_labels(path: str | os.PathLike[str], labels: npt.ArrayLike) -> None:
    """Write the labels of a job, one integer per sample (-1: no consensus), replacing a file that is there.

    `.npy` is the array, `.npz` has it as 'labels'; `.csv`, `.tsv` and `.parquet` have the columns 'sample'
    (from 0) and 'label'. `.parquet` needs pyarrow.
    """
    path = Path(path)
    writer = by_suffix(path, _WRITERS)
    array = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise FileFormatError(
            f"Labels of shape {array.shape} and type {array.dtype} cannot be written.",
            "Give one integer per sample.",
        )
    content = io.BytesIO()
    writer(content, array)
    try:
        replace_file(path, content.getbuffer())
    except OSError as error:
        raise FileFormatError(
            f"{path} cannot be written ({reason(error)}).",
            "Choose a file in an existing folder that you may write to, with enough space.",
        ) from error


def _write_npz(stream: BinaryIO, labels: _Labels) -> None:
    np.savez_compressed(stream, labels=labels)


def _write_text(stream: BinaryIO, labels: _Labels, *, delimiter: str) -> None:
    lines = (f"{sample}{delimiter}{label}\n" for sample, label in enumerate(labels.tolist()))
    stream.write("".join([f"sample{delimiter}label\n", *lines]).encode())


_WRITERS: dict[str, Callable[..., None]] = {
    ".npy": functools.partial(np.lib.format.write_array, allow_pickle=False),
    ".npz": _write_npz,
    ".csv": functools.partial(_write_text, delimiter=","),
    ".tsv": functools.partial(_write_text, delimiter="\t"),
    ".parquet": write_parquet,
}
