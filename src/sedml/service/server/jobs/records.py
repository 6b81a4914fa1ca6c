"""A job on record: read, locked and moved along the table of `sedml.service.states`."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import sqlalchemy as sa
import structlog

from sedml.errors import NotFoundError, StoreError
from sedml.protocol.task import Task
from sedml.service.messages import Problem, Roster
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.node import Node, now
from sedml.service.server.storage.tables import blocks, jobs
from sedml.service.states import ENDED, ENDED_WITHOUT_RESULT, Event, JobState, after
from sedml.service.terms import Terms, task_of

Lock = Literal["none", "update"]

_log = structlog.get_logger("sedml.jobs")

# Built once: every ballot and every look at a job needs one.
_ONE = sa.select(jobs).where(jobs.c.id == sa.bindparam("job"))
_FIND: dict[Lock, sa.Select[Any]] = {"none": _ONE, "update": _ONE.with_for_update()}


_seen: dict[str, Terms] = {}
_MOST_SEEN = 256


@dataclass(frozen=True)
class Record:
    """A row of the table of jobs, without its secrets."""

    id: str
    owner: str
    terms: Terms
    state: JobState
    votes: int
    """Ballots that arrived here."""
    created_at: float
    closed_at: float | None
    finished_at: float | None
    expires_at: float
    moved_at: float
    roster: Roster | None
    problem: Problem | None
    inputs_deleted: bool
    deleted: bool
    entry: int
    """Where in the log it was put on record."""
    due: int
    """Its newest entry that must be cosigned before it goes on."""

    @property
    def task(self) -> Task | None:
        """The task, once the roster is agreed."""
        return None if self.roster is None else _task(self.terms, self.roster.teachers, self.roster.digest)


def find(connection: sa.Connection, job: str, lock: Lock = "none") -> Record | None:
    """The job, locked against others that lock it; SQLite's writers exclude each other anyway."""
    row = connection.execute(_FIND[lock], {"job": job}).mappings().one_or_none()
    return None if row is None else _record(row)


def get(connection: sa.Connection, job: str, lock: Lock = "none") -> Record:
    """The job; raises if there is none."""
    record = find(connection, job, lock)
    if record is None:
        raise no_such_job()
    return record


def terms_of(node: Node, job: str) -> Terms | None:
    """The terms of a job, if it was ever here. Its id is their hash, so they are the same for good."""
    if (known := _seen.get(job)) is not None:
        return known
    with node.store.read() as connection:
        record = find(connection, job)
    if record is None:
        return None
    if len(_seen) >= _MOST_SEEN:
        _seen.clear()
    _seen[job] = record.terms
    return record.terms


def no_such_job() -> NotFoundError:
    """The error for a job that is not here, or that the caller may not know of."""
    return NotFoundError("There is no such job here.", "Check its id with `sedml job list`.")


def visible(connection: sa.Connection, caller: Caller, job: str) -> Record:
    """The job, if the caller may know of it: a requester knows of its own only."""
    record = get(connection, job)
    if caller.role == "requester" and record.owner != caller.name:
        raise no_such_job()
    return record


def owned(connection: sa.Connection, caller: Caller, job: str, lock: Lock = "none") -> Record:
    """The job, if it is the caller's own."""
    record = get(connection, job, lock)
    if record.owner != caller.name:
        raise NotFoundError("You have no such job here.", "Check its id with `sedml job list`.")
    return record


def in_states(connection: sa.Connection, states: Collection[JobState]) -> list[Record]:
    """All jobs in these states, oldest first."""
    query = sa.select(jobs).where(jobs.c.state.in_(states)).order_by(jobs.c.created_at, jobs.c.id)
    return [_record(row) for row in connection.execute(query).mappings()]


def move(
    connection: sa.Connection,
    node: Node,
    record: Record,
    event: Event,
    actor: str,
    entry: Mapping[str, object] | None = None,
    **values: object,
) -> Record:
    """Along the table, in a transaction that has locked the job; `entry` is what everybody may know of it."""
    state = after(record.state, event)
    if state in ENDED:
        values["finished_at"] = now(node)
    if state in ENDED_WITHOUT_RESULT:  # what was saved is for nobody any more
        free_data(node, record.id)
        connection.execute(sa.update(blocks).where(blocks.c.job == record.id).values(sealed_labels=None))
    doubted = node.time.doubt() is not None
    number = public_log.write(
        connection, node, actor, event, record.id, state.value, entry or _entry(connection, record.id, state)
    )
    if event in ("start", "finish"):
        values["due"] = number
    update(connection, record.id, state=state.value, moved_at=now(node), times_doubted=doubted, **values)
    why = _why(values.get("problem"))
    tell(connection, "job.state", job=record.id, before=record.state, after=state, by=actor, why=why)
    return get(connection, record.id)


def _entry(connection: sa.Connection, job: str, state: JobState) -> dict[str, object] | None:
    """What everybody may know of a move: that labels are ready for the requester, or that there are none."""
    if state not in ENDED:
        return None
    if state is JobState.DONE:
        return {"kind": "labels", "job": job}
    begun = connection.execute(sa.select(blocks.c.job).where(blocks.c.job == job, blocks.c.attempt > 0).limit(1))
    return {"kind": "end", "job": job, "state": state.value, "charged": begun.first() is not None}


def free_data(node: Node, job: str) -> None:
    """Delete the public data of a job that has ended, ahead of anything that is written: the disk may be full.

    If that write fails all the same, and the job goes on, its owner can upload them again.
    """
    node.data_of(job).unlink(missing_ok=True)


def tell(connection: sa.Connection, event: str, **what: object) -> None:
    """A line in the log about a job, when the transaction that makes it true is committed."""

    def write(_: sa.Connection) -> None:
        bad = what.get("after") in (JobState.REFUSED, JobState.FAILED)
        _log.log(logging.WARNING if bad else logging.INFO, event, **what)

    sa.event.listen(connection, "commit", write, once=True)


def _why(problem: object) -> str | None:
    return Problem.model_validate_json(problem).title if isinstance(problem, str) else None


def extra_attempts(connection: sa.Connection, job: str) -> int:
    """How many attempts a job has had beyond one for each block, by their numbers: never fewer than there were."""
    begun = blocks.c.job == job, blocks.c.attempt > 1
    return int(connection.execute(sa.select(sa.func.sum(blocks.c.attempt - 1)).where(*begun)).scalar_one() or 0)


def update(connection: sa.Connection, job: str, **values: object) -> None:
    """Write columns of a job."""
    connection.execute(sa.update(jobs).where(jobs.c.id == job).values(**values))


@lru_cache(maxsize=256)
def _terms(job: str, text: str) -> Terms:
    terms = Terms.model_validate_json(text)
    if terms.id != job:
        raise StoreError("The terms of a job were changed in the store.", "Restore the newest backup.")
    return terms


@lru_cache(maxsize=256)
def _task(terms: Terms, teachers: int, digest: str) -> Task:
    return task_of(terms, teachers, digest)


def _record(row: sa.RowMapping) -> Record:
    roster = None
    if row["roster_digest"] is not None:
        roster = Roster(teachers=row["roster_teachers"], digest=row["roster_digest"])
    return Record(
        id=row["id"],
        owner=row["owner"],
        terms=_terms(row["id"], row["terms"]),
        state=JobState(row["state"]),
        votes=row["votes"],
        created_at=row["created_at"],
        closed_at=row["closed_at"],
        finished_at=row["finished_at"],
        expires_at=row["expires_at"],
        moved_at=row["moved_at"],
        roster=roster,
        problem=None if row["problem"] is None else Problem.model_validate_json(row["problem"]),
        inputs_deleted=row["inputs_deleted"],
        deleted=row["deleted"],
        entry=row["entry"],
        due=row["due"],
    )
