"""From what a requester asks for to the terms of a job."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TypeAlias

from pydantic import ValidationError

from sedml.errors import TaskError
from sedml.privacy.calibration import sigma_for
from sedml.service.terms import Terms, check_terms

__all__ = ["Deadline", "Request", "moment_of", "terms_for", "threshold_text"]

Deadline: TypeAlias = datetime | timedelta | str
"""A moment, or how long from now: a timedelta or "45m", "12h", "7d"."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """A job as it was asked for."""

    classes: int
    threshold: float | str
    epsilon: float
    delta: float
    min_teachers: int
    deadline: Deadline
    sigma1: float | None = None
    sigma2: float | None = None
    title: str = ""
    cohort: str = "teachers"


def terms_for(request: Request, requester: str, samples: int, data: tuple[int, str], now: datetime) -> Terms:
    """The terms, with the least noise that keeps epsilon unless it is given; raises if they cannot be met."""
    sigma1, sigma2 = request.sigma1, request.sigma2
    if sigma1 is None and sigma2 is None:
        sigma1 = sigma2 = sigma_for(samples, request.epsilon, request.delta, request.classes)
    if sigma1 is None or sigma2 is None:
        raise TaskError(
            "Only one of the two sigmas was given.", "Give both, or neither: then they follow from epsilon."
        )
    try:
        terms = Terms(
            requester=requester,
            title=request.title,
            classes=request.classes,
            samples=samples,
            threshold=threshold_text(request.threshold),
            sigma1=sigma1,
            sigma2=sigma2,
            epsilon=request.epsilon,
            delta=request.delta,
            min_teachers=request.min_teachers,
            deadline=int(moment_of(request.deadline, now).timestamp()),
            cohort=request.cohort,
            data_bytes=data[0],
            data_sha256=data[1],
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        raise TaskError(f"The terms of the job cannot be used: {field}: {first['msg']}.", f"Change {field}.") from None
    check_terms(terms)
    return terms


def threshold_text(threshold: float | str) -> str:
    """A fraction as "0.6", a count as "150"."""
    try:
        number = Decimal(str(threshold))
    except InvalidOperation:
        raise TaskError(
            f"The threshold {threshold!r} is not a number.", "Use a fraction (0.6) or a count (150)."
        ) from None
    counted = number > 1 or isinstance(threshold, int) or (isinstance(threshold, str) and "." not in threshold)
    if number.is_finite() and counted and number == number.to_integral_value():
        return str(int(number))
    return f"{number:f}"


def moment_of(deadline: Deadline, now: datetime) -> datetime:
    """When voting ends; raises if that is over."""
    if isinstance(deadline, str):
        deadline = _read(deadline)
    try:
        # A moment without a zone is one of this machine's zone.
        moment = now + deadline if isinstance(deadline, timedelta) else deadline.astimezone(UTC)
    except OverflowError:
        raise TaskError("The deadline is too far away.", "Use days or weeks from now.") from None
    if moment <= now:
        raise TaskError(f"The deadline {moment:%Y-%m-%d %H:%M} UTC has passed.", "Give the teachers time to vote.")
    return moment


def _read(text: str) -> datetime | timedelta:
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhdw])", text.strip())
    if found:
        return timedelta(**{_UNITS[found[2]]: float(found[1])})
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise TaskError(
            f"The deadline {text!r} cannot be read.", "Use 45m, 12h, 7d, or a moment such as 2030-01-31T12:00."
        ) from None
