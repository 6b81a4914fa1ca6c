"""What a job takes in while its vote is open: the public data, and one ballot a teacher.

A half of a ballot is examined when it arrives (`sedml.protocol.ballots`), and taken only under the name that this
server computes from it. A ballot counts once or not at all. The first one a teacher sends is the one on record: the
same one again gets the same receipt, also after the vote has closed, and another one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import sqlalchemy as sa

from sedml.errors import (
    BallotError,
    BodyTooLargeError,
    BodyTruncatedError,
    ConflictError,
    DeadlineError,
    MalformedRequestError,
    NoRoomForVotesError,
    NotCosignedError,
    NotFoundError,
    RateLimitedError,
    RevokedError,
    SedmlError,
    StoreError,
    TermsMismatchError,
)
from sedml.files import flush
from sedml.files.digest import size_and_sha256
from sedml.protocol.ballots import examine
from sedml.service.messages import JobStatus, Receipt
from sedml.service.server import data_room, public_log
from sedml.service.server.access import Caller, confirm, require, unconfirmed
from sedml.service.server.jobs import charges
from sedml.service.server.jobs.lifecycle import status_of
from sedml.service.server.jobs.records import Record, find, get, move, no_such_job, owned, terms_of, update, visible
from sedml.service.server.node import Node, at, now
from sedml.service.server.storage.tables import ballot_pages, ballots
from sedml.service.server.storage.vault import page_label
from sedml.service.states import ENDED, JobState, wrong_state
from sedml.service.terms import HEX64

__all__ = [
    "Arrived",
    "accept_ballot",
    "accept_ballots",
    "accept_data",
    "data_file",
    "expect_ballot",
    "expect_data",
    "receipt",
]

_Row: TypeAlias = Mapping[Any, Any]
"""A row of the table of ballots, or of their pages."""
_Pages: TypeAlias = tuple[memoryview, ...]
_OWNERS = ("teacher", "organisation", "parts")
_Known: TypeAlias = dict[tuple[str, str | None], _Row]
"""Rows by each of these: whoever is the same in any of them has voted."""

_PAGES_TOGETHER = 64
"""Pages that are sealed and inserted at a time: what a large ballot takes of memory."""

# Built once: every ballot needs them.
_INSERT = sa.insert(ballots)
_INSERT_PAGES = sa.insert(ballot_pages)
_ON_RECORD = sa.select(
    ballots.c.job, ballots.c.teacher, ballots.c.organisation, ballots.c.parts, ballots.c.name, ballots.c.received_at
).where(
    ballots.c.job == sa.bindparam("job"),
    sa.or_(
        *(column.in_(sa.bindparam(column.name, expanding=True)) for column in (ballots.c[kind] for kind in _OWNERS))
    ),
)


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


@dataclass(frozen=True)
class Arrived:
    """This server's half of a ballot, as it came."""

    caller: Caller
    job: str
    name: str
    """Of the ballot, as the teacher says."""
    body: bytes = field(repr=False)
    parts: str | None = None
    """What names the parts of its data that it votes with."""


def expect_ballot(node: Node, caller: Caller, job: str, name: str) -> int:
    """How many bytes this server's half of a ballot has; raises if none would be taken."""
    require(caller, "teacher")
    _check_name(name)
    with node.store.read() as connection:
        record = get(connection, job)
        new = ("teacher", caller.name) not in _on_record(connection, job, [caller], [])
    size = record.terms.ballot.sizes[node.role]
    if new:
        _check_open(node, record)
        data_room.check_votes(node, size)
        for refusal in charges.uncountable(node, job, record.terms, [caller.organisation]).values():
            raise refusal
    return size


def accept_ballot(
    node: Node, caller: Caller, job: str, name: str, body: bytes, parts: str | None = None
) -> tuple[Receipt, bool]:
    """Put this server's half of a ballot on disk; whether it is new."""
    [outcome] = accept_ballots(node, [Arrived(caller, job, name, body, parts)])
    if isinstance(outcome, SedmlError):
        raise outcome
    return outcome


def accept_ballots(node: Node, arrived: Sequence[Arrived]) -> list[tuple[Receipt, bool] | SedmlError]:
    """Put halves of ballots on disk, all in one transaction; for each, whether it is new, or why it was not taken.

    When this returns they are there. If it raises, none of them were taken.
    """
    outcomes: dict[int, tuple[Receipt, bool] | SedmlError] = {}
    by_job: dict[str, dict[int, Arrived]] = {}
    for number, one in enumerate(arrived):
        try:
            require(one.caller, "teacher")
            _check_name(one.name)
        except SedmlError as error:
            outcomes[number] = error
        else:
            by_job.setdefault(one.job, {})[number] = one
    refused = {job: _uncountable(node, job, here.values()) for job, here in by_job.items()}
    pages = {number: _examined(node, one) for here in by_job.values() for number, one in here.items()}
    if by_job:
        with node.store.write() as connection:
            revoked = unconfirmed(connection, (one.caller for here in by_job.values() for one in here.values()))
            rows: dict[int, _Row] = {}
            full = _full(node, arrived)
            for job in sorted(by_job):  # always in this order: two servers that share a store wait for each other
                outcomes |= _take(node, connection, job, by_job[job], pages, refused[job] | revoked, full, rows)
            if rows:
                connection.execute(_INSERT, list(rows.values()))
                sealed = _sealed(node, rows, pages)
                while some := list(islice(sealed, _PAGES_TOGETHER)):
                    connection.execute(_INSERT_PAGES, some)
                public_log.write_all(connection, node, [(row["teacher"], row["job"]) for row in rows.values()], "vote")
    return [outcomes[number] for number in range(len(arrived))]


def _take(
    node: Node,
    connection: sa.Connection,
    job: str,
    here: Mapping[int, Arrived],
    pages: Mapping[int, _Pages | SedmlError],
    refused: Mapping[Caller, SedmlError],
    full: NoRoomForVotesError | None,
    rows: dict[int, _Row],
) -> dict[int, tuple[Receipt, bool] | SedmlError]:
    """What becomes of these ballots of one job, whose row is locked; those that are new go to `rows`."""
    record = find(connection, job, "update")
    if record is None:
        return {number: no_such_job() for number in here}
    known = _on_record(connection, job, [one.caller for one in here.values()], [one.parts for one in here.values()])
    not_now = _uncosigned(node, connection, record) or full
    outcomes: dict[int, tuple[Receipt, bool] | SedmlError] = {}
    before = len(rows)
    for number, one in here.items():
        try:
            votes = record.votes + len(rows) - before
            row, new = _judge(node, record, one, pages[number], known, refused, votes, not_now)
        except SedmlError as error:
            outcomes[number] = error
            continue
        if new:
            rows[number] = row
            known |= _by_owner([row])
        outcomes[number] = _receipt(node, row), new
    if len(rows) > before:
        update(connection, job, votes=record.votes + len(rows) - before)
    return outcomes


def _judge(
    node: Node,
    record: Record,
    one: Arrived,
    pages: _Pages | SedmlError,
    known: _Known,
    refused: Mapping[Caller, SedmlError],
    votes: int,
    not_now: SedmlError | None,
) -> tuple[_Row, bool]:
    """The row of a ballot, and whether it is new; raises if it is not taken."""
    refusal = refused.get(one.caller)
    if isinstance(refusal, RevokedError):
        raise refusal
    if isinstance(pages, SedmlError):
        raise pages
    own = known.get(("teacher", one.caller.name))
    if own is not None:
        if own["name"] != one.name:
            raise ConflictError(
                "Another ballot of yours is on record for this job, and it stands.",
                "A teacher votes once; there is nothing to do if that was your vote.",
            )
        return own, False
    _check_open(node, record)
    if not_now is not None:
        raise not_now
    _check_once(one, known)
    if refusal is not None:
        raise refusal
    if votes >= node.settings.max_teachers:
        raise RateLimitedError(
            "This job already has as many ballots as this server takes.", "Ask its operator for more."
        )
    return {
        "job": one.job,
        "teacher": one.caller.name,
        "organisation": one.caller.organisation,
        "parts": one.parts,
        "name": one.name,
        "received_at": now(node),
    }, True


def _uncosigned(node: Node, connection: sa.Connection, record: Record) -> NotCosignedError | None:
    """Why no vote on a job is taken yet: the other server has not cosigned that it is in the log."""
    try:
        public_log.check_cosigned(node, connection, record.due)
    except NotCosignedError as error:
        return error
    return None


def _full(node: Node, arrived: Iterable[Arrived]) -> NoRoomForVotesError | None:
    """Why none of these is taken if it is new: together they are too many for the disk."""
    try:
        data_room.check_votes(node, sum(len(one.body) for one in arrived))
    except NoRoomForVotesError as error:
        return error
    return None


def _check_once(one: Arrived, known: _Known) -> None:
    """Raise if the same organisation, or the same parts of its data, voted under another account."""
    if ("organisation", one.caller.organisation) in known:
        raise ConflictError(
            "Your organisation has voted on this job under another account, and that vote stands.",
            "An organisation votes once, with a vote for each part of its data.",
        )
    if ("parts", one.parts) in known:
        raise ConflictError(
            "The parts of the data that you vote with have voted on this job under another account.",
            "Data votes once. If two organisations share it, only one of them may vote with it.",
        )


def _examined(node: Node, one: Arrived) -> _Pages | SedmlError:
    """What is kept of each page of a half; or why it is not taken, as if it came under another name than its own."""
    terms = terms_of(node, one.job)
    if terms is None:
        return no_such_job()
    size = terms.ballot.sizes[node.role]
    if len(one.body) != size:
        kind = BodyTruncatedError if len(one.body) < size else BodyTooLargeError
        return kind("The ballot does not have the size that the job's terms give it.", "Cast it for these terms again.")
    try:
        examined = examine(node.role, one.body, terms.ballot, bytes.fromhex(one.job), one.caller.name)
    except BallotError as error:
        return error
    if examined.name.hex() != one.name:
        return BallotError(
            "The ballot does not prove that it keeps to its votes a sample, or was cast for something else.",
            "Cast it for this job with this account, and with the release of sedml that the servers run.",
        )
    return examined.pages


def _sealed(node: Node, rows: Mapping[int, _Row], pages: Mapping[int, _Pages | SedmlError]) -> Iterator[_Row]:
    """The rows of all pages of these ballots, each sealed when it is asked for."""
    for number, row in rows.items():
        kept = pages[number]
        for page, part in enumerate(() if isinstance(kept, SedmlError) else kept):
            sealed = node.vault.seal(row["job"], page_label(row["teacher"], page), part)
            yield {"job": row["job"], "page": page, "teacher": row["teacher"], "sealed": sealed}


def receipt(node: Node, caller: Caller, job: str) -> Receipt:
    """What the caller's own ballot was acknowledged with."""
    require(caller, "teacher")
    with node.store.read() as connection:
        get(connection, job)
        row = _on_record(connection, job, [caller], []).get(("teacher", caller.name))
    if row is None:
        raise NotFoundError("This server has no ballot of yours for this job.", "Cast it with `sedml vote`.")
    return _receipt(node, row)


def _check_name(name: str) -> None:
    if not re.fullmatch(HEX64, name):
        raise MalformedRequestError("The name of the ballot is malformed.", "Send 64 hexadecimal digits.")


def _check_open(node: Node, record: Record) -> None:
    if record.state is not JobState.OPEN:
        raise wrong_state(record.state, "take votes")
    if now(node) > record.terms.deadline:
        raise DeadlineError("The time for voting on this job is over.", "It is too late for this job; look for others.")


def _uncountable(node: Node, job: str, arrived: Iterable[Arrived]) -> dict[Caller, SedmlError]:
    """Those whose ballots could not be counted if they are new; before any lock is taken, as it may take a moment."""
    terms = terms_of(node, job)
    if terms is None:
        return {}
    callers = {one.caller for one in arrived}
    reasons = charges.uncountable(node, job, terms, {caller.organisation for caller in callers})
    return {caller: reasons[caller.organisation] for caller in callers if caller.organisation in reasons}


def _on_record(
    connection: sa.Connection, job: str, callers: Collection[Caller], parts: Collection[str | None]
) -> _Known:
    """What is on record of the ballots of these teachers, of their organisations and of these parts, without pages."""
    asked = {
        "teacher": list({caller.name for caller in callers}),
        "organisation": list({caller.organisation for caller in callers}),
        "parts": list({one for one in parts if one is not None}),
    }
    return _by_owner(connection.execute(_ON_RECORD, {"job": job, **asked}).mappings())


def _by_owner(rows: Iterable[_Row]) -> _Known:
    return {(kind, row[kind]): row for row in rows for kind in _OWNERS if row[kind] is not None}


def _receipt(node: Node, row: _Row) -> Receipt:
    receipt = Receipt.model_validate(
        {
            "job": row["job"],
            "teacher": row["teacher"],
            "server": node.kit.name,
            "ballot": row["name"],
            "parts": row["parts"],
            "received_at": at(row["received_at"]),
        }
    )
    return receipt.model_copy(update={"signature": node.kit.log_signer.key.sign(receipt.text).hex()})


def _data_path(node: Node, job: str) -> Path:
    return node.public_data / f"{job}.data"


def _kept(file: Path) -> tuple[int, str]:
    """The size and the SHA-256 of an upload that is on disk: it must outlive a power cut as the state that says so."""
    try:
        flush(file)
        return size_and_sha256(file)
    except OSError as error:
        raise StoreError(
            f"An upload cannot be read again ({error.strerror}).", "Check the disk; send it again."
        ) from None
