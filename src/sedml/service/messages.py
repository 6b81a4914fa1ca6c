"""What goes over HTTP between a client and a server: JSON documents, and the few headers of binary bodies.

Shares travel as raw bytes (`application/octet-stream`), never inside a document.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from sedml.service.states import JobState
from sedml.service.terms import JobId, Name, Terms

__all__ = [
    "API_VERSION",
    "BALLOT_HEADER",
    "PARTS_HEADER",
    "Account",
    "AccountList",
    "AuditEntry",
    "AuditHead",
    "AuditList",
    "CohortStatus",
    "Enrolment",
    "Health",
    "JobList",
    "JobStatus",
    "NewToken",
    "OwnBudget",
    "OwnLimit",
    "Problem",
    "Readiness",
    "Receipt",
    "Role",
    "Roster",
    "ServerInfo",
    "ServerName",
    "TokenHash",
    "a_role",
]

API_VERSION = 4
BALLOT_HEADER = "Sedml-Ballot"
PARTS_HEADER = "Sedml-Parts"

ServerName: TypeAlias = Literal["s0", "s1"]
Role: TypeAlias = Literal["teacher", "requester", "operator"]
TokenHash: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


def a_role(role: str) -> str:
    """For people: a teacher, an operator."""
    return f"{'an' if role == 'operator' else 'a'} {role}"


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(_Document):
    """An error (RFC 9457): `title` says what happened, `detail` what to do."""

    type: str
    title: str
    status: int
    detail: str


class Roster(_Document):
    """The teachers whose two halves both arrived: how many, and a digest that names them."""

    teachers: int
    digest: str


class CohortStatus(_Document):
    """What a cohort of teachers was promised, and how much of it (in zCDP) is used, as this server has it on record."""

    cohort: Name
    epsilon: float
    delta: float
    unit: str
    """Whom that protects."""
    rho_limit: float
    rho_spent: float
    rho_reserved: float


class OwnBudget(_Document):
    """A teacher's own account at this server: what the jobs that counted its votes cost."""

    cohort: Name | None
    """The one that it belongs to; none before a job has counted it."""
    epsilon: float | None
    """What that cohort was promised."""
    delta: float | None
    unit: str | None
    """Whom that protects."""
    used: float
    """Which part of that the jobs that counted this teacher may have used."""
    used_epsilon: float
    """The same as epsilon, at the order of the cohort's budget: not proportional to it."""
    limit: float | None
    """The teacher's own, in epsilon; no job counts it that could pass this."""


class OwnLimit(_Document):
    """The limit that a teacher sets itself for all jobs, in epsilon at its cohort's delta; null: none."""

    limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


class JobStatus(_Document):
    """A job as one server sees it."""

    id: JobId
    server: ServerName
    state: JobState
    terms: Terms
    votes: int
    """Ballots that arrived here; not all need have arrived at the other server."""
    roster: Roster | None = None
    task: str | None = None
    """The id of the task that the servers run, once the roster is agreed."""
    blocks: int = 0
    blocks_done: int = 0
    samples_done: int = 0
    extra_attempts: int = 0
    """Attempts at blocks beyond one each: the link broke, or a server was started anew. There is a limit."""
    protocol_seconds: float = 0.0
    """Time this server has spent in finished blocks."""
    eta_seconds: float | None = None
    created_at: datetime
    closed_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime
    """When what is left of an unfinished job is deleted."""
    deleted: bool = False
    """Ballots and label shares are gone; only this record is left."""
    deleted_at: datetime | None = None
    deleted_by: str | None = None
    """An account; or the server itself, when it had kept the job long enough."""
    budget: CohortStatus | None = None
    ballot: str | None = None
    """The name of the ballot that the caller has on record here, if it is a teacher."""
    problem: Problem | None = None
    """Why it was refused or failed, or what it is waiting for."""


class JobList(_Document):
    """Jobs that the caller may see, newest first."""

    jobs: list[JobStatus]


class Receipt(_Document):
    """An acknowledged ballot: it is on disk."""

    job: JobId
    teacher: Name
    server: ServerName
    ballot: str
    """Its name, which both servers compute."""
    parts: str | None = None
    """What the teacher calls the parts that its votes are of, on this job: a hash of their manifest and the job."""
    received_at: datetime


class ServerInfo(_Document):
    """Who the server is, who it takes the caller for, and its limits."""

    server: ServerName
    version: str
    api: int
    time: datetime
    account: Name
    role: Role
    certificate_expires: datetime
    max_data_bytes: int
    disk_free_bytes: int
    """At least; to operators, exactly."""
    peer_seen: datetime | None
    """When the other server was last heard of."""
    link_delay_ms: float | None = None
    """The delay between the two servers, one way, as they measured it; null before they have."""
    teachers: int | None = None
    """How many are enrolled here; not for teachers."""
    revoked: str | None = None
    """The authority's list of certificates that are good no more, as PEM, if this server has one."""


class Health(_Document):
    """The process answers; who it is, and what its clock says."""

    status: Literal["ok"] = "ok"
    server: ServerName
    version: str
    time: datetime


class Readiness(_Document):
    """Whether the server can do its work, and what is wrong; `peer`, the other server, does not count towards it."""

    ready: bool
    checks: dict[str, str]


class Account(_Document):
    """Somebody who may call the server."""

    name: Name
    organisation: Name
    """Whose it is."""
    role: Role
    created_at: datetime
    revoked_at: datetime | None = None


class AccountList(_Document):
    """All accounts of this server."""

    accounts: list[Account]


class Enrolment(_Document):
    """A new account: the server gets the hash of its token, never the token."""

    role: Role
    token_hash: TokenHash
    organisation: Name | None = None
    """Whose account it is; its own name if none is given."""


class NewToken(_Document):
    """The hash of the token that replaces the caller's."""

    token_hash: TokenHash


class AuditEntry(_Document):
    """Who did what when."""

    number: int
    at: datetime
    actor: str
    action: str
    subject: str
    outcome: str
    digest: str
    """A digest of this line and the one before it, under a key that only the server has."""


class AuditHead(_Document):
    """The newest line of an audit log; whoever notes it sees later whether lines were cut off or written anew."""

    number: int
    digest: str


class AuditList(_Document):
    """A page of the audit log, oldest first; ask again after the last number."""

    entries: list[AuditEntry]
    more: bool = Field(default=False)
    head: AuditHead | None = None
    """None while the log is empty."""
    wrong: int | None = None
    """The first of these entries whose digest does not fit: it was changed, or something before it is gone."""
