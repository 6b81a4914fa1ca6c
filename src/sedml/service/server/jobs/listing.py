"""The list of jobs, a page at a time and cheap: many ask for it again and again, and little of it has changed.

A job is written out once and kept, as bytes, for as long as its row in the store stays the same. That row, read each
time and at little cost, is the version that it is kept by: no change is missed, whichever replica made it. Only a job
that runs is written out anew each time, since how far it is stands in other rows.
"""

from __future__ import annotations

import sqlalchemy as sa

from sedml.service.server.access import Caller
from sedml.service.server.jobs.lifecycle import status_of
from sedml.service.server.jobs.records import get, visible
from sedml.service.server.node import Node
from sedml.service.server.storage.tables import jobs
from sedml.service.states import JobState

PAGE = 100
"""Jobs at a time, unless the names of their classes are long."""
_MOST_BYTES = 1 << 19  # of a page, but for its last job: clients take twice that

# The terms of a job are what its id is the hash of.
_ROWS = sa.select(*(column for column in jobs.c if column is not jobs.c.terms))
_NEWEST_FIRST = _ROWS.order_by(jobs.c.created_at.desc(), jobs.c.id).limit(PAGE + 1)
_LISTS = {
    "teacher": _NEWEST_FIRST.where(jobs.c.state == JobState.OPEN.value),
    "requester": _NEWEST_FIRST.where(jobs.c.owner == sa.bindparam("name")),
    "operator": _NEWEST_FIRST,
}
_OLDER = sa.or_(
    jobs.c.created_at < sa.bindparam("at"),
    sa.and_(jobs.c.created_at == sa.bindparam("at"), jobs.c.id > sa.bindparam("after")),
)
_LISTS_ON = {role: query.where(_OLDER) for role, query in _LISTS.items()}


def page(node: Node, caller: Caller, after: str = "") -> bytes:
    """A teacher's open jobs, a requester's own, all for an operator; newest first, from the one after this on.

    A `JobList` in JSON.
    """
    values: dict[str, object] = {"name": caller.name} if caller.role == "requester" else {}
    with node.store.read() as connection:
        query = _LISTS[caller.role]
        if after:
            query = _LISTS_ON[caller.role]
            values |= {"after": after, "at": visible(connection, caller, after).created_at}
        rows = connection.execute(query, values).all()
        written: list[bytes] = []
        for row in rows[:PAGE]:
            if sum(map(len, written)) > _MOST_BYTES:
                break
            written.append(_written(node, connection, row))
    more = b"true" if len(rows) > len(written) else b"false"
    return b'{"jobs":[' + b",".join(written) + b'],"more":' + more + b"}"


def _written(node: Node, connection: sa.Connection, row: sa.Row[tuple[object, ...]]) -> bytes:
    version = tuple(row)
    if row.state == JobState.RUNNING.value:
        return _write(node, connection, row.id)
    kept = node.written_jobs.get(row.id, version)
    if kept is None:
        kept = _write(node, connection, row.id)
        node.written_jobs.keep(row.id, version, kept)
    return kept


def _write(node: Node, connection: sa.Connection, job: str) -> bytes:
    return status_of(node, connection, get(connection, job), budgeted=False).model_dump_json().encode()
