"""The terms of a job: what a requester asks the teachers, frozen, and the hash that names it.

The id of a job *is* the hash of its terms. Both servers, every teacher and the requester compute it for themselves,
so nobody can be shown other terms under the same id. What depends on who took part (the number of teachers, and with
it the threshold as a count and the rings) is settled when the vote closes: `task_of`.

Both servers always add noise, of one sigma together: what the paper allows beyond that is for measurements
(`sedml.lab.paper`), not for strangers.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, FailFast, Field, StringConstraints, field_validator, model_validator

from sedml.errors import TaskError
from sedml.privacy.accounting import PrivacyReport, job_epsilon, job_report
from sedml.privacy.charging import JobCharge, job_charge
from sedml.privacy.unit import MAX_VOTES, ORGANISATION, UNIT_NAME, Unit
from sedml.protocol.ballots.shape import BallotShape
from sedml.protocol.class_names import check_names
from sedml.protocol.task import Task
from sedml.protocol.thresholds import threshold_count

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
"""The name of a teacher, a requester, an operator or a cohort."""

HEX32 = r"^[0-9a-f]{32}$"
"""16 bytes in hexadecimal: the id of a job or a task, a nonce."""

HEX64 = r"^[0-9a-f]{64}$"
"""32 bytes in hexadecimal: a digest, the name of a ballot."""

Digest: TypeAlias = Annotated[str, StringConstraints(pattern=HEX64)]
JobId: TypeAlias = Annotated[str, StringConstraints(pattern=HEX32)]

_DECIMAL = r"^([1-9][0-9]{0,8}|0\.[0-9]{1,9}|1\.0{1,9})$"


class Terms(BaseModel):
    """One job, as everybody sees it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[4] = 4
    requester: Name
    title: Annotated[str, Field(max_length=200)] = ""
    classes: Annotated[int, Field(ge=2, le=4096)]
    class_names: Annotated[tuple[str, ...], FailFast(), Field(max_length=4096)] = Field(
        default=(), exclude_if=lambda names: not names
    )
    """What the classes are called, that with id 0 first. Not in the terms, nor in their hash, where classes have no
    names."""
    samples: Annotated[int, Field(ge=1, le=100_000_000)]
    threshold: Annotated[str, StringConstraints(pattern=_DECIMAL)]
    """A fraction of the votes of the teachers that take part ("0.6"), or a count of votes ("150")."""
    sigma: Annotated[float, Field(gt=0, le=131_072)]
    """Of the noise on every count, both servers' together."""
    epsilon: Annotated[float, Field(gt=0, le=1e6)]
    """The most the job may cost a unit: what the requester and one operator together can learn; the servers check
    it."""
    delta: Annotated[float, Field(gt=0, lt=1)]
    unit: Annotated[str, StringConstraints(pattern=UNIT_NAME)] = ORGANISATION
    """Whom epsilon protects: the organisation that a teacher is, or one of those whose data it holds."""
    votes: Annotated[int, Field(ge=1, le=MAX_VOTES)] = 1
    """How many votes a teacher has on each sample."""
    spread: Annotated[int, Field(ge=1, le=MAX_VOTES)] = 1
    """In how many parts, of all teachers together, one unit may appear; each part has a vote."""
    min_teachers: Annotated[int, Field(ge=1, le=10_000_000)]
    deadline: Annotated[int, Field(ge=0, le=253_402_300_799)]
    """When voting ends, in seconds since 1970."""
    cohort: Name = "teachers"
    data_bytes: Annotated[int, Field(ge=1)]
    data_sha256: Digest
    """Fingerprint of the file of unlabelled samples."""
    releases: tuple[Digest, Digest] | None = Field(default=None, exclude_if=lambda value: value is None)
    """What S0 and S1 said that they run (`sedml.release`) when the job was made; each checks its own. They may be
    upgraded since. Not in the terms, nor in their hash, where a server was too old to say."""
    nonce: Annotated[str, StringConstraints(pattern=HEX32)] = Field(default_factory=lambda: secrets.token_hex(16))
    """Makes two jobs of the same terms two jobs."""

    @field_validator("format", mode="before")
    @classmethod
    def _of_this_release(cls, given: object) -> object:
        if given in (1, 2, 3):
            raise ValueError(
                "these terms are of an older release, and its jobs are no longer run: install the same as here"
            )
        return given

    @field_validator("title")
    @classmethod
    def _printable(cls, title: str) -> str:
        if not all(character.isprintable() for character in title):
            raise ValueError("a title may only have printable characters")
        return title

    @model_validator(mode="after")
    def _names(self) -> Terms:
        if self.class_names and len(self.class_names) != self.classes:
            raise ValueError(f"there are {self.classes} classes and {len(self.class_names)} class names")
        try:
            check_names(self.class_names)
        except TaskError as error:
            raise ValueError(f"{error.what} {error.do}") from None
        return self

    @model_validator(mode="after")
    def _a_unit(self) -> Terms:
        try:
            _ = self.protected
        except TaskError as error:
            raise ValueError(f"{error.what} {error.do}") from None
        return self

    @property
    def protected(self) -> Unit:
        """Whom epsilon protects, and how many votes one of them moves."""
        return Unit(self.unit, self.votes, self.spread)

    @property
    def id(self) -> str:
        """32 hexadecimal digits: the hash of all terms."""
        # Fields in the order of the class and floats in their shortest form: one text for the same terms.
        text = self.model_dump_json().encode()
        return hashlib.blake2b(text, digest_size=16, person=b"sedml-job-v1").hexdigest()

    @property
    def ballot(self) -> BallotShape:
        """What each teacher sends, whoever else takes part."""
        return BallotShape(self.samples, self.classes, self.votes)


def task_of(terms: Terms, teachers: int, roster: str) -> Task:
    """The task of the teachers that took part; `roster` is the digest that names them.

    The roster is part of the task's id, so correlations and frames of one roster are never used for another.
    """
    return Task(
        classes=terms.classes,
        samples=terms.samples,
        teachers=teachers,
        threshold=threshold_count(terms.threshold, teachers * terms.votes),
        sigma=terms.sigma,
        votes=terms.votes,
        nonce=f"{terms.id}/{roster}",
    )


def job_cost(terms: Terms) -> PrivacyReport:
    """What the job costs."""
    return job_report(terms.samples, terms.sigma, terms.delta, classes=terms.classes, unit=terms.protected)


def promise_of(terms: Terms) -> str:
    """Who is protected and who is not, as a sentence for a teacher."""
    protected, figures = terms.protected, (terms.samples, terms.sigma, terms.delta)
    unit = job_epsilon(*figures, classes=terms.classes, moves=protected.moves)
    alone = protected.moves == protected.votes
    whole = unit if alone else job_epsilon(*figures, classes=terms.classes, moves=protected.votes, rough=True)
    return protected.promise(unit, whole)


def charge_at(terms: Terms, order: float, unit: str | None = None) -> JobCharge:
    """What the job is charged to a budget of this order, which protects the job's unit unless another is named."""
    moves = terms.protected.moves_of(terms.unit if unit is None else unit)
    return job_charge(terms.samples, terms.classes, terms.sigma, order, moves)


def check_terms(terms: Terms) -> None:
    """Raise unless the terms can be met at all, and cost no more than they say."""
    task_of(terms, terms.min_teachers, "")
    cost = job_epsilon(terms.samples, terms.sigma, terms.delta, classes=terms.classes, moves=terms.protected.moves)
    if cost > terms.epsilon:
        raise TaskError(
            f"The job costs epsilon {cost:.4g} at delta {terms.delta:g}; its terms promise {terms.epsilon:g}.",
            "Use more noise or fewer samples, or promise what it costs.",
        )
