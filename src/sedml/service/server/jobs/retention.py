"""What is deleted, and when.

- Inputs (ballots) as soon as both servers hold their label shares, or `keep_inputs` later.
- Label shares and public data `keep_labels` after the end of a job, or when the requester deletes it; both at once if
  the job ends without a result.
- Everything of a job that was not run within `grace` after its vote was closed; a running one that has not come any
  further for `grace` fails.
All but the first at once, only by a clock that can be believed (`believed_time`).

What stays is the record: terms, states, receipts without contents, the log and the ledger.

Ballots go in two steps: the job is marked, in the transaction that ends its need of them, and then they are deleted a
little at a time (`purge`), which needs little room on a disk however many there are, and goes on at the next sweep if
it was cut off. SQLite overwrites in its file what is deleted, and keeps it in its log. That is emptied each time, at
each sweep, in case somebody was reading then, and at each start, after a crash.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

import sqlalchemy as sa
import structlog

from sedml.errors import PeerTimeoutError, SedmlError
from sedml.privacy.ledger import State
from sedml.service.problems import problem_of
from sedml.service.server import data_room, public_log
from sedml.service.server.jobs import charges
from sedml.service.server.jobs.records import Record, find, free_data, get, in_states, move, tell, update
from sedml.service.server.node import Node, now
from sedml.service.server.storage.tables import ballot_pages, blocks, jobs
from sedml.service.states import ENDED, ENDED_WITHOUT_RESULT, UNOPENED, JobState

_Act: TypeAlias = Callable[[Node, Record], None]

_TOGETHER = 4 << 20  # bytes of ballots that are deleted in one transaction, unless one page is more
_CUT_OFF = 20  # times `body_timeout`: an upload that is under way writes more often than that

_log = structlog.get_logger("sedml.retention")


def close(connection: sa.Connection, node: Node, record: Record, actor: str) -> Record:
    """End the vote of a job in a transaction that has locked it; what is not run in time gives back its reservation."""
    time = now(node)
    expires = min(record.expires_at, time + node.settings.grace)
    return move(connection, node, record, "close", actor, closed_at=time, expires_at=expires)


def end(connection: sa.Connection, node: Node, record: Record, actor: str) -> Record:
    """Delete everything of a job in a transaction that has locked it; an unfinished one expires."""
    if record.state not in ENDED:
        record = move(connection, node, record, "expire", actor, problem=None)
    if not record.deleted:
        free_data(node, record.id)
        delete_inputs(connection, record.id)
        connection.execute(sa.update(blocks).where(blocks.c.job == record.id).values(sealed_labels=None))
        update(connection, record.id, deleted=True)
        tell(connection, "job.deleted", job=record.id, by=actor)
        told = {"kind": "deleted", "job": record.id}
        public_log.write(connection, node, actor, public_log.DELETE, record.id, entry=told)
    return get(connection, record.id)


def delete_inputs(connection: sa.Connection, job: str) -> None:
    """Give up ballots, which `purge` then deletes; the receipts and the roster stay."""
    update(connection, job, inputs_deleted=True)


def purge(node: Node) -> bool:
    """Delete the ballots that were given up; whether the log of the database could be emptied of them."""
    kept = sa.exists().where(ballot_pages.c.job == jobs.c.id)
    with node.store.read() as connection:
        marked = connection.execute(sa.select(jobs.c.id).where(jobs.c.inputs_deleted, kept)).scalars()
        left = [get(connection, job) for job in marked]
    for record in left:
        with _apart(record.id):
            _delete_pages(node, record)
    return node.store.empty_log()


def _delete_pages(node: Node, record: Record) -> None:
    page, teacher = ballot_pages.c.page, ballot_pages.c.teacher
    here, most = ballot_pages.c.job == record.id, max(1, _TOGETHER // record.terms.ballot.page(0).sizes[node.role])
    some = sa.select(page, teacher).where(here).limit(most)
    while True:
        with node.store.write() as connection:
            gone = connection.execute(sa.delete(ballot_pages).where(here, sa.tuple_(page, teacher).in_(some))).rowcount
        # While somebody reads, the log grows with each of them.
        if gone < most or not (node.store.empty_log() or data_room.takes_votes(node)):
            return


def sweep(node: Node) -> None:
    """Close what is past its deadline, expire what was not run in time, delete what was kept long enough."""
    for part in (_act_by_age, _tidy):
        with _apart("all"):
            part(node)
    if not purge(node):
        what = (
            "The log of the database still has what was deleted: a backup or a shell that reads it, or much traffic, "
        )
        what += "is in the way."
        _log.warning("retention.log_kept", what=what)


def _act_by_age(node: Node) -> None:
    doubt = node.time.doubt()
    if doubt is None:
        _set_times_anew(node)
    due = list(_due_by_age(node))
    if doubt is None:
        for act, record in due:
            if act in (_end, _give_up):
                free_data(node, record.id)
        for act, record in due:
            with _apart(record.id):
                act(node, record)
    elif due:
        what = f"Nothing is closed or deleted by age, for the clock is doubted: {doubt}."
        _log.warning("retention.held", jobs=len(due), what=what)


@contextmanager
def _apart(job: str) -> Iterator[None]:
    """Whatever goes wrong with one job, the others are looked after; the next sweep tries again."""
    try:
        yield
    except Exception as error:
        what = error.what if isinstance(error, SedmlError) else None
        _log.error("retention.failed", job=job, error=type(error).__name__, what=what)


def _set_times_anew(node: Node) -> None:
    """What was kept by a clock that was behind would else be deleted as soon as it is right."""
    doubted = sa.select(jobs.c.id).where(jobs.c.times_doubted)
    with node.store.read() as connection:
        if connection.execute(doubted.limit(1)).first() is None:
            return
    time = now(node)
    expires, finished = jobs.c.expires_at, jobs.c.finished_at
    values = {
        "moved_at": time,
        "expires_at": sa.case((expires < time + node.settings.grace, time + node.settings.grace), else_=expires),
        "finished_at": sa.case((finished.is_not(None), time), else_=None),
        "times_doubted": False,
    }
    with node.store.write() as connection:
        connection.execute(sa.update(jobs).where(jobs.c.times_doubted).values(**values))


def _due_by_age(node: Node) -> Iterator[tuple[_Act, Record]]:
    """What there is to do to jobs because of the time that it is."""
    time, settings = now(node), node.settings
    with node.store.read() as connection:
        waiting = in_states(connection, UNOPENED)
        running = in_states(connection, [JobState.RUNNING])
        finished = _finished(connection)
    for record in waiting:
        if record.state is JobState.OPEN and time > record.terms.deadline:
            yield _close, record
        elif time > record.expires_at:
            yield _end, record
    for record in running:
        if time > record.moved_at + settings.grace:
            yield _give_up, record
    for record in finished:
        since = time - (record.finished_at or time)
        if since > settings.keep_labels:
            yield _end, record
        elif since > settings.keep_inputs > 0 and not record.inputs_deleted:
            yield _delete_inputs, record


def _finished(connection: sa.Connection) -> list[Record]:
    ended = sa.select(jobs.c.id).where(jobs.c.finished_at.is_not(None), ~jobs.c.deleted)
    return [get(connection, job) for job in connection.execute(ended).scalars()]


def _close(node: Node, record: Record) -> None:
    with node.store.write() as connection:
        locked = get(connection, record.id, "update")
        if locked.state is JobState.OPEN:
            close(connection, node, locked, node.kit.name)
    node.wake()


def _delete_inputs(node: Node, record: Record) -> None:
    with node.store.write() as connection:
        delete_inputs(connection, record.id)


def _end(node: Node, record: Record) -> None:
    states = ENDED if record.state in ENDED else UNOPENED
    with node.store.write() as connection:
        locked = get(connection, record.id, "update")
        if locked.state not in states:  # it has come further meanwhile
            return
        locked = end(connection, node, locked, node.kit.name)
    charges.cancel(node, record.id, record.terms)


def _give_up(node: Node, record: Record) -> None:
    """A running job that the other server has left alone for so long ends; what was started stays charged."""
    reason = PeerTimeoutError("The other server has stopped working on the job.", "Ask for its status there.")
    with node.store.write() as connection:
        locked = get(connection, record.id, "update")
        if (locked.state, locked.moved_at) == (JobState.RUNNING, record.moved_at):
            move(connection, node, locked, "fail", node.kit.name, problem=problem_of(reason).model_dump_json())


def _tidy(node: Node) -> None:
    """What no job needs any more, or a crash has left behind: reservations, inputs, public data, half an upload."""
    # Listed first: what a job begins after this has its record in the store by then, and would have none before.
    data = list(node.public_data.glob("*.data"))
    with node.store.read() as connection:
        for path in data:
            record = find(connection, path.stem)
            if record is None or record.deleted or record.state in ENDED_WITHOUT_RESULT:
                path.unlink(missing_ok=True)
        unkept = [] if node.settings.keep_inputs else [one for one in _finished(connection) if not one.inputs_deleted]
        for cohort in node.settings.budgets:
            for entry in node.ledger.jobs(cohort, State.RESERVED):
                record = find(connection, entry.job)
                if record is not None and record.state in ENDED:
                    with _apart(entry.job):
                        node.ledger.cancel(cohort, entry.job)
    for record in unkept:
        with _apart(record.id):
            _delete_inputs(node, record)
    for path in node.incoming.iterdir():
        with suppress(FileNotFoundError):  # it has arrived meanwhile
            if time.time() - path.stat().st_mtime > _CUT_OFF * node.settings.body_timeout:
                path.unlink()
