"""Who is counted: the teachers whose two halves both arrived, agreed on by S0 and S1 before anything is opened.

Each server has computed the 32-byte name of every ballot from its half alone (`sedml.protocol.ballots`): halves of two
different ballots, or of one that is not right, have two names. Nothing but names is compared. Steps, one round each:

1. Each sends how many ballots it has, less those of teachers whom its ledger refuses: members of another cohort, or
   with a limit of their own that the job could pass.
2. Each sends an entry for each: 16 bytes of a hash of the teacher's name, and the name of its ballot. Both keep the
   entries that both have, sorted: that is the roster, an entry's place in it the teacher's seat. So whom one server
   leaves out, the other does too; a server that leaves out whom it need not could always withhold a ballot.
3. Each checks `min_teachers` and reserves what the job costs on its own ledger, with whom it counts, then sends its
   decision with the number and the digest of the roster. Both must say yes to the same one.

The ballots of a closed job do not change, and a reservation says whom it counts: no server has a roster on record
before both have reserved for it. So after a crash the same roster comes out, or, if it was on record nowhere, one with
fewer teachers. And if the ledger says that the job was started, it is not started anew.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import sqlalchemy as sa

from sedml.errors import (
    BudgetExceededError,
    InputError,
    JobError,
    ReplayError,
    SedmlError,
    TooFewTeachersError,
    counted,
)
from sedml.mpc.channel import Channel
from sedml.service.messages import Roster
from sedml.service.problems import problem_of
from sedml.service.server import public_log
from sedml.service.server.jobs import charges
from sedml.service.server.jobs.records import Record, get, move, update
from sedml.service.server.node import Node, now
from sedml.service.server.storage.tables import ballots
from sedml.service.states import ENDED

_ENTRY = 48


class Decision(IntEnum):
    """What a server makes of a roster."""

    YES = 1
    TOO_FEW = 2
    BUDGET = 3


_PEER_SAYS = {
    Decision.TOO_FEW: (TooFewTeachersError, "too few teachers took part"),
    Decision.BUDGET: (BudgetExceededError, "the teachers' budget there is too small"),
}


@dataclass(frozen=True)
class _Found:
    """The seats of a roster: teacher and organisation by seat, and what names it."""

    teachers: list[str]
    organisations: list[str]
    roster: Roster


def agree_roster(node: Node, record: Record, channel: Channel) -> Record:
    """Both servers' side; the job ends refused if one of them cannot go on."""
    found = _intersect(node, record, channel)
    if record.roster not in (None, found.roster):
        raise ReplayError(
            "The ballots that both servers hold are no longer the ones they agreed on.",
            "One of them lost or gained some, as after a restored backup. Create a new job.",
        )
    refusal = _examine(node, record, found)
    decision = Decision.YES if refusal is None else _decision(refusal)
    digest = np.frombuffer(bytes.fromhex(found.roster.digest), np.uint8)
    theirs, their_digest = channel.exchange(0, "verdict", [np.array([decision], np.uint8), digest])
    if not np.array_equal(their_digest, digest):
        raise ReplayError(
            "The two servers came to different rosters.", "Check that both run the same release of sedml."
        )
    if refusal is None and theirs[0] != Decision.YES:
        kind, reason = _PEER_SAYS.get(theirs[0], (JobError, "it gives no reason"))
        refusal = kind(f"The other server refused the job: {reason}.", "Nothing was opened. Create a new job.")
    if refusal is not None:
        return refuse(node, record, refusal)
    return _settle(node, record, found)


def refuse(node: Node, record: Record, reason: SedmlError) -> Record:
    """End a job of which nothing was opened, and give back what was reserved for it."""
    with node.store.write() as connection:
        record = get(connection, record.id, "update")
        if record.state not in ENDED:
            problem = problem_of(reason).model_dump_json()
            record = move(connection, node, record, "refuse", node.kit.name, problem=problem)
    charges.cancel(node, record.id, record.terms)
    return record


def _intersect(node: Node, record: Record, channel: Channel) -> _Found:
    with node.store.read() as connection:
        query = sa.select(ballots.c.teacher, ballots.c.organisation, ballots.c.name)
        cast = connection.execute(query.where(ballots.c.job == record.id)).all()
    refused = charges.refusals(node, record.id, record.terms, {row.organisation for row in cast})
    mine = {_entry(row.teacher, row.name): row for row in cast if row.organisation not in refused}
    [count] = channel.exchange(0, "ballots", [np.array([len(mine)], np.uint64)])
    if count[0] > node.settings.max_teachers:
        raise InputError(
            "The other server has more ballots for this job than this one takes.", "Set the same limits on both."
        )
    entries = np.zeros((max(len(mine), int(count[0])), _ENTRY), np.uint8)
    entries[: len(mine)] = np.frombuffer(b"".join(mine), np.uint8).reshape(-1, _ENTRY)
    [theirs] = channel.exchange(0, "entries", [entries])
    both = sorted(set(mine) & {row.tobytes() for row in theirs[: int(count[0])]})
    named = bytes.fromhex(record.id) + b"".join(both)
    digest = hashlib.blake2b(named, digest_size=32, person=b"sedml-roster-v2").hexdigest()
    counted = [mine[entry] for entry in both]
    teachers, organisations = [row.teacher for row in counted], [row.organisation for row in counted]
    return _Found(teachers, organisations, Roster(teachers=len(both), digest=digest))


def _entry(teacher: str, ballot: str) -> bytes:
    who = hashlib.blake2b(teacher.encode(), digest_size=16, person=b"sedml-teacher-v1").digest()
    return who + bytes.fromhex(ballot)


def _examine(node: Node, record: Record, found: _Found) -> SedmlError | None:
    """Why this server cannot go on with a roster, if it cannot."""
    if found.roster.teachers < record.terms.min_teachers:
        return TooFewTeachersError(
            f"{counted(found.roster.teachers, 'teacher')} took part; the terms ask for {record.terms.min_teachers}.",
            "Nothing was opened. Create a new job, with more time or a lower min_teachers.",
        )
    try:
        charges.reserve(node, record.id, record.terms, found.organisations)
    except BudgetExceededError as error:
        return error
    return None


def _decision(refusal: SedmlError) -> Decision:
    return Decision.BUDGET if isinstance(refusal, BudgetExceededError) else Decision.TOO_FEW


def _settle(node: Node, record: Record, found: _Found) -> Record:
    """Put the roster on record; a job that was deleted or has expired meanwhile stays ended."""
    with node.store.write() as connection:
        record = get(connection, record.id, "update")
        if record.roster is None and record.state not in ENDED:
            seats = [{"who": teacher, "place": seat} for seat, teacher in enumerate(found.teachers)]
            here = ballots.c.job == record.id, ballots.c.teacher == sa.bindparam("who")
            connection.execute(sa.update(ballots).where(*here).values(seat=sa.bindparam("place")), seats)
            roster = {"roster_teachers": found.roster.teachers, "roster_digest": found.roster.digest}
            # The digest is in the line, which others see as a salted hash: who took part is not for them.
            told = {"kind": "roster", "job": record.id, "teachers": found.roster.teachers}
            line = node.kit.name, "roster", record.id, found.roster.digest
            number = public_log.write(connection, node, *line, told)
            update(connection, record.id, moved_at=now(node), due=number, **roster)
            record = get(connection, record.id)
    if record.state in ENDED:
        charges.cancel(node, record.id, record.terms)
    return record
