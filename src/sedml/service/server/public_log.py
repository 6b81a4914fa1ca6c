"""The log of a server: who did what when, in the transaction that did it, as a Merkle tree that others check.

Every entry has a line for the operator, of names and outcomes, no contents. Everybody else sees a salted hash of it,
and what an entry says if everybody may know that (`sedml.service.log.entries`). A checkpoint counts once the other
server has cosigned it (`link.cosigning`): what is not in one of those is not run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

import sqlalchemy as sa

from sedml.errors import LogError, NotCosignedError
from sedml.service.kits import certified
from sedml.service.kits.client_kit import SERVERS
from sedml.service.log.entries import entry_text
from sedml.service.log.merkle import Tree
from sedml.service.log.notes import Checkpoint, Verifier, parse
from sedml.service.messages import JobProof, LogEntry, LogHead, LogLine, LogPage
from sedml.service.server.access import Caller
from sedml.service.server.node import Node, now
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import jobs, log

ALARM = "alarm"
"""The action of whoever was caught deviating from the protocol."""

DELETE = "delete"
"""The action of whoever deleted a job."""

_OF_ACCOUNTS = {"enrol", "revoke", "rotate", "limit"}  # their subject is an account
_PAGE = 500
_LEAVES = 256
_LONGEST = 80  # outcome, as its column has it
_ROW = sa.select(log).where(log.c.number == sa.bindparam("number"))


def write(
    connection: sa.Connection,
    node: Node,
    actor: str,
    action: str,
    subject: str,
    outcome: str = "done",
    entry: Mapping[str, object] | None = None,
) -> int:
    """Add an entry to a transaction, as the last thing that it locks (`log_rows.append`); its number."""
    return write_all(connection, node, [(actor, subject)], action, outcome, entry)


def write_all(
    connection: sa.Connection,
    node: Node,
    who_and_what: Iterable[tuple[str, str]],
    action: str,
    outcome: str = "done",
    entry: Mapping[str, object] | None = None,
) -> int:
    """Add an entry for each of these (actor, subject), all with the same public part; the number of the last."""
    moment = now(node)
    text = entry_text(None if entry is None else {"at": int(moment), **entry})
    same = {"at": moment, "action": action, "outcome": outcome[:_LONGEST], "entry": text}
    return log_rows.append(connection, [{"actor": actor, "subject": what, **same} for actor, what in who_and_what])


def record(node: Node, actor: str, action: str, subject: str, outcome: str) -> None:
    """An entry in a transaction of its own, for what changed nothing else."""
    with node.store.write() as connection:
        write(connection, node, actor, action, subject, outcome)


def alarmed(connection: sa.Connection, job: str) -> bool:
    """Whether there was an alarm about a job."""
    query = sa.select(log.c.number).where(log.c.action == ALARM, log.c.subject == job)
    return connection.execute(query.limit(1)).first() is not None


def alarms(connection: sa.Connection) -> int:
    """How many there ever were: one a job, and those about logs (`peer_log.alarm`), of which the log has few."""
    query = sa.select(sa.func.count()).where(log.c.action == ALARM, log.c.subject != "log")
    about_logs = (log_rows.kept(connection, f"alarms/{name}") for name in SERVERS)
    return int(connection.execute(query).scalar_one()) + sum(int(kept[0]) for kept in about_logs if kept)


def deletion(connection: sa.Connection, job: str) -> tuple[float, str] | None:
    """When a job was deleted, and by whom."""
    query = sa.select(log.c.at, log.c.actor).where(log.c.action == DELETE, log.c.subject == job)
    row = connection.execute(query.order_by(log.c.number.desc()).limit(1)).first()
    return None if row is None else (row.at, row.actor)


def tree_of(node: Node, connection: sa.Connection, newest: tuple[int, bytes] | None = None) -> Tree:
    """The tree over all entries of the store."""
    newest = newest or log_rows.newest(connection)
    return node.log.grown(newest, lambda start: log_rows.hashes(connection, start))


def checkpoint_of(node: Node, connection: sa.Connection) -> Checkpoint:
    """Of all entries that are on disk; raises if they do not extend what was signed and cosigned before."""
    # First what was signed, then the newest entry, once: others write meanwhile, and the log is never the shorter one.
    kept, newest = log_rows.kept(connection, "own"), log_rows.newest(connection)
    size, tree = 0 if newest is None else newest[0] + 1, tree_of(node, connection, newest)
    if kept is not None:
        known = _parsed(kept[0])
        if known.size > size or tree.root(known.size) != known.root:
            raise LogError(
                "The log in this server's store is not the one that it has signed.",
                "Somebody has changed the store. Keep it as it is, restore the newest backup, and tell the other "
                "operator.",
            )
    return Checkpoint(node.kit.log_signer.name, size, tree.root(size))


def check_cosigned(node: Node, connection: sa.Connection, number: int) -> None:
    """Raise unless the other server has cosigned the log up to this entry."""
    if number >= _cosigned(connection):
        node.wake()
        raise NotCosignedError(
            f"{node.kit.peer.upper()} has not cosigned yet that the job is in the log of {node.kit.name.upper()}.",
            "The two do so within seconds while they can reach each other. If it stays so, tell the operators.",
        )


def due(connection: sa.Connection) -> bool:
    """Whether a job waits for a cosignature."""
    newest = connection.execute(sa.select(sa.func.max(jobs.c.due))).scalar()
    return newest is not None and newest >= _cosigned(connection)


def _cosigned(connection: sa.Connection) -> int:
    """How many entries the other server has cosigned, as the store has it: what is in memory may be another store's."""
    kept = log_rows.kept(connection, "own")
    return 0 if kept is None else _parsed(kept[0]).size


def peer_verifier(node: Node, certificate: str) -> Verifier:
    """The key of the other server's log."""
    return _certified(certificate, node.credentials.authority, node.kit.peer)


def proofs(
    node: Node, connection: sa.Connection, asked: Iterable[tuple[int, int]]
) -> dict[tuple[int, int], JobProof | None]:
    """By (number, seen): that an entry is in the newest cosigned checkpoint, which extends the one of size `seen`."""
    asked = set(asked)
    kept = log_rows.kept(connection, "own") if asked else None
    if kept is None:
        return dict.fromkeys(asked)
    size, tree = _parsed(kept[0]).size, _tree_under(node, connection, kept[0])
    return {
        (number, seen): None
        if number >= size
        else JobProof(
            number=number,
            **_leaf(node, connection, number),
            path=_hexes(tree.inclusion(number, size)),
            checkpoint=kept[0],
            consistency=_hexes(tree.consistency(seen, size)) if seen <= size else [],
        )
        for number, seen in asked
    }


def _tree_under(node: Node, connection: sa.Connection, note: str) -> Tree:
    """The tree as it is in memory, if a cosigned checkpoint is of it: the store may have lost what was read of it."""
    checkpoint = _parsed(note)
    tree = node.log.reaches(checkpoint.size)
    return tree if tree and tree.root(checkpoint.size) == checkpoint.root else tree_of(node, connection)


def _leaf(node: Node, connection: sa.Connection, number: int) -> dict[str, str]:
    """What an entry says, which never changes."""
    if number not in node.log.leaves:
        row = connection.execute(_ROW, {"number": number}).mappings().one()
        if len(node.log.leaves) >= _LEAVES:
            node.log.leaves.clear()
        node.log.leaves[number] = {"entry": row["entry"], "line": log_rows.line_of(row)}
    return node.log.leaves[number]


def head(node: Node, seen: int) -> LogHead:
    """The newest cosigned checkpoint, that it extends the one of size `seen`, and the keys of both logs."""
    with node.store.read() as connection:
        own, peer, conflict, proven = (
            log_rows.kept(connection, name) for name in ("own", "peer", "conflict", "proven")
        )
        if own is None or peer is None or peer[1] is None:
            raise NotCosignedError(
                f"{node.kit.peer.upper()} has not cosigned the log of {node.kit.name.upper()} yet.",
                "The two do so within seconds of their start, if they can reach each other.",
            )
        size, tree = _parsed(own[0]).size, _tree_under(node, connection, own[0])
        return LogHead(
            server=node.kit.name,
            checkpoint=own[0],
            consistency=_hexes(tree.consistency(seen, size)) if seen <= size else [],
            certificates={node.kit.name: node.kit.log_certificate.decode(), node.kit.peer: peer[1]},
            conflict=None if conflict is None else conflict[0],
            proven=None if conflict is None or proven is None else int(proven[0].partition(":")[0]),
            forks=forks(connection),
        )


def forks(connection: sa.Connection) -> list[str]:
    """Checkpoints that the other server has signed, and that did not extend what it had shown before."""
    kept = log_rows.kept(connection, "forks")
    return [] if kept is None else list(json.loads(kept[0]))


def page(node: Node, caller: Caller, start: int) -> LogPage:
    """Entries from a number on, as far as the caller may know them."""
    with node.store.read() as connection:
        query = sa.select(log).where(log.c.number >= start).order_by(log.c.number).limit(_PAGE + 1)
        rows = connection.execute(query).mappings().all()
        last, _ = log_rows.newest(connection) or (-1, b"")
        owned = _owned(connection, caller) if caller.role == "requester" else None
    entries = [_shown(row, caller, owned) for row in rows[:_PAGE]]
    return LogPage(server=node.kit.name, entries=entries, more=len(rows) > _PAGE, size=last + 1)


def _owned(connection: sa.Connection, caller: Caller) -> set[str]:
    return set(connection.execute(sa.select(jobs.c.id).where(jobs.c.owner == caller.name)).scalars())


def _shown(row: sa.RowMapping, caller: Caller, owned: set[str] | None) -> LogEntry:
    line = log_rows.line_of(row)
    about = row["subject"] if row["action"] in _OF_ACCOUNTS else row["actor"]
    known = caller.role == "operator" or caller.name in (row["actor"], about)
    others = row["subject"] not in owned and '"job":' in row["entry"] if owned is not None else False
    if others or (owned is not None and not row["entry"] and not known):
        # A requester knows of its own jobs only, and cannot tell the others' from votes.
        return LogEntry(number=row["number"], leaf=bytes(row["hash"]).hex())
    opened = None
    if known:
        opened = LogLine(**{name: row[name] for name in LogLine.model_fields if name != "salt"}, salt=row["salt"].hex())
    # As it was written: if that is not what the rest gives, the row was changed.
    leaf = bytes(row["hash"]).hex() if caller.role == "operator" else None
    return LogEntry(number=row["number"], entry=row["entry"], line=line, leaf=leaf, opened=opened)


def _hexes(path: Iterable[bytes]) -> list[str]:
    return [one.hex() for one in path]


@lru_cache(maxsize=64)
def _parsed(note: str) -> Checkpoint:
    return parse(note)[0]


@lru_cache(maxsize=8)
def _certified(certificate: str, authority: bytes, server: str) -> Verifier:
    return certified(certificate.encode(), authority, "s0" if server == "s0" else "s1")
