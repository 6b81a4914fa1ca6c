"""The public data of a job, which opens its vote: taken in as its terms say, and handed out as often as wanted."""

from __future__ import annotations

from pathlib import Path

from sedml.errors import NotFoundError, StoreError, TermsMismatchError
from sedml.files import flush
from sedml.files.digest import size_and_sha256
from sedml.service.messages import JobStatus
from sedml.service.server.access import Caller, confirm, require
from sedml.service.server.jobs.lifecycle import status_of
from sedml.service.server.jobs.records import Record, move, owned, visible
from sedml.service.server.node import Node
from sedml.service.states import ENDED, JobState, wrong_state


def expect(node: Node, caller: Caller, job: str) -> int:
    """How many bytes of public data the owner has to send."""
    require(caller, "requester")
    with node.store.read() as connection:
        record = owned(connection, caller, job)
    if record.state in ENDED:
        raise wrong_state(record.state, "take public data")
    return record.terms.data_bytes


def accept(node: Node, caller: Caller, job: str, file: Path) -> tuple[JobStatus, bool]:
    """Take a complete upload, check it against the terms, and open the vote; whether it is new.

    If the file is still there afterwards, it is not needed: whoever calls removes it.
    """
    require(caller, "requester")
    with node.store.read() as connection:
        terms = owned(connection, caller, job).terms
    if _kept(file) != (terms.data_bytes, terms.data_sha256):
        raise TermsMismatchError(
            "The public data does not have the size and fingerprint of the terms.",
            "Send exactly the file that the job was created with.",
        )
    with node.store.write() as connection:
        confirm(connection, caller)
        record = owned(connection, caller, job, "update")
        new = record.state is JobState.CREATED
        if new or _may_be_missing(node, record):
            file.replace(node.data_of(job))
            flush(node.public_data)
        if new:
            record = move(connection, node, record, "publish", caller.name)
        return status_of(node, connection, record), new


def _may_be_missing(node: Node, record: Record) -> bool:
    """A restored backup may have the job and not its data."""
    return record.state not in ENDED and not node.data_of(record.id).exists()


def file_of(node: Node, caller: Caller, job: str) -> Path:
    """Where the public data of a job lies."""
    require(caller, "teacher", "requester", "operator")
    with node.store.read() as connection:
        visible(connection, caller, job)
    path = node.data_of(job)
    if not path.exists():
        raise NotFoundError("The public data of this job is not here.", "It was not uploaded yet, or is deleted.")
    return path


def _kept(file: Path) -> tuple[int, str]:
    """The size and the SHA-256 of an upload that is on disk: it must outlive a power cut as the state that says so."""
    try:
        flush(file)
        return size_and_sha256(file)
    except OSError as error:
        raise StoreError(
            f"An upload cannot be read again ({error.strerror}).", "Check the disk; send it again."
        ) from None
