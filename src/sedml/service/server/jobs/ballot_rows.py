"""Who has voted: the rows of ballots, written many at a time with their pages sealed, and the receipt for each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeAlias

import sqlalchemy as sa

from sedml.service.messages import Receipt
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.node import Node
from sedml.service.server.storage.tables import ballot_pages, ballots
from sedml.service.server.storage.vault import page_label

Row: TypeAlias = Mapping[Any, Any]
"""A row of the table of ballots."""
Pages: TypeAlias = Sequence[memoryview]
"""What is kept of each page of a half."""
Known: TypeAlias = dict[tuple[str, str | None], Row]
"""Rows by each of `_OWNERS` that they have: whoever is the same in any of them has voted."""

_OWNERS = ("teacher", "organisation", "parts")
_PAGES_TOGETHER = 64
"""Pages that are sealed and inserted at a time: what a large ballot takes of memory."""

# Built once: every ballot needs them.
_INSERT = sa.insert(ballots)
_INSERT_PAGES = sa.insert(ballot_pages)
_ON_RECORD = sa.select(
    ballots.c.job, ballots.c.teacher, ballots.c.organisation, ballots.c.parts, ballots.c.name, ballots.c.received_at
).where(
    ballots.c.job == sa.bindparam("job"),
    sa.or_(*(ballots.c[owner].in_(sa.bindparam(owner, expanding=True)) for owner in _OWNERS)),
)


def on_record(connection: sa.Connection, job: str, callers: Collection[Caller], parts: Collection[str | None]) -> Known:
    """What is on record of the ballots of these teachers, of their organisations and of these parts, without pages."""
    asked = {
        "teacher": list({caller.name for caller in callers}),
        "organisation": list({caller.organisation for caller in callers}),
        "parts": list({one for one in parts if one is not None}),
    }
    return by_owner(connection.execute(_ON_RECORD, {"job": job, **asked}).mappings())


def by_owner(rows: Iterable[Row]) -> Known:
    """The rows by whom, and by what, they are known."""
    return {(owner, row[owner]): row for row in rows for owner in _OWNERS if row[owner] is not None}


def insert(connection: sa.Connection, node: Node, new: Sequence[tuple[Row, Pages]]) -> None:
    """Put new ballots on record with their pages, and that they came into the log."""
    if not new:
        return
    rows = [row for row, _ in new]
    connection.execute(_INSERT, rows)
    sealed = _sealed(node, new)
    while some := list(islice(sealed, _PAGES_TOGETHER)):
        connection.execute(_INSERT_PAGES, some)
    public_log.write_all(connection, node, [(row["teacher"], row["job"]) for row in rows], "vote")


def _sealed(node: Node, new: Iterable[tuple[Row, Pages]]) -> Iterator[Row]:
    """The rows of all pages of these ballots, each sealed when it is asked for."""
    for row, pages in new:
        for page, part in enumerate(pages):
            sealed = node.vault.seal(row["job"], page_label(row["teacher"], page), part)
            yield {"job": row["job"], "page": page, "teacher": row["teacher"], "sealed": sealed}


def receipt_of(node: Node, row: Row) -> Receipt:
    """What a ballot on record is acknowledged with, signed."""
    receipt = Receipt(
        job=row["job"],
        teacher=row["teacher"],
        server=node.kit.name,
        ballot=row["name"],
        parts=row["parts"],
        received_at=datetime.fromtimestamp(row["received_at"], UTC),
    )
    return receipt.model_copy(update={"signature": node.kit.log_signer.key.sign(receipt.text).hex()})
