"""What callers pass to a client, in the forms in which people have it, checked before any server is called.

A number may be written out ("2"), an array may be a list, a frame or a tensor, a file a text or a path. What cannot be
used is an `InputError` that names the argument and never shows its content: it may be votes.
"""

from __future__ import annotations

import math
import numbers
import os
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sedml import Progress
from sedml.errors import InputError
from sedml.protocol.votes import is_masked

_NO_NUMBERS = bool | np.timedelta64  # whatever Python and NumPy say


def number(name: str, value: object) -> float:
    """A finite number: of Python or NumPy, or written out."""
    found = math.nan
    if isinstance(value, str | numbers.Real | Decimal) and not isinstance(value, _NO_NUMBERS):
        with suppress(ValueError, OverflowError):
            found = float(value)
    if not math.isfinite(found):
        raise InputError(f"{name} is {_shown(value)}.", "Pass a number.")
    return found


def whole_number(name: str, value: object) -> int:
    """A whole number: an int, a float without a fraction, or one written out."""
    if isinstance(value, numbers.Integral) and not isinstance(value, _NO_NUMBERS):
        return int(value)
    found = number(name, value)
    if not found.is_integer():
        raise InputError(f"{name} is {_shown(value)}.", "Pass a whole number.")
    return int(found)


def is_path(value: object) -> bool:
    """Whether it names a file."""
    return isinstance(value, str | os.PathLike)


def path_of(name: str, value: object) -> Path:
    """The path of a file or folder."""
    try:
        found = Path(value)  # type: ignore[arg-type]
        os.fsencode(found)
    except (TypeError, UnicodeError):
        found = Path("\0")
    if "\0" in str(found):
        raise InputError(f"{name} of type {type(value).__name__} is not a path.", "Pass the path of a file or folder.")
    return found


def rows_of(name: str, value: object) -> npt.NDArray[Any]:
    """An array with a first axis: from nested lists, or anything that NumPy can make an array of."""
    do = "Pass an array or nested lists of numbers, all rows of one length, or the path of a file."
    if is_masked(value):
        raise InputError(f"{name} is a masked array.", "Fill in what is masked, or leave those rows out.")
    try:
        array = np.asarray(value)
    except MemoryError:
        raise
    except Exception as error:  # whatever a foreign __array__ raises
        kind = type(error).__name__
    else:
        if array.dtype.hasobject or array.ndim == 0:
            what = f"{name} of type {type(value).__name__} is no array of numbers"
            raise InputError(f"{what} (shape {array.shape}, {array.dtype}).", do)
        return array
    # Raised out here so that the foreign error, whose text may quote data, is not chained to ours.
    raise InputError(f"{name} of type {type(value).__name__} cannot be made into an array ({kind}).", do)


def check_progress(progress: Progress) -> None:
    """Raise unless it can be called."""
    if not callable(progress) or isinstance(progress, type):
        raise InputError(
            f"progress is of type {type(progress).__name__}.",
            "Pass a function of (what, done, total), or leave it out.",
        )


def _shown(value: object) -> str:
    """Numbers and short texts as they are, of anything else the type."""
    if isinstance(value, bool | numbers.Real | np.generic) or (isinstance(value, str) and len(value) <= 40):
        return repr(value)
    return f"of type {type(value).__name__}"
