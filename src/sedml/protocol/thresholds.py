"""How many votes make a consensus, as people say it: a fraction of the teachers that take part, or a count of votes.

A float up to 1.0 is a fraction: 0.6 of 250 teachers is 150, and 1.0 is all of them. An int is a count, so 1 is one
vote; so is a float above 1, which must be a whole number. In a text the point tells the two apart: "1.0" is all
teachers, "1" is one vote.
"""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import numpy as np

from sedml.errors import TaskError, counted

MAX_THRESHOLD_FACTOR = 4
"""A threshold may be up to this many times the number of teachers (see `threshold_count`)."""

_FORMS = "Use a fraction of the votes such as 0.6, or a count of votes such as 150."
_LEAST, _MOST = Decimal("1e-9"), Decimal("1e9")


def read_threshold(threshold: float | str) -> float:
    """A threshold as a number: an int is a count of votes, a float up to 1.0 a fraction of the teachers."""
    found = Decimal("NaN")
    with suppress(InvalidOperation):
        found = Decimal(threshold if isinstance(threshold, int) else str(threshold))
    if isinstance(threshold, bool) or not found.is_finite() or not _LEAST <= found < _MOST:
        shown = repr(threshold)[:60] if isinstance(threshold, str | float) else f"of type {type(threshold).__name__}"
        raise TaskError(
            f"The threshold {shown} is not a number that can be used.",
            _FORMS,
        )
    if found > 1 and found != found.to_integral_value():
        raise TaskError(f"The threshold {threshold} is neither a fraction nor a whole number of votes.", _FORMS)
    whole = isinstance(threshold, int | np.integer) or (isinstance(threshold, str) and "." not in threshold)
    return int(found) if (whole or found > 1) and found == found.to_integral_value() else float(found)


def threshold_text(threshold: float | str) -> str:
    """A fraction as "0.6", a count as "150"."""
    return f"{Decimal(str(read_threshold(threshold))):f}"


def threshold_count(threshold: float | str, participants: int) -> int:
    """The number of votes T that `threshold` asks for when `participants` teachers took part.

    A fraction is read as the decimal number that was written, and rounded up: 0.55 of 100 is 55, not 56. A count may
    exceed the number of teachers, as noise can lift the highest count above it (PATE's SVHN experiment has T = 300 for
    250 teachers), up to `MAX_THRESHOLD_FACTOR` times that number; beyond, no reasonable noise finds a consensus and the
    number is most likely a mistake.
    """
    if isinstance(participants, bool) or not isinstance(participants, int | np.integer) or participants < 1:
        raise TaskError("The number of teachers that took part is not valid.", "It must be a whole number, at least 1.")
    found, limit = read_threshold(threshold), MAX_THRESHOLD_FACTOR * int(participants)
    if found > limit:
        raise TaskError(
            f"The threshold is out of reach of {counted(int(participants), 'vote')}.",
            f"Use a fraction of the votes such as 0.6, or a count of votes from 1 to {limit}.",
        )
    if isinstance(found, int):
        return found
    # Fraction(0.55) would be the binary number nearby, a little more than 0.55.
    return math.ceil(Fraction(str(found)) * int(participants))
