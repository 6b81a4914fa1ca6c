"""What goes over HTTP between a client and a server: JSON documents, and the few headers of binary bodies.

Shares travel as raw bytes (`application/octet-stream`), never inside a document. A list that makes no sense is left at
its first item that does not: of each such item, the parser would keep a hundred times what it has on the wire.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, FailFast, Field, StringConstraints

from sedml.service.states import JobState
from sedml.service.terms import Digest, JobId, Name, Terms

BALLOT_HEADER = "Sedml-Ballot"
PARTS_HEADER = "Sedml-Parts"

ServerName: TypeAlias = Literal["s0", "s1"]
Role: TypeAlias = Literal["teacher", "requester", "operator"]
Proof: TypeAlias = Annotated[list[Digest], FailFast(), Field(max_length=64)]
Note: TypeAlias = Annotated[str, Field(max_length=16_384)]


def _in_a_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a text that would steer a terminal")
    return text


Line: TypeAlias = Annotated[str, Field(max_length=2000), AfterValidator(_in_a_line)]
"""What somebody is shown as the other side has written it."""


def _in_utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time that no calendar has") from None


Moment: TypeAlias = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""In whatever zone somebody writes it, it is shown in UTC."""


def a_role(role: str) -> str:
    """For people: a teacher, an operator."""
    return f"{'an' if role == 'operator' else 'a'} {role}"


class Document(BaseModel):
    """All that a document of the interface has to be: it never changes, and has no fields but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(Document):
    """An error (RFC 9457): `title` says what happened, `detail` what to do."""

    type: str
    title: str
    status: int
    detail: str


class Roster(Document):
    """The teachers whose two halves both arrived: how many, and a digest that names them."""

    teachers: int
    digest: Line


class CohortStatus(Document):
    """What a cohort of teachers was promised, and how much of it (in zCDP) is used, as this server has it on record."""

    cohort: Name
    epsilon: float
    delta: float
    unit: Line
    """Whom that protects."""
    rho_limit: Annotated[float, Field(gt=0)]
    rho_spent: float
    rho_reserved: float


class OwnBudget(Document):
    """A teacher's own account at this server: what the jobs that counted its votes cost."""

    cohort: Name | None
    """The one that it belongs to; none before a job has counted it."""
    epsilon: float | None
    """What that cohort was promised."""
    delta: float | None
    unit: Line | None
    """Whom that protects."""
    used: float
    """Which part of that the jobs that counted this teacher may have used."""
    used_epsilon: float
    """The same as epsilon, at the order of the cohort's budget: not proportional to it."""
    limit: float | None
    """The teacher's own, in epsilon; no job counts it that could pass this."""


class OwnLimit(Document):
    """The limit that a teacher sets itself for all jobs, in epsilon at its cohort's delta; null: none."""

    limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None


class JobProof(Document):
    """That a job is in the log of a server, under a checkpoint which the other server has cosigned."""

    number: int
    """Of the entry, from 0."""
    entry: str
    line: Digest
    """What else the entry has, as a salted hash."""
    path: Proof
    """From the entry to the root (RFC 6962)."""
    checkpoint: Note
    consistency: Proof
    """From the checkpoint of the size that was asked about to this one."""


class JobStatus(Document):
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
    created_at: Moment
    closed_at: Moment | None = None
    finished_at: Moment | None = None
    expires_at: Moment
    """When what is left of an unfinished job is deleted."""
    deleted: bool = False
    """Ballots and label shares are gone; only this record is left."""
    deleted_at: Moment | None = None
    deleted_by: Line | None = None
    """An account; or the server itself, when it had kept the job long enough."""
    budget: CohortStatus | None = None
    ballot: str | None = None
    """The name of the ballot that the caller has on record here, if it is a teacher."""
    problem: Problem | None = None
    """Why it was refused or failed, or what it is waiting for."""
    log: JobProof | None = None
    """That it is in the log of this server, if that was asked for and the other server has cosigned it."""


class JobList(Document):
    """A page of the jobs that the caller may see, newest first; ask again after the last of them."""

    jobs: Annotated[list[JobStatus], FailFast()]
    more: bool = False


class Receipt(Document):
    """An acknowledged ballot: it is on disk."""

    job: JobId
    teacher: Name
    server: ServerName
    ballot: str
    """Its name, which both servers compute."""
    parts: str | None = None
    """What the teacher calls the parts that its votes are of, on this job: a hash of their manifest and the job."""
    received_at: Moment
    signature: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{128})?$")] = ""
    """Of all this, with the key of the server's log."""

    @property
    def text(self) -> bytes:
        """What is signed, which is no text of a checkpoint."""
        said = self.server, self.job, self.teacher, self.ballot, self.parts or "-", repr(self.received_at.timestamp())
        return "\n".join(("sedml-receipt/1", *said, "")).encode()


class LogLine(Document):
    """Who did what when: what a log keeps from others behind a salted hash."""

    at: Annotated[float, Field(ge=0, lt=2**36)]
    """Seconds since 1970."""
    actor: str
    action: str
    subject: str
    outcome: str
    salt: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2})*$")]


class LogEntry(Document):
    """An entry of a log, as far as the caller may know it."""

    number: int
    entry: str | None = None
    """JSON that everybody may know; empty if there is nothing of the kind."""
    line: Digest | None = None
    """A salted hash of the line."""
    leaf: Digest | None = None
    """The hash of the entry as it was written, for operators; in place of both, of a job of another requester."""
    opened: LogLine | None = None
    """The line, for operators, and for whom it names."""


class LogPage(Document):
    """Entries of a log, oldest first; ask again after the last number."""

    server: ServerName
    entries: Annotated[list[LogEntry], FailFast()]
    more: bool = Field(default=False)
    size: int
    """How many entries there are in all."""


class RestoredLog(Document):
    """The log of the other server that an operator accepts, as it was put back."""

    size: Annotated[int, Field(ge=0, lt=2**62)]
    root: Digest


class LogHead(Document):
    """How far a log goes: the newest checkpoint that the other server has cosigned."""

    server: ServerName
    checkpoint: Note
    consistency: Proof
    """From the size that was asked about to this one."""
    certificates: dict[ServerName, Annotated[str, Field(max_length=16_384)]]
    """Of the keys that sign the logs."""
    conflict: Note | None = None
    """A checkpoint of the other server that does not extend its earlier ones; this server does not cosign it."""
    proven: Annotated[int, Field(ge=0, lt=2**62)] | None = None
    """How many of its first entries are proven to be what they were."""
    forks: Annotated[list[Note], FailFast(), Field(max_length=64)] = []
    """The first such checkpoints that the other server has signed. One that is of no log of its is of a second one."""
