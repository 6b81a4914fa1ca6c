"""What the rows and columns of a table of predictions are, and in which order.

A table has no shape of its own: a vote is a column as often as a row. Ids and numbers of samples order them, wherever
they stand. Whatever would only be guessed is refused. Predictions are secret: no error quotes them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, counted
from sedml.files.headings import INDEX, SAMPLES, TEACHERS, Table, counts, folded, is_number

_Array: TypeAlias = npt.NDArray[Any]

SampleIds: TypeAlias = Callable[[], Sequence[str] | None]
"""Finds out what the samples are called, in their order; None if they are only numbered."""

_LABELS = {"label", "labels", "class", "class_id", "vote", "prediction", "pred"}
_LEAST = 3
"""Two rows that happen to count 0, 1 are common; from three on it is no accident, or cannot be told from one."""
_MANY = 16
_NOT_INDEXED = "In pandas: frame.to_csv(path, index=False, header=False)."


def all_teachers(table: Table, known: SampleIds | None = None, classes: Sequence[str] = ()) -> _Array:
    """The predictions with one row per vote; a table of one column is one teacher's."""
    ids = functools.cache(known or _no_ids)
    table = _sorted_out(table, ids)
    corner, headings = _corner(table), _headings(table)
    if corner in TEACHERS:
        return _by_heading(table, ids)
    if table.numbers.shape[1] == 1:
        return _by_sample(table, ids).T
    if not _has_ids(headings, ids) and (corner in SAMPLES or _has_ids(table.index or (), ids)):
        if {folded(name) for name in headings} & {*_LABELS, *map(folded, classes)}:
            raise FileFormatError(
                f"Some columns of {table.path} are no votes, but scores or something else beside a label.",
                "Write a column 'sample', and one for each vote with a name such as part0.",
            )
        return _by_sample(table, ids).T
    if table.index is not None and not table.certain and corner in INDEX and not _is_label(table.index):
        raise FileFormatError(
            f"The first column of {table.path} has no name that says what it is, and does not count the rows.",
            f"If it is an index, leave it out; if it holds votes, give it a name. {_NOT_INDEXED}",
        )
    return _by_heading(table, ids)


def one_teacher(table: Table, known: SampleIds | None = None, classes: Sequence[str] = ()) -> _Array:
    """One teacher's predictions: class ids (samples,), or scores (samples, classes)."""
    ids = functools.cache(known or _no_ids)
    table = _sorted_out(table, ids)
    corner = _corner(table)
    if table.numbers.shape[1] > 1 and any(name.lower() in _LABELS for name in table.names or ()):
        raise FileFormatError(
            f"{table.path} has more columns than a sample and its label.",
            "Write the columns 'sample' and 'label' alone, or one score per class.",
        )
    if corner in TEACHERS or (len(table.numbers) == 1 < table.numbers.shape[1] and corner not in SAMPLES):
        rows = _by_heading(table, ids)
        return rows[0] if len(rows) == 1 else rows
    ordered = _by_sample(table, ids)
    return ordered[:, 0] if ordered.shape[1] == 1 else _by_class(table, ordered, classes)


def _no_ids() -> None:
    """The samples are only numbered."""


def _corner(table: Table) -> str:
    """What stands above the index."""
    return "" if table.index is None or table.names is None else table.names[0].lower()


def _headings(table: Table) -> tuple[str, ...]:
    """The headings of the predictions."""
    return () if table.names is None else table.names[-table.numbers.shape[1] :]


def _by_heading(table: Table, known: SampleIds) -> _Array:
    """The rows of a table with one row per vote, their columns in the order of the samples."""
    headings = _headings(table)
    if not headings or (not all(map(is_number, headings)) and known() is None):
        return table.numbers
    return _by_sample(Table(table.path, table.numbers.T, index=headings), known, "column").T


def _has_ids(cells: Sequence[str], known: SampleIds) -> bool:
    """Whether some of what stands beside the predictions are ids of samples."""
    return len(cells) > 0 and not _is_count(cells) and not set(cells).isdisjoint(known() or ())


def _are_ids(numbers: _Array, known: SampleIds) -> bool:
    """Whether most numbers of a line or a column are ids of samples, each another."""
    values = np.unique(numbers)
    if 2 * values.size <= numbers.size or (values != np.floor(values)).any():
        return False
    ids = known() or ()
    return all(map(is_number, ids)) and 2 * np.isin(values, np.array(ids, np.float64)).sum() > numbers.size


def _by_class(table: Table, scores: _Array, classes: Sequence[str]) -> _Array:
    """The scores in the order of the classes, if their headings name them."""
    headings = [folded(name) for name in (table.names or ())[-scores.shape[1] :]]
    wanted = [folded(name) for name in classes]
    if not set(headings) & set(wanted):
        return scores
    if sorted(headings) != sorted(wanted):
        raise FileFormatError(
            f"The headings of {table.path} are some of the classes, but not all of them, once each.",
            "Give a column of scores for each class, with its name on top.",
        )
    return scores[:, [headings.index(name) for name in wanted]]


def _sorted_out(table: Table, known: SampleIds) -> Table:
    """The table without a line or a column that only counts, where that is certain; refused where it may be votes."""
    names = table.names or ()
    beside = {name.lower() for name in names[1:]}
    if len(names) > 2 and names[0].lower() in SAMPLES | TEACHERS and beside & (SAMPLES | TEACHERS):
        raise FileFormatError(
            f"{table.path} has one vote per line, with columns for the teacher and the sample.",
            "Write one row per teacher and one column per sample: in pandas, frame.pivot(index='teacher', "
            "columns='sample', values='label').",
        )
    numbers = table.numbers
    if table.index is not None or numbers.dtype.kind not in "biuf":
        return table
    if table.names is None and len(numbers) > 1 and numbers.shape[1] >= 2 and counts(numbers[0]):
        if _surely_counts(numbers.shape[1], numbers[1:]):
            return _sorted_out(Table(table.path, numbers[1:], tuple(map(str, range(numbers.shape[1])))), known)
        if numbers.shape[1] >= _LEAST:
            raise FileFormatError(
                f"The first line of {table.path} counts the columns: are these headings, or votes?",
                f"If they are votes, use .npy. If they are headings, leave them out. {_NOT_INDEXED}",
            )
    if table.names is None and len(numbers) > 1 and numbers.shape[1] >= 2 and _are_ids(numbers[0], known):
        raise FileFormatError(
            f"The first line of {table.path} has the ids of the job's samples: are these headings, or votes?",
            "If they are votes, use .npy. If they are headings, begin their line with 'teacher', and the others with a "
            "number: in pandas, frame.to_csv(path, index_label='teacher').",
        )
    if numbers.shape[1] >= 2 and (names or len(numbers) >= _LEAST) and _are_ids(numbers[:, 0], known):
        return _indexed(table)
    if len(numbers) >= _LEAST and numbers.shape[1] >= 2 and counts(numbers[:, 0]):
        if not _surely_counts(len(numbers), numbers[:, 1:]):
            raise FileFormatError(
                f"The first column of {table.path} counts the rows: is it an index, or votes?",
                "If it numbers the samples of one teacher's labels, put the line 'sample,label' on top. If it holds "
                f"votes, use .npy. If it is an index, leave it out. {_NOT_INDEXED}",
            )
        return _indexed(table)
    return table


def _indexed(table: Table) -> Table:
    """The table with its first column, of whole numbers, as its index."""
    index = tuple(str(int(number)) for number in table.numbers[:, 0].tolist())
    names = None if table.names is None else ("", *table.names[1:])
    return Table(table.path, table.numbers[:, 1:], names, index, certain=True)


def _by_sample(table: Table, known: SampleIds, of: str = "row") -> _Array:
    """The rows of a table with one row per sample, in the order of the samples; they may be another's columns."""
    if table.index is None:
        return table.numbers
    rows = len(table.numbers)
    numbered = all(is_number(cell) for cell in table.index)
    ids = np.array(table.index, np.float64) if numbered else np.empty(0)
    # Row names of R count from 1, and stand under no heading; a heading says that these are the samples' own numbers.
    if np.array_equal(ids, np.arange(1, rows + 1)) and _corner(table) not in SAMPLES:
        return table.numbers
    order = np.argsort(ids, kind="stable")
    if np.array_equal(ids[order], np.arange(rows)):
        return table.numbers[order]
    own = known()
    if own is not None:
        return table.numbers[_found(table, own, of)]
    where = f"the first column of {table.path}" if _corner(table) else f"the index of {table.path}"
    where = where if of == "row" else f"the headings of {table.path}"
    advice = f"Number the samples from 0 to {rows - 1}, in the order of the job's data, each once."
    if not numbered:
        raise FileFormatError(f"Samples in {where} have no numbers.", advice)
    if np.array_equal(ids[order], np.arange(1, rows + 1)):
        raise FileFormatError(f"Samples in {where} are numbered from 1.", advice)
    if np.unique(ids).size < rows:
        raise FileFormatError(f"Some samples in {where} are there twice.", advice)
    raise FileFormatError(f"Samples in {where} are not numbered from 0 to {rows - 1}: some are missing.", advice)


def _found(table: Table, ids: Sequence[str], of: str) -> list[int]:
    """Where each sample's row is, by its id."""
    rows = {cell.strip(): row for row, cell in enumerate(table.index or ())}
    missing = sum(name not in rows for name in ids)
    if missing or not len(rows) == len(table.numbers) == len(ids):
        raise FileFormatError(
            f"The {of}s of {table.path} are not those of the job's {counted(len(ids), 'sample')}: it lacks "
            f"{counted(missing, 'id')} of theirs, and has {counted(len(table.numbers) - len(ids) + missing, of)} "
            "with another id or one that was there before.",
            f"Give one {of} for each sample with the id it has in the job's data; -1 abstains.",
        )
    return [rows[name] for name in ids]


def _is_label(index: Sequence[str]) -> bool:
    """Whether an index names rows or counts them, so that it cannot be votes."""
    return not any(map(is_number, index)) or _is_count(index)


def _is_count(cells: Sequence[str]) -> bool:
    """Whether they count from 0 or 1, in any order."""
    return all(map(is_number, cells)) and counts(np.sort(np.array(cells, np.float64)))


def _surely_counts(count: int, others: _Array) -> bool:
    """Whether numbers up to `count` cannot be votes, because all others are far below, or are scores."""
    finite = others[np.isfinite(others)]
    scores = bool((finite != np.floor(finite)).any())
    return scores or (count >= _MANY and count > 2 * (float(finite.max(initial=0.0)) + 1))
