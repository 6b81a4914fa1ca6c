"""What a job takes in while its vote is open: the public data, and one ballot a teacher.

A ballot counts once or not at all. The first one a teacher sends is the one on record: the same bytes again get the
same receipt, also after the vote has closed, and other bytes are refused.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from sedml.errors import (
    BodyTooLargeError,
    BodyTruncatedError,
    ConflictError,
    DeadlineError,
    MalformedRequestError,
    NotFoundError,
    RateLimitedError,
    StoreError,
    TermsMismatchError,
)
from sedml.files import flush
from sedml.service.messages import JobStatus, Receipt
from sedml.service.server import audit_log, charges
from sedml.service.server.access import Caller, confirm, require
from sedml.service.server.jobs import status_of
from sedml.service.server.node import Node, at, now
from sedml.service.server.records import Record, get, move, owned, update, visible
from sedml.service.server.tables import ballots
from sedml.service.states import ENDED, JobState, wrong_state
from sedml.service.terms import HEX32

__all__ = [
    "accept_ballot",
    "accept_data",
    "data_file",
    "expect_ballot",
    "expect_data",
    "receipt",
]


def expect_data(node: Node, caller: Caller, job: str) -> int:
    """How many bytes of public data the owner has to send."""
    require(caller, "requester")
    with node.store.read() as connection:
        record = owned(connection, caller, job)
    if record.state in ENDED:
        raise wrong_state(record.state, "take public data")
    return record.terms.data_bytes


def accept_data(node: Node, caller: Caller, job: str, file: Path) -> tuple[JobStatus, bool]:
    """Take a complete upload, check it against the terms, and open the vote; whether it is new."""
    require(caller, "requester")
    try:
        with node.store.read() as connection:
            terms = owned(connection, caller, job).terms
        size, digest = _fingerprint(file)
        if size != terms.data_bytes or digest != terms.data_sha256:
            raise TermsMismatchError(
                "The public data does not have the size and fingerprint of the terms.",
                "Send exactly the file that the job was created with.",
            )
        with node.store.write() as connection:
            confirm(connection, caller)
            record = owned(connection, caller, job, "update")
            new = record.state is JobState.CREATED
            if new or _may_be_missing(node, record):
                file.replace(_data_path(node, job))
                flush(node.public_data)
            if new:
                record = move(connection, node, record, "publish", caller.name)
            return status_of(node, connection, record), new
    finally:
        file.unlink(missing_ok=True)


def _may_be_missing(node: Node, record: Record) -> bool:
    """A restored backup may have the job and not its data."""
    return record.state not in ENDED and not _data_path(node, record.id).exists()


def data_file(node: Node, caller: Caller, job: str) -> Path:
    """Where the public data of a job lies."""
    require(caller, "teacher", "requester", "operator")
    with node.store.read() as connection:
        visible(connection, caller, job)
    path = _data_path(node, job)
    if not path.exists():
        raise NotFoundError("The public data of this job is not here.", "It was not uploaded yet, or is deleted.")
    return path


def expect_ballot(node: Node, caller: Caller, job: str, submission: str) -> int:
    """How many bytes this server's half of a ballot has; raises if none would be taken."""
    require(caller, "teacher")
    _check_submission(submission)
    with node.store.read() as connection:
        record = get(connection, job)
        if _on_record(connection, job, caller.name) is None:
            _check_open(node, record)
    _check_countable(node, caller, job)
    return record.terms.ballot.sizes[node.role]


def accept_ballot(node: Node, caller: Caller, job: str, submission: str, body: bytes) -> tuple[Receipt, bool]:
    """Put this server's half of a ballot on disk; whether it is new."""
    require(caller, "teacher")
    _check_submission(submission)
    _check_countable(node, caller, job)
    label = f"ballot/{caller.name}"
    digest = node.vault.digest(job, label, body)
    with node.store.write() as connection:
        confirm(connection, caller)
        record = get(connection, job, "update")
        size = record.terms.ballot.sizes[node.role]
        if len(body) != size:
            kind = BodyTruncatedError if len(body) < size else BodyTooLargeError
            raise kind(
                "The ballot does not have the size that the job's terms give it.", "Cast it for these terms again."
            )
        row = _on_record(connection, job, caller.name)
        if row is not None:
            if (row["submission"], row["digest"]) != (submission, digest):
                raise ConflictError(
                    "Another ballot of yours is on record for this job, and it stands.",
                    "A teacher votes once; there is nothing to do if that was your vote.",
                )
            return _receipt(node, row), False
        _check_open(node, record)
        if record.votes >= node.settings.max_teachers:
            raise RateLimitedError(
                "This job already has as many ballots as this server takes.", "Ask its operator for more."
            )
        sealed = node.vault.seal_pages(job, label, body, record.terms.ballot.page_bytes(node.role))
        values = {"job": job, "teacher": caller.name, "submission": submission, "received_at": now(node)}
        connection.execute(sa.insert(ballots).values(sealed_half=sealed, digest=digest, **values))
        update(connection, job, votes=record.votes + 1)
        audit_log.write(connection, node, caller.name, "vote", job)
        return _receipt(node, values), True


def receipt(node: Node, caller: Caller, job: str) -> Receipt:
    """What the caller's own ballot was acknowledged with."""
    require(caller, "teacher")
    with node.store.read() as connection:
        get(connection, job)
        row = _on_record(connection, job, caller.name)
    if row is None:
        raise NotFoundError("This server has no ballot of yours for this job.", "Cast it with `sedml vote`.")
    return _receipt(node, row)


def _check_submission(submission: str) -> None:
    if not re.fullmatch(HEX32, submission):
        raise MalformedRequestError("The name of the submission is malformed.", "Send 32 hexadecimal digits.")


def _check_open(node: Node, record: Record) -> None:
    if record.state is not JobState.OPEN:
        raise wrong_state(record.state, "take votes")
    if now(node) > record.terms.deadline:
        raise DeadlineError("The time for voting on this job is over.", "It is too late for this job; look for others.")


def _check_countable(node: Node, caller: Caller, job: str) -> None:
    """Raise if the caller's ballot could not be counted; before any lock is taken, as it may take a moment."""
    with node.store.read() as connection:
        record = get(connection, job)
        new = record.state is JobState.OPEN and _on_record(connection, job, caller.name) is None
    if new:
        charges.check_teacher(node, job, record.terms, caller.name)


def _on_record(connection: sa.Connection, job: str, teacher: str) -> sa.RowMapping | None:
    columns = ballots.c.job, ballots.c.teacher, ballots.c.submission, ballots.c.digest, ballots.c.received_at
    query = sa.select(*columns).where(ballots.c.job == job, ballots.c.teacher == teacher)
    return connection.execute(query).mappings().one_or_none()


def _receipt(node: Node, row: Mapping[Any, Any]) -> Receipt:
    return Receipt.model_validate(
        {
            "job": row["job"],
            "teacher": row["teacher"],
            "server": node.kit.name,
            "submission": row["submission"],
            "received_at": at(row["received_at"]),
        }
    )


def _data_path(node: Node, job: str) -> Path:
    return node.public_data / f"{job}.data"


def _fingerprint(file: Path) -> tuple[int, str]:
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            # It must outlive a power cut as the state that says it is here does.
            os.fsync(stream.fileno())
            return stream.tell(), digest
    except OSError as error:
        raise StoreError(
            f"An upload cannot be read again ({error.strerror}).", "Check the disk; send it again."
        ) from None
