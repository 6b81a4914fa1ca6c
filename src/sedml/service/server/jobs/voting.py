"""The ballots of a job while its vote is open: one a teacher, counted once or not at all.

A half of a ballot is examined when it arrives (`sedml.protocol.ballots`), and taken only under the name that this
server computes from it. The first one a teacher sends is the one on record (`ballot_rows`): the same one again gets the
same receipt, also after the vote has closed, and another one is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

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
)
from sedml.protocol.ballots import examine
from sedml.service.messages import Receipt
from sedml.service.server import data_room, public_log
from sedml.service.server.access import Caller, require, unconfirmed
from sedml.service.server.jobs import charges
from sedml.service.server.jobs.ballot_rows import Known, Pages, Row, by_owner, insert, on_record, receipt_of
from sedml.service.server.jobs.records import Record, find, get, no_such_job, terms_of, update
from sedml.service.server.node import Node, now
from sedml.service.states import JobState, wrong_state
from sedml.service.terms import HEX64

_Outcome: TypeAlias = tuple[Receipt, bool] | SedmlError
"""The receipt of a ballot, and whether it is new; or why it was not taken."""


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
        new = ("teacher", caller.name) not in on_record(connection, job, [caller], [])
    size = record.terms.ballot.sizes[node.role]
    if new:
        _check_open(node, record)
        data_room.check_votes(node, size)
        for refusal in charges.uncountable(node, job, record.terms, [caller.organisation]).values():
            raise refusal
    return size


def accept_ballots(node: Node, arrived: Sequence[Arrived]) -> list[_Outcome]:
    """Put halves of ballots on disk, all in one transaction; for each, whether it is new, or why it was not taken.

    When this returns they are there. If it raises, none of them were taken.
    """
    outcomes: dict[int, _Outcome] = {}
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
            full = _full(node, arrived)
            new: list[tuple[Row, Pages]] = []
            for job in sorted(by_job):  # always in this order: two servers that share a store wait for each other
                found, taken = _take(node, connection, job, by_job[job], pages, refused[job] | revoked, full)
                outcomes |= found
                new += taken
            insert(connection, node, new)
    return [outcomes[number] for number in range(len(arrived))]


def _take(
    node: Node,
    connection: sa.Connection,
    job: str,
    here: Mapping[int, Arrived],
    pages: Mapping[int, Pages | SedmlError],
    refused: Mapping[Caller, SedmlError],
    full: NoRoomForVotesError | None,
) -> tuple[dict[int, _Outcome], list[tuple[Row, Pages]]]:
    """What becomes of these ballots of one job, whose row is locked; and those that are new."""
    record = find(connection, job, "update")
    if record is None:
        return {number: no_such_job() for number in here}, []
    known = on_record(connection, job, [one.caller for one in here.values()], [one.parts for one in here.values()])
    not_now = _uncosigned(node, connection, record) or full
    outcomes: dict[int, _Outcome] = {}
    taken: list[tuple[Row, Pages]] = []
    for number, one in here.items():
        try:
            refusal = refused.get(one.caller)
            kept = _sound(pages[number], refusal)
            row, new = _judge(node, record, one, known, refusal, record.votes + len(taken), not_now)
        except SedmlError as error:
            outcomes[number] = error
            continue
        if new:
            taken.append((row, kept))
            known |= by_owner([row])
        outcomes[number] = receipt_of(node, row), new
    if taken:
        update(connection, job, votes=record.votes + len(taken))
    return outcomes, taken


def _sound(pages: Pages | SedmlError, refusal: SedmlError | None) -> Pages:
    """The pages of a ballot that is in order, of somebody whose token still is; raises otherwise."""
    if isinstance(refusal, RevokedError):
        raise refusal
    if isinstance(pages, SedmlError):
        raise pages
    return pages


def _judge(
    node: Node,
    record: Record,
    one: Arrived,
    known: Known,
    refusal: SedmlError | None,
    votes: int,
    not_now: SedmlError | None,
) -> tuple[Row, bool]:
    """The row of a ballot, and whether it is new; raises if it is not taken."""
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


def _check_once(one: Arrived, known: Known) -> None:
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


def _examined(node: Node, one: Arrived) -> Pages | SedmlError:
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


def receipt(node: Node, caller: Caller, job: str) -> Receipt:
    """What the caller's own ballot was acknowledged with."""
    require(caller, "teacher")
    with node.store.read() as connection:
        get(connection, job)
        row = on_record(connection, job, [caller], []).get(("teacher", caller.name))
    if row is None:
        raise NotFoundError("This server has no ballot of yours for this job.", "Cast it with `sedml vote`.")
    return receipt_of(node, row)


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
