"""From what a requester asks for to the terms of a job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeAlias

from pydantic import SkipValidation, ValidationError

from sedml.errors import InputError, TaskError
from sedml.privacy.calibration import sigma_for
from sedml.privacy.terms_checks import check_asked_terms
from sedml.privacy.unit import ORGANISATION, Unit
from sedml.protocol.class_names import read_classes
from sedml.protocol.thresholds import read_threshold, threshold_text
from sedml.service.client.arguments import number, whole_number
from sedml.service.quantities import SECONDS, measured
from sedml.service.terms import Terms, check_terms

Deadline: TypeAlias = datetime | timedelta | float | str
"""A moment, or how long from now: a timedelta, seconds, or "45m", "12h", "7d"."""

_RULES = {
    "title": "Use up to 200 printable characters.",
    "cohort": "Use lower-case letters, digits, '.', '_' and '-', at most 63.",
    "classes": "Use from 2 to 4,096 classes.",
    "class_names": "Name from 2 to 4,096 classes.",
    "samples": "Ask about 100,000,000 samples at most.",
    "threshold": "Use a fraction of the votes such as 0.6, of at most nine digits, or a count of votes such as 150.",
    "sigma": "Use a number above 0, up to 131,072.",
    "epsilon": "Use a number above 0, up to 1,000,000.",
    "min_teachers": "Use a whole number from 1 to 10,000,000.",
}
"""What the terms allow of what a requester asks for."""

_DEADLINES = "Use 45m, 12h, 7d, or a moment such as 2030-01-31T12:00."


@dataclass(frozen=True, kw_only=True)
class JobRequest:
    """A job as it was asked for: numbers may be written out; what else it says is up to the terms."""

    classes: Annotated[Any, SkipValidation]
    """How many there are, or their names: a list of them, or "benign,malignant"; kept as a number."""
    # As people write them: `threshold_text` and `moment_of` say what they mean, whoever brings them.
    threshold: Annotated[float | str, SkipValidation]
    epsilon: float
    delta: float
    min_teachers: int
    deadline: Annotated[Deadline, SkipValidation]
    sigma: float | None = None
    unit: str = ORGANISATION
    votes: int = 1
    spread: int = 1
    title: str = ""
    cohort: str = "teachers"
    class_names: tuple[str, ...] = ()
    id_column: str | None = None
    """Which column of a table of samples has their ids. It is no part of the terms."""

    def __post_init__(self) -> None:
        count, names = read_classes(self.classes)
        object.__setattr__(self, "classes", count)
        object.__setattr__(self, "class_names", names or tuple(self.class_names))
        for name in ("classes", "min_teachers", "votes", "spread"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        for name in ("epsilon", "delta", "sigma"):
            if name != "sigma" or self.sigma is not None:
                object.__setattr__(self, name, number(name, getattr(self, name)))


def terms_for(request: JobRequest, requester: str, samples: int, data: tuple[int, str], now: datetime) -> Terms:
    """The terms, with the least noise that keeps epsilon unless it is given; raises if they cannot be met."""
    # A job of one teacher is doubted later, together with all else that speaks against a job.
    teachers = request.min_teachers if request.min_teachers > 1 else None
    unit = Unit(request.unit, request.votes, request.spread)
    check_asked_terms(
        samples=samples,
        teachers=teachers if unit.votes == 1 else request.min_teachers,
        votes=unit.votes,
        threshold=read_threshold(request.threshold),
        epsilon=request.epsilon,
        delta=request.delta,
    )
    sigma = request.sigma
    if sigma is None:
        sigma = sigma_for(samples, request.epsilon, request.delta, request.classes, unit.moves)
    settled = {
        "requester": requester,
        "samples": samples,
        "threshold": threshold_text(request.threshold),
        "sigma": sigma,
        "deadline": int(moment_of(request.deadline, now).timestamp()),
        "data_bytes": data[0],
        "data_sha256": data[1],
    }
    try:
        asked = {name: value for name, value in asdict(request).items() if name != "id_column"}
        terms = Terms.model_validate(asked | settled)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(next(iter(first["loc"]), "job"))
        if field in _RULES:
            raise TaskError(f"The job's {field} cannot be used.", _RULES[field]) from None
        raise TaskError(f"The terms of the job cannot be used: {field}: {first['msg']}.", f"Change {field}.") from None
    check_terms(terms)
    return terms


def moment_of(deadline: Deadline, now: datetime) -> datetime:
    """When voting ends; raises if that is over."""
    try:
        if isinstance(deadline, str):
            passing = measured(deadline, SECONDS)
            deadline = datetime.fromisoformat(deadline) if passing is None else passing
        if not isinstance(deadline, datetime | timedelta):
            deadline = timedelta(seconds=number("deadline", deadline))
        # A moment without a zone is one of this machine's zone.
        moment = now + deadline if isinstance(deadline, timedelta) else deadline.astimezone(UTC)
    except OverflowError:
        raise TaskError("The deadline is too far away.", "Use days or weeks from now.") from None
    except InputError as error:
        raise TaskError(error.what, _DEADLINES) from None
    except (ValueError, TypeError, OSError):  # no date at all, as pandas' NaT, or one that this machine cannot place
        shown = f"{deadline[:60]!r} cannot be read" if isinstance(deadline, str) else "is no moment that can be used"
        raise TaskError(f"The deadline {shown}.", _DEADLINES) from None
    if moment <= now:
        raise TaskError(f"The deadline {moment:%Y-%m-%d %H:%M} UTC has passed.", "Give the teachers time to vote.")
    return moment
