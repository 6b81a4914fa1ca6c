"""Classes by name: which names a job may have, and the class ids that names stand for.

Whoever creates a job chooses the names, and they are shown on teachers' terminals and pages and in spreadsheets. So a
name begins with a letter or a digit and has nothing but letters, digits, single spaces and a few signs: it can be no
escape sequence, no mark that turns text around, no markup, no formula, no number and no word for a missing value.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sedml.errors import PredictionsError, TaskError

_LONGEST = 60
_SHOWN = 8
_MOST_BYTES = 32_768
"""Of all names of a job together: they are in its terms, which everybody is sent."""
_BLOCK = 1 << 20  # predictions looked at together
_NONE = -2  # in place of a class id, where there is none
_SIGNS = frozenset(" _-.'()/+%?!:")
MISSING = frozenset({"na", "n/a", "nan", "nat", "none", "null"})
"""What most programs that read tables take for no value."""
_ALLOWED = f"Use letters, digits and {' '.join(sorted(_SIGNS - {' '}))}, at most {_LONGEST} characters a name."


def read_classes(classes: object) -> tuple[Any, tuple[str, ...]]:
    """How many classes there are, and their names if they have any: from names, "benign,malignant" or a number.

    A number is not looked at here: whoever uses it says what is wrong with it.
    """
    if isinstance(classes, str):
        if _is_number(classes) or not classes.strip():
            return (int(classes) if classes.isdecimal() else classes), ()
        classes = classes.split(",")
    if not isinstance(classes, Iterable) or isinstance(classes, bytes) or getattr(classes, "ndim", 1) != 1:
        return classes, ()
    given = list(classes)
    if not all(isinstance(name, str) for name in given):
        raise TaskError("The classes are a list of something other than names.", "Give names, or how many there are.")
    names = tuple(plain_name(name) for name in given)
    check_names(names)
    return len(names), names


def check_names(names: Sequence[str]) -> None:
    """Raise unless these can be the names of a job's classes, the class with id 0 first."""
    if len(names) == 1:
        raise TaskError("There is one class name.", "Name two classes or more, as in benign,malignant.")
    if sum(len(name.encode("utf-8", "replace")) for name in names) > _MOST_BYTES:
        raise TaskError("The class names are too long.", f"Use at most {_MOST_BYTES:,} bytes for all of them.")
    known: set[str] = set()
    for place, name in enumerate(names, 1):
        which = f"Class name {place} of {len(names)}"
        if not 0 < len(name) <= _LONGEST or name != plain_name(name) or "  " in name:
            raise TaskError(f"{which} is empty, too long, or has spaces that cannot be seen.", _ALLOWED)
        kinds = [unicodedata.category(one) for one in name]
        if not all(kind[0] in "LM" or kind == "Nd" or one in _SIGNS for one, kind in zip(name, kinds, strict=True)):
            raise TaskError(f"{which} has a character that a name may not have.", _ALLOWED)
        if kinds[0][0] != "L" and kinds[0] != "Nd":
            raise TaskError(f"{which} does not begin with a letter or a digit.", _ALLOWED)
        if "MMM" in "".join(kind[0] for kind in kinds):
            raise TaskError(f"{which} has too many marks on one letter.", _ALLOWED)
        if _is_number(name) or name.casefold() in MISSING:
            raise TaskError(
                f"{which} would be read as a number, or as a value that is missing.",
                "Use words, as in grade-1; or say how many classes there are, which are then 0, 1, ...",
            )
        if name.casefold() in known:
            raise TaskError(f"{which} is there twice, or differs from another in nothing but its case.", "Rename one.")
        known.add(name.casefold())


def plain_name(name: str) -> str:
    """A name in the one form in which names are compared."""
    return unicodedata.normalize("NFKC", name).strip()


def ids_of(cells: npt.NDArray[Any], names: Sequence[str]) -> npt.NDArray[np.int64]:
    """The class ids of cells with names, in the same shape, -1 where a cell is a negative number.

    Predictions are secret: an error does not quote the cell. It names the class that was probably meant, and so does
    not say where that stands.
    """
    known = {name: number for number, name in enumerate(names)}
    ids, wrong, example = np.empty(cells.size, np.int64), 0, ""
    for start in range(0, cells.size, _BLOCK):
        texts, places = np.unique(cells.flat[start : start + _BLOCK].astype(np.str_), return_inverse=True)
        found = [known.get(plain_name(text), -1 if _abstains(text) else _NONE) for text in texts.tolist()]
        if _NONE in found:
            example = example or texts[found.index(_NONE)]
        ids[start : start + _BLOCK] = block = np.array(found, np.int64)[places]
        wrong += int((block == _NONE).sum())
    if wrong:
        what = "1 prediction is not a class" if wrong == 1 else f"{wrong:,} predictions are not classes"
        raise PredictionsError(f"{what} of this job.", _advice(example, names))
    return ids.reshape(cells.shape)


def named(labels: npt.NDArray[np.integer[Any]], names: Sequence[str]) -> list[str | None]:
    """The name of each label's class, None for a label that there is not."""
    return [names[label] if label >= 0 else None for label in labels.tolist()]


def shown_names(names: Sequence[str]) -> str:
    """The names for people: the first few, if there are many."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _advice(text: str, names: Sequence[str]) -> str:
    folded = {name.casefold(): name for name in names}
    nearest = difflib.get_close_matches(plain_name(text).casefold(), folded, n=1)
    meant = f"Did you mean {folded[nearest[0]]!r}? " if nearest else ""
    return f"{meant}The classes are {shown_names(names)}; -1 abstains."


def _abstains(text: str) -> bool:
    return _is_number(text) and float(text) < 0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
