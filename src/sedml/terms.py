"""The terms of a job: what a requester asks the teachers, frozen, and the hash that names it.

The id of a job *is* the hash of its terms. Both servers, every teacher and the requester compute it for themselves,
so nobody can be shown other terms under the same id. What depends on who took part (the number of teachers, and with
it the threshold as a count and the rings) is settled when the vote closes: `task_of`.

Votes are always class indices and both servers always add noise: what the paper allows beyond that is for
measurements (`sedml.task`), not for strangers.
"""

from __future__ import annotations

import hashlib
import secrets
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from sedml.ballots import ballot_sizes, page_bytes
from sedml.errors import TaskError
from sedml.privacy.accounting import PrivacyReport
from sedml.spending import account_task
from sedml.task import Task
from sedml.votes import threshold_count

__all__ = [
    "JobId",
    "Name",
    "Terms",
    "ballot_bytes",
    "ballot_page",
    "check_terms",
    "job_cost",
    "task_of",
    "threshold_value",
]

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
"""Of a teacher, a requester, a dealer, an operator or a cohort."""

JobId: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]

_DECIMAL = r"^([1-9][0-9]{0,8}|0\.[0-9]{1,9}|1\.0{1,9})$"


class Terms(BaseModel):
    """One job, as everybody sees it."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    format: Literal[1] = 1
    requester: Name
    title: Annotated[str, Field(max_length=200)] = ""
    classes: Annotated[int, Field(ge=2, le=4096)]
    samples: Annotated[int, Field(ge=1, le=100_000_000)]
    threshold: Annotated[str, StringConstraints(pattern=_DECIMAL)]
    """A fraction of the teachers that take part ("0.6"), or a count of votes ("150")."""
    sigma1: Annotated[float, Field(gt=0, le=131_072)]
    sigma2: Annotated[float, Field(gt=0, le=131_072)]
    epsilon: Annotated[float, Field(gt=0, le=1e6)]
    """The most the job may cost a teacher, in the view of the requester; the servers check it."""
    delta: Annotated[float, Field(gt=0, lt=1)]
    min_teachers: Annotated[int, Field(ge=1, le=10_000_000)]
    deadline: Annotated[int, Field(ge=0, le=253_402_300_799)]
    """When voting ends, in seconds since 1970."""
    cohort: Name = "teachers"
    protocol: Literal["fused", "paper"] = "fused"
    data_bytes: Annotated[int, Field(ge=1)]
    data_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    """Fingerprint of the file of unlabelled samples."""
    nonce: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] = Field(
        default_factory=lambda: secrets.token_hex(16)
    )
    """Makes two jobs of the same terms two jobs."""
    dealer: Name | None = None
    """Who deals the one-use randomness; None is the requester."""

    @field_validator("title")
    @classmethod
    def _printable(cls, title: str) -> str:
        if not all(character.isprintable() for character in title):
            raise ValueError("a title has printable characters only")
        return title

    @property
    def id(self) -> str:
        """32 hexadecimal digits: the hash of all terms."""
        # Fields in the order of the class and floats in their shortest form: one text for the same terms. A dealer that
        # is not named has no part in it.
        text = self.model_dump_json(exclude_none=True).encode()
        return hashlib.blake2b(text, digest_size=16, person=b"sedml-job-v1").hexdigest()


def threshold_value(text: str) -> float:
    """The threshold as `sedml.votes.threshold_count` takes it: an int is a count, a float a fraction."""
    return float(text) if "." in text else int(text)


def task_of(terms: Terms, teachers: int, roster: str) -> Task:
    """The task of the teachers that took part; `roster` is the digest that names them.

    The roster is part of the task's id, so correlations and frames of one roster are never used for another.
    """
    return Task(
        classes=terms.classes,
        samples=terms.samples,
        teachers=teachers,
        threshold=threshold_count(threshold_value(terms.threshold), teachers),
        sigma1=terms.sigma1,
        sigma2=terms.sigma2,
        protocol=terms.protocol,
        votes="index",
        noise="both",
        nonce=f"{terms.id}/{roster}",
    )


def ballot_bytes(terms: Terms) -> tuple[int, int]:
    """Bytes that a teacher sends to S0 and to S1, whoever else takes part."""
    return ballot_sizes(_smallest(terms))


def ballot_page(terms: Terms, role: int) -> int:
    """Bytes of a whole page of a half."""
    return page_bytes(role, _smallest(terms))


def job_cost(terms: Terms, answered: int | None = None) -> PrivacyReport:
    """What the job costs with so many samples answered, or at the worst with all of them."""
    return account_task(_smallest(terms), terms.samples if answered is None else answered, terms.delta)


def check_terms(terms: Terms) -> None:
    """Raise unless the terms can be met at all, and cost no more than they say."""
    task_of(terms, terms.min_teachers, "")
    worst = job_cost(terms).requester.epsilon
    if worst > terms.epsilon:
        raise TaskError(
            f"The job could cost epsilon {worst:.4g} at delta {terms.delta:g}; its terms promise {terms.epsilon:g}.",
            "Use more noise or fewer samples, or promise what it costs.",
        )


@lru_cache(maxsize=256)
def _smallest(terms: Terms) -> Task:
    """A task of these terms for what does not depend on who took part."""
    return task_of(terms, terms.min_teachers, "")
