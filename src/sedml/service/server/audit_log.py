"""The audit log: who did what when, in the transaction that did it. Names and outcomes only, no contents."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from sedml.service.messages import AuditEntry, AuditHead, AuditList
from sedml.service.server.access import Caller, require
from sedml.service.server.node import Node, at, now
from sedml.service.server.storage import audit_chain
from sedml.service.server.storage.tables import audit

__all__ = ["ALARM", "DELETE", "alarms", "deletion", "page", "record", "write", "write_all"]

ALARM = "alarm"
"""The action of whoever was caught deviating from the protocol."""

DELETE = "delete"
"""The action of whoever deleted a job."""

_PAGE = 100
_LONGEST = 80  # outcome, as its column has it


def write(connection: sa.Connection, node: Node, actor: str, action: str, subject: str, outcome: str = "done") -> None:
    """Add an entry to a transaction, as the last thing that it locks (`audit_chain.append`)."""
    write_all(connection, node, [(actor, subject)], action, outcome)


def write_all(
    connection: sa.Connection,
    node: Node,
    who_and_what: Iterable[tuple[str, str]],
    action: str,
    outcome: str = "done",
) -> None:
    """Add an entry for each of these (actor, subject)."""
    same = {"at": now(node), "action": action, "outcome": outcome[:_LONGEST]}
    lines = [{"actor": actor, "subject": subject, **same} for actor, subject in who_and_what]
    audit_chain.append(connection, node.vault, lines)


def record(node: Node, actor: str, action: str, subject: str, outcome: str) -> None:
    """An entry in a transaction of its own, for what changed nothing else."""
    with node.store.write() as connection:
        write(connection, node, actor, action, subject, outcome)


def alarms(connection: sa.Connection) -> int:
    """How many there ever were."""
    return connection.execute(sa.select(sa.func.count()).where(audit.c.action == ALARM)).scalar_one()


def deletion(connection: sa.Connection, job: str) -> tuple[float, str] | None:
    """When a job was deleted, and by whom."""
    query = sa.select(audit.c.at, audit.c.actor).where(audit.c.action == DELETE, audit.c.subject == job)
    row = connection.execute(query.order_by(audit.c.number.desc()).limit(1)).first()
    return None if row is None else (row.at, row.actor)


def page(node: Node, caller: Caller, after: int) -> AuditList:
    """Entries after a number, oldest first; whether they fit each other and the one before them, and the newest."""
    require(caller, "operator")
    with node.store.read() as connection:
        query = sa.select(audit).where(audit.c.number > after).order_by(audit.c.number).limit(_PAGE + 1)
        _, before = audit_chain.newest(connection, after) or (0, audit_chain.BEGINNING)
        rows = connection.execute(query).mappings().all()
        head = audit_chain.newest(connection)
    shown = rows[:_PAGE]
    return AuditList(
        entries=[AuditEntry.model_validate({**row, "at": at(row["at"])}) for row in shown],
        more=len(rows) > _PAGE,
        head=None if head is None else AuditHead(number=head[0], digest=head[1]),
        wrong=audit_chain.first_wrong(node.vault, before, shown),
    )
