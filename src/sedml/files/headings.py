"""A table of predictions as it was found: its cells, its headings, and the index that stood before them.

Tables come as people and pandas write them: in the first line, and in the first column, there may be votes or not.
Whatever would only be guessed is refused. Predictions are secret: no error quotes them.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError

_Array: TypeAlias = npt.NDArray[Any]

SAMPLES = {"sample", "samples", "sample_id", "image", "image_id", "item", "query"}
TEACHERS = {"teacher", "teachers", "teacher_id", "voter"}
INDEX = {"", "index", "idx", "id", "unnamed: 0"}
"""What the heading of a first column says that it has."""

_LOOKED_AT = 16
"""Cells of a first line that are compared with the names of classes."""
_MOST_BYTES = 256 << 20
_NEARLY = 0.7


@dataclass(frozen=True, eq=False)
class Table:
    """A table as it was found: (rows, columns), their headings, and the index that stood before them.

    Its cells are numbers, or words if some are names of classes.
    """

    path: Path
    numbers: _Array = field(repr=False)
    names: tuple[str, ...] | None = None
    """The heading of every column, that of the index included."""
    index: tuple[str, ...] | None = field(default=None, repr=False)
    certain: bool = False
    """The index is marked as one, and not only by its heading."""


def table_names(cells: list[str], path: Path) -> tuple[str, ...] | None:
    """The headings, if the first line of a table of numbers holds any and not predictions."""
    names = (cells[0].strip().lstrip("#").strip(), *map(str.strip, cells[1:]))
    numbers = [is_number(cell) for cell in cells]
    if not any(numbers) and any(names):
        return names
    if cells[0].lstrip().startswith("#") or (names[0] and names[0].lower() in SAMPLES | TEACHERS | INDEX):
        return names
    if not names[0] and len(cells) > 1:
        if all(numbers[1:]) and counts(np.array(names[1:], np.float64)):
            return names
        raise FileFormatError(
            f"The first cell of {path} is empty: an index column, or a vote that is missing?",
            "Write a negative number where a teacher abstains. Call an index 'teacher' if the rows are votes, 'sample' "
            "if they are samples: in pandas, frame.to_csv(path, index_label='teacher').",
        )
    return None


def table_of_words(path: Path, rows: Sequence[Sequence[str]], classes: Sequence[str]) -> Table | None:
    """A table whose rows are named, or whose predictions are names of classes; None if it is neither."""
    known = {folded(name) for name in classes}
    lines = [[str(cell).strip() for cell in row] for row in rows if any(str(cell).strip() for cell in row)]
    if len({len(line) for line in lines}) != 1 or not all(all(line[1:]) for line in lines):
        return None
    head = [folded(cell) for cell in lines[0]]
    votes = _are_votes(head[1:] or head, known) and not _are_scores(head[1:], lines[1:], known)
    names = None if votes else tuple(lines.pop(0))
    if not lines:
        return None
    named = len(lines[0]) > 1 and not any(_voted(line[0], known) for line in lines)
    index = tuple(line.pop(0) for line in lines) if named or has_index(names) else None
    if all(is_number(cell) for line in lines for cell in line):
        if index is None or all(map(is_number, index)) or names is None or any(map(is_number, names)):
            return None
        return Table(path, np.array(lines, np.float64), names, index, certain=named)
    return Table(path, words(lines, path), names, index, certain=named) if classes else None


def words(rows: Sequence[Sequence[str]], where: object) -> _Array:
    """The cells of a table as an array, of which each takes as much room as the longest: one would fill the memory."""
    longest = max((len(cell) for row in rows for cell in row), default=0)
    if 4 * longest * sum(map(len, rows)) > _MOST_BYTES:
        raise FileFormatError(
            f"The texts of {where} are too long: one has {longest:,} characters, and all take as much room as it.",
            "Shorten the longest, or give fewer samples.",
        )
    return np.array(rows, np.str_)


def _are_votes(cells: list[str], classes: set[str]) -> bool:
    """Whether a first line has votes and no headings: a class, or what is nearly one, or the same cell twice."""
    if len(set(cells)) < len(cells) or any(_voted(cell, classes) for cell in cells):
        return True
    return any(difflib.get_close_matches(cell, classes, n=1, cutoff=_NEARLY) for cell in cells[:_LOOKED_AT])


def _are_scores(head: list[str], lines: list[list[str]], classes: set[str]) -> bool:
    """Whether each class heads a column of numbers that cannot be class ids."""
    cells = [cell for line in lines for cell in line[1:]]
    return set(head) == classes and all(map(is_number, cells)) and not all(cell.isdecimal() for cell in cells)


def _voted(cell: str, classes: set[str]) -> bool:
    return folded(cell) in classes or (is_number(cell) and float(cell) < 0)


def folded(name: str) -> str:
    """A name as it is compared with others: without regard to case and to how its letters are encoded."""
    return unicodedata.normalize("NFKC", name).strip().casefold()


def has_index(names: tuple[str, ...] | None) -> bool:
    """Whether the headings say that the first column numbers or names the rows."""
    return names is not None and len(names) > 1 and names[0].lower() in SAMPLES | TEACHERS | INDEX


def is_number(cell: str) -> bool:
    """Whether NumPy would read it as one."""
    # float() also takes 1_000 and the digits of other scripts; NumPy's reader does not.
    if "_" in cell or not cell.isascii():
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True


def counts(numbers: _Array) -> bool:
    """Whether they are 0, 1, 2, ... or 1, 2, 3, ..."""
    return any(np.array_equal(numbers, np.arange(start, start + numbers.size)) for start in (0, 1)) and numbers.size > 0
