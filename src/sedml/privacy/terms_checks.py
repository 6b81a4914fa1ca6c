"""Whether terms make sense to a person: what mathematics allows and nobody can have meant.

`check_asked_terms` is for everybody who takes terms from people (`sedml.aggregate`, the planner, the commands, whoever
creates a job), before anything is spent. Servers do not ask it: what was once agreed on stays valid.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import cast

from sedml.errors import TaskError, warn

MOST_DELTA = 0.1
"""From here on a promise that may fail with probability delta is none."""
LEAST_DELTA = 1e-15
"""Noise is cut at nine sigmas, and all draws of a job together are off by about this much."""
_SIGMAS = 3.0
"""Noise lifts a count by more than this in about one case of a thousand."""


def check_asked_terms(
    *,
    teachers: int | None = None,
    votes: int = 1,
    samples: int | None = None,
    threshold: float | None = None,
    sigma: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> None:
    """Refuse terms that cannot have been meant, and warn of those that hardly can; what is None is not looked at.

    votes: how many each teacher has on a sample. threshold: an int is a count of votes, a float up to 1 a fraction.
    """
    if samples is not None:
        _check_number("samples", samples)
    if teachers is not None:
        _check_number("teachers", teachers)
    if epsilon is not None and not _real("epsilon", epsilon) > 0.0:
        raise TaskError(f"An epsilon of {epsilon:g} allows nothing.", "Use a number above 0, such as 2.")
    if delta is not None:
        _check_delta(_real("delta", delta), teachers)
    if threshold is not None and teachers is not None:
        _check_threshold(threshold, teachers, votes, sigma)
    if teachers == 1:
        warn(
            "There is only one teacher, so there are no other votes to hide its own among.",
            "Ask more teachers; with one, only the noise protects it.",
        )


def _check_delta(delta: float, teachers: int | None) -> None:
    if not 0.0 < delta < 1.0:
        raise TaskError(f"delta is {delta:g}.", "Use a number above 0 and below 1, such as 1e-5.")
    if delta >= MOST_DELTA:
        raise TaskError(
            f"delta is {delta:g}, which is no promise: that often, a teacher's votes may be revealed.",
            "Use a delta well below 1 / number of teachers, such as 1e-5.",
        )
    if delta < LEAST_DELTA:
        raise TaskError(
            f"delta is {delta:g}, and noise that ends at nine sigmas cannot promise less than {LEAST_DELTA:g}.",
            "Use a delta such as 1e-5, or 1e-9 for millions of teachers.",
        )
    if teachers is not None and teachers > 1 and delta > 1.0 / teachers:
        warn(
            f"delta is {delta:g}, above 1 / {teachers:,} teachers: revealing one teacher's votes would be within it.",
            f"Use a delta of {_well_below(teachers):g} or less.",
        )


def _check_threshold(threshold: float, teachers: int, each: int, sigma: float | None) -> None:
    votes, given = float(threshold), cast(object, threshold)  # which may be a whole number of NumPy's
    if votes == 1.0 and isinstance(given, Integral) and teachers > 1:
        raise TaskError(
            "A threshold of 1 can be read as one vote or as all teachers.",
            "Write 1.0 for all of them. One vote is not a consensus: use a fraction such as 0.6, or a count from 2 on.",
        )
    fraction = votes <= 1.0 and not isinstance(given, Integral)
    reached = votes * teachers * each if fraction else votes
    if each > 1 and reached <= each and (teachers > 1 or not fraction):
        raise TaskError(
            f"One teacher alone, with its {each} votes, reaches the threshold.",
            f"Use a threshold of more than {each} of the {teachers * each:,} votes: a consensus takes several.",
        )
    if sigma is None or votes <= max(1, teachers * each):
        return
    what = f"The threshold of {votes:g} votes is above the number of votes, {teachers * each:,}"
    do = (
        "Use a fraction such as 0.6, or a lower count. If there are more teachers than that, check that the "
        "predictions have one row for each of them."
    )
    if votes > teachers * each + _SIGMAS * sigma:
        raise TaskError(f"{what}, and noise with sigma = {sigma:g} lifts no count that far.", do)
    warn(f"{what}: only noise can lift a count that far.", do)


def _check_number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TaskError(f"The number of {name} is of type {type(value).__name__}.", "It must be a whole number (int).")
    if value < 1:
        raise TaskError(f"The number of {name} is {int(value)}.", "Use 1 or more.")


def _real(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TaskError(f"{name} is of type {type(value).__name__}.", "It must be a number.")
    return float(value)


def _well_below(teachers: int) -> float:
    """A tenth of 1 / teachers or less, as a power of ten."""
    return float(10.0 ** -(math.ceil(math.log10(teachers)) + 1))
