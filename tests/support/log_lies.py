"""One of two real servers does what it likes with its log."""

from __future__ import annotations

import shutil

import sqlalchemy as sa

from sedml.service.client import Operator, Teacher
from sedml.service.server import public_log
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import log
from support.deployment import conflict_of, fresh_memory
from support.snapshots import keep, put_back


def teacher(kits, number=1, **options):
    return Teacher(kits / f"teacher-{number:03}", **options)


def as_server(patch, module, name, role, lie):
    """This server alone does something else in the place of a function, which gets the real one."""
    real = getattr(module, name)

    def either(node, *args, **options):
        return lie(real, node, *args, **options) if node.role == role else real(node, *args, **options)

    patch.setattr(module, name, either)


def logging_otherwise(monkeypatch, role, kind, **change):
    """This server puts something else into its log than it does; nothing at all, without a change."""
    real = public_log.write

    def write(connection, node, actor, action, subject, outcome="done", entry=None):
        if node.role == role and entry and entry["kind"] == kind:
            entry = entry | change if change else None
        return real(connection, node, actor, action, subject, outcome, entry)

    monkeypatch.setattr(public_log, "write", write)


def alarms(node):
    with node.store.read() as connection:
        rows = connection.execute(sa.select(log.c.actor).where(log.c.action == "alarm"))
        return list(rows.scalars())


def restart(node):
    """The process is a new one: what it had in memory is gone."""
    for name, fresh in fresh_memory(node).items():
        vars(getattr(node, name)).update(vars(fresh))


def size(node):
    """How many entries its log has."""
    with node.store.read() as connection:
        return (log_rows.newest(connection) or (-1, b""))[0] + 1


def accept_restored(kits, node):
    """The operator of this server accepts what the other one shows."""
    wanted = conflict_of(node)
    return Operator(kits / f"operator-{node.kit.name}").accept_restored(wanted.size, wanted.root)


def put_back_one(made, role, kept, work):
    """Put this server alone back to what was kept; the other one stays as it is."""
    other = made.nodes[1 - role].kit.name
    keep(made, work / "now")
    shutil.copytree(kept, work / "mixed")
    for file in ("server.db", "ledger.db"):
        shutil.copy(work / "now" / other / file, work / "mixed" / other / file)
    put_back(made, work / "mixed")
