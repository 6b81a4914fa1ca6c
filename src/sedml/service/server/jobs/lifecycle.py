"""A job from its creation to its deletion, as its requester drives it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa

from sedml.errors import (
    DeadlineError,
    ForbiddenError,
    JobStateError,
    NotFoundError,
    RateLimitedError,
    SedmlError,
    TaskError,
    TermsMismatchError,
    counted,
)
from sedml.release import release_hash
from sedml.service.messages import JobProof, JobStatus
from sedml.service.server import data_room, public_log
from sedml.service.server.access import Caller, confirm, require
from sedml.service.server.jobs import charges, retention
from sedml.service.server.jobs.records import Record, extra_attempts, find, get, no_such_job, owned, tell, visible
from sedml.service.server.jobs.remaining_time import seconds_left
from sedml.service.server.node import Node, at, now
from sedml.service.server.storage.tables import SCHEMA, ballots, blocks, jobs
from sedml.service.states import UNFINISHED, JobState, wrong_state
from sedml.service.terms import Terms, check_terms

NOT_ASKED = -1
"""In place of a size that a log was seen at: no proof is wanted."""

# Built once: every teacher's look at a job needs it.
_NAMES = sa.select(ballots.c.teacher, ballots.c.name).where(
    ballots.c.job == sa.bindparam("job"), ballots.c.teacher.in_(sa.bindparam("teachers", expanding=True))
)


def create(node: Node, caller: Caller, job: str, terms: Terms) -> tuple[JobStatus, bool]:
    """Put a job on record under the hash of its terms; whether it is new."""
    require(caller, "requester")
    if terms.id != job:
        raise TermsMismatchError(
            "The terms do not match the job's id, which must be their hash.",
            "Compute the id from the terms; if you did not write them, do not trust the person who gave them to you.",
        )
    if terms.requester != caller.name:
        raise ForbiddenError("The terms name another requester.", f"Put {caller.name} into them.")
    with node.store.read() as connection:
        known = find(connection, job) is not None
        if not known:
            _check_room(node, connection, caller, job)
    if not known:
        # Takes a while, and so neither a connection nor a lock.
        _check_new(node, terms)
    with node.store.write() as connection:
        confirm(connection, caller)
        # One creates after the other, so that the count below holds until this job is on record. One that is known has
        # no need of that, and must not wait for it: votes have the row of their job first, then the end of the log.
        if new := find(connection, job) is None:
            connection.execute(sa.select(SCHEMA.versions).with_for_update())
            new = find(connection, job) is None
        if new:
            _check_room(node, connection, caller, job)
            data_room.check_requester(node, connection, terms)
            data_room.check_disk(node, terms.data_bytes)
            values = {
                "id": job,
                "owner": caller.name,
                "terms": terms.model_dump_json(),
                "state": JobState.CREATED.value,
                "created_at": now(node),
                "moved_at": now(node),
                "expires_at": terms.deadline + node.settings.grace,
            }
            told = {"kind": "job", "job": job, "cohort": terms.cohort}
            number = public_log.write(connection, node, caller.name, "create", job, JobState.CREATED.value, told)
            connection.execute(sa.insert(jobs).values(**values, entry=number, due=number))
            tell(connection, "job.state", job=job, before=None, after=JobState.CREATED, by=caller.name, why=None)
        answer = status_of(node, connection, get(connection, job))
    node.wake()  # there is something to cosign
    return answer, new


def status(node: Node, caller: Caller, job: str, seen: int = NOT_ASKED) -> JobStatus:
    """A job as this server sees it; with proof that it is in the log, for whoever has seen `seen` entries of that."""
    if caller.role == "teacher":
        [found] = teachers_statuses(node, [(caller, job, seen)])
        if isinstance(found, SedmlError):
            raise found
        return found
    with node.store.read() as connection:
        record = visible(connection, caller, job)
        answer, key = status_of(node, connection, record), (record.entry, seen)
        proofs = public_log.proofs(node, connection, [] if seen == NOT_ASKED else [key])
        return answer.model_copy(update={"log": proofs.get(key)})


def teachers_statuses(node: Node, asked: Sequence[tuple[Caller, str, int]]) -> list[JobStatus | SedmlError]:
    """Jobs as teachers may see them, each with the name of the teacher's own ballot, in one look at the store."""
    by_job: dict[str, set[str]] = {}
    for caller, job, _ in asked:
        require(caller, "teacher")
        by_job.setdefault(job, set()).add(caller.name)
    names: dict[tuple[str, str], str] = {}
    with node.store.read() as connection:
        records = {job: find(connection, job) for job in by_job}
        for job, teachers in by_job.items():
            for teacher, name in connection.execute(_NAMES, {"job": job, "teachers": list(teachers)}):
                names[job, teacher] = name
        known = ((records[job], seen) for _, job, seen in asked if seen != NOT_ASKED)
        proofs = public_log.proofs(node, connection, ((record.entry, seen) for record, seen in known if record))
    return [
        no_such_job()
        if record is None
        else _teachers_status(node, record, names.get((job, caller.name)), proofs.get((record.entry, seen)))
        for caller, job, seen in asked
        for record in (records[job],)
    ]


def _teachers_status(node: Node, record: Record, ballot: str | None, proof: JobProof | None) -> JobStatus:
    state = JobState.CLOSED if record.state in (JobState.RUNNING, JobState.DONE) else record.state
    # How a job goes is for its requester and the operators.
    return JobStatus.model_validate(_for_all(node, record) | {"state": state, "ballot": ballot, "log": proof})


def _for_all(node: Node, record: Record) -> dict[str, object]:
    """What everybody who knows of a job may know of it."""
    return {
        "id": record.id,
        "server": node.kit.name,
        "terms": record.terms,
        "votes": record.votes,
        "created_at": at(record.created_at),
        "closed_at": at(record.closed_at),
        "expires_at": at(record.expires_at),
    }


def close(node: Node, caller: Caller, job: str) -> JobStatus:
    """End the vote; a job whose vote has ended stays as it is."""
    require(caller, "requester")
    with node.store.write() as connection:
        confirm(connection, caller)
        record = owned(connection, caller, job, "update")
        if record.state in (JobState.CREATED, JobState.OPEN):  # the first of which the table refuses
            record = retention.close(connection, node, record, caller.name)
        answer = status_of(node, connection, record)
    node.wake()
    return answer


def delete(node: Node, caller: Caller, job: str) -> JobStatus:
    """Delete shares and public data of a job; an unfinished one ends by it."""
    require(caller, "requester", "operator")
    with node.store.write() as connection:
        confirm(connection, caller)
        find_one = partial(owned, connection, caller) if caller.role == "requester" else partial(get, connection)
        record = find_one(job, "update")
        if record.state is JobState.RUNNING:
            raise JobStateError("The job is running and cannot be deleted now.", "Wait until it has ended.")
        record = retention.end(connection, node, record, caller.name)
        answer = status_of(node, connection, record)
    charges.cancel(node, record.id, record.terms)
    retention.purge(node)
    return answer


def label_share(node: Node, caller: Caller, job: str, block: int) -> bytes:
    """This server's share of the labels of a block, for the requester alone; not before that is on record."""
    require(caller, "requester")
    with node.store.read() as connection:
        record = owned(connection, caller, job)
        if record.state is not JobState.DONE:
            raise wrong_state(record.state, "hand out labels")
        public_log.check_cosigned(node, connection, record.due)
        here = blocks.c.job == job, blocks.c.block == block, blocks.c.state == "final"
        sealed = connection.execute(sa.select(blocks.c.sealed_labels).where(*here)).scalar_one_or_none()
    if sealed is None:
        what = "Its labels were deleted." if record.deleted else f"The job has no block {block}."
        raise NotFoundError(what, "Ask for a block that `sedml job status` counts.")
    labels = node.vault.open(job, f"labels/{block}", bytes(sealed))
    if not node.fetches.continues(job, block):
        public_log.record(node, caller.name, "fetch", job, f"from block {block}")
        node.fetches.begin(job, block)
    return labels


def status_of(node: Node, connection: sa.Connection, record: Record, *, budgeted: bool = True) -> JobStatus:
    """What is on record of a job, as the document that callers get; with its cohort's budget, if wanted."""
    task = record.task
    here, done = blocks.c.job == record.id, blocks.c.state == "final"
    sums = [sa.func.count(), sa.func.sum(blocks.c.samples), sa.func.sum(blocks.c.seconds)]
    totals = connection.execute(sa.select(*sums).where(here, done)).one()
    blocks_done, samples, seconds = (value or 0 for value in totals)
    known = record.terms.cohort in node.settings.budgets  # the operator may have taken it out since
    deleted_at, deleted_by = (public_log.deletion(connection, record.id) if record.deleted else None) or (None, None)
    return JobStatus.model_validate(
        _for_all(node, record)
        | {
            "state": record.state,
            "roster": record.roster,
            "task": None if task is None else task.id.hex(),
            "blocks": 0 if task is None else task.block_count,
            "blocks_done": blocks_done,
            "samples_done": samples,
            "extra_attempts": extra_attempts(connection, record.id),
            "protocol_seconds": seconds,
            "eta_seconds": seconds_left(connection, record) if record.state is JobState.RUNNING else None,
            "finished_at": at(record.finished_at),
            "deleted": record.deleted,
            "deleted_at": at(deleted_at),
            "deleted_by": deleted_by,
            "budget": charges.cohort_status(node, record.terms.cohort) if budgeted and known else None,
            "problem": record.problem,
        }
    )


def _check_room(node: Node, connection: sa.Connection, caller: Caller, job: str) -> None:
    """Raise unless there may be this unfinished job besides the others, here and of this requester."""
    # The job itself may just have been put on record: lost answers are asked for again.
    others = jobs.c.state.in_(UNFINISHED), jobs.c.id != job
    owners = connection.execute(sa.select(jobs.c.owner).where(*others)).scalars().all()
    limits = node.settings
    for whose, found, most in (
        ("You have", owners.count(caller.name), limits.max_open_jobs_per_requester),
        ("This server has", len(owners), limits.max_open_jobs),
    ):
        if found >= most:
            raise RateLimitedError(
                f"{whose} {counted(found, 'unfinished job')} here, and there may be no more than {most}.",
                "Run or delete some of them first.",
            )


def _check_new(node: Node, terms: Terms) -> None:
    """Raise unless this server takes on a job of these terms."""
    limits = node.settings
    for what, asked, least, most in (
        ("has {:,} samples", terms.samples, 1, limits.max_samples),
        ("has {:,} classes", terms.classes, 2, limits.max_classes),
        ("has ballots of {:,} bytes", max(terms.ballot.sizes), 1, limits.max_ballot_bytes),
        ("has {:,} bytes of public data", terms.data_bytes, 1, limits.max_data_bytes),
        ("asks for at least {:,} teachers", terms.min_teachers, limits.min_teachers, limits.max_teachers),
        ("has a sigma of {:g}", terms.sigma, limits.min_sigma, limits.max_sigma),
    ):
        if not least <= asked <= most:
            raise TaskError(
                f"The job {what.format(asked)}; this server takes {least:,.12g} to {most:,.12g}.",
                "Change the job, or ask the operators of both servers to allow it.",
            )
    if terms.deadline <= now(node):
        raise DeadlineError("The deadline of the job is in the past.", "Set a later one, and check your clock.")
    if terms.deadline > now(node) + limits.max_deadline:
        days = limits.max_deadline / 86_400
        raise TaskError(f"The deadline of the job is more than {days:,.4g} days away.", "Set an earlier one.")
    release = release_hash()
    if terms.releases is not None and (said := terms.releases[node.kit.role]) != release:
        raise TermsMismatchError(
            f"{node.kit.name.upper()} runs release {release}, and the terms say {said}.",
            "If it was upgraded just now, create the job again. `sedml doctor` shows what both servers say they run.",
        )
    check_terms(terms)
    charges.check_affordable(node, terms)
