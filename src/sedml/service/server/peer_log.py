"""What a server knows of the other one's log: what it has cosigned of it, and what it refused to.

Kept in notes: "peer", the newest checkpoint that it has cosigned, and "heads", sizes and roots of earlier ones too, so
that a log that was put back can prove how much it still has; "conflict", a checkpoint that does not extend them, until
the log goes on or an operator accepts it, and "proven", how much of it does; "forks", the first and the last of those
that the other server has signed; "alarms/s0" and "alarms/s1", how often there was one about whose log; "last", the
latest time of a cosignature.
"""

from __future__ import annotations

import json
from itertools import pairwise

import sqlalchemy as sa
import structlog

from sedml.errors import ConflictError, NotFoundError
from sedml.service.log.merkle import EMPTY
from sedml.service.log.notes import Checkpoint, Verifier, parse
from sedml.service.messages import RestoredLog
from sedml.service.server import public_log
from sedml.service.server.access import Caller, confirm, require
from sedml.service.server.node import Node, now
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import SCHEMA, log

Head = tuple[int, bytes]
"""Size and root."""

NOTHING: Head = (0, EMPTY)
"""What every log extends."""

MOST_HEADS = 64
_RESTORED = "restored"
_FORKS = 4  # the first that are kept, and as many of the newest

_FRESH = 600  # seconds for which a cosignature of the same checkpoint will do

_log = structlog.get_logger("sedml.log")


def heads(connection: sa.Connection) -> list[Head]:
    """What was cosigned of the other log, newest first; the older, the fewer."""
    kept = log_rows.kept(connection, "heads")
    return [] if kept is None else [_head(one) for one in kept[0].split()]


def thinned(found: list[Head]) -> list[Head]:
    """Without those between two others of which the older is at most twice as far from the newest one.

    So a log that has lost its last n entries can prove all but 2 n, or up to the last that was cosigned before, and of
    a log of n entries there are at most 2 log2(n) + 2.
    """
    newest, kept = found[0][0], found[:1]
    for one, older in pairwise(found[1:]):
        if newest - older[0] > 2 * (newest - kept[-1][0]):
            kept.append(one)
    return [*kept, *(found[1:] and found[-1:])][:MOST_HEADS]


def cosign(
    connection: sa.Connection, node: Node, checkpoint: Checkpoint, signed: str, certificate: str, grown: bool = False
) -> tuple[int, bytes]:
    """Cosign a checkpoint that extends all earlier ones, and keep it; when, and the signature.

    If it is proven to extend what was refused as well, that was merely old, and is no fork.
    """
    signer, last = node.kit.log_signer, _last(connection)
    conflict, before = (log_rows.kept(connection, name) for name in ("conflict", "peer"))
    time, same = _moment(node, last), before is not None and parse(before[0])[0] == checkpoint
    if same and time < last + _FRESH:
        time = last
    signature = signer.cosign(checkpoint, time)
    if not same or time != last:
        log_rows.keep(connection, "peer", signed + signer.verifier.line(signature, time), certificate)
        log_rows.keep(connection, "last", str(time))
    if not same:
        _keep_heads(connection, [checkpoint.head, *(one for one in heads(connection) if one != checkpoint.head)])
    if conflict is not None:
        log_rows.keep(connection, "conflict", None)
        if grown:
            _keep_forks(connection, [one for one in public_log.forks(connection) if one != conflict[0]])
    return time, signature


def _last(connection: sa.Connection) -> int:
    kept = log_rows.kept(connection, "last")
    return 0 if kept is None else int(kept[0])


def _moment(node: Node, last: int) -> int:
    """The time for a cosignature: never before one that was given, and no later than it while the clock is doubted.

    If there was none, by the clock that is behind: one that runs ahead must not bind what comes later.
    """
    if node.time.doubt() is None:
        return max(int(now(node)), last)
    return last or int(node.time.earlier())


def refused(connection: sa.Connection) -> Head | None:
    """What was not cosigned of the other log and is for an operator to accept, if anything."""
    conflict = log_rows.kept(connection, "conflict")
    return parse(conflict[0])[0].head if conflict and conflict[0] else None


def refuse(
    connection: sa.Connection,
    node: Node,
    what: str,
    shown: Checkpoint,
    proven: Head,
    signed: tuple[str, str] | None,
    grown: bool,
) -> None:
    """Keep a checkpoint that does not extend what is known, if it was signed, with an alarm, if it is another one.

    Of a log that is proven to have merely grown since, the first one stays, for operators to talk about.
    """
    conflict, kept = (log_rows.kept(connection, name) for name in ("conflict", "proven"))
    # One with another key cannot be accepted (`accept_restored`), so it does not stay in the place of one that can.
    same = signed and conflict and conflict[1] and _key(node, signed) == _key(node, conflict)
    earlier = refused(connection) if same else None
    if earlier and kept and (grown or shown.head == earlier):
        # What was proven once stays so: the other server does not get to take it back before it is accepted.
        log_rows.keep(connection, "proven", head_text(max(min(proven, earlier), _head(kept[0]))))
    elif signed or conflict is None:  # without a signature it proves nothing against anybody, and takes no place
        alarm(connection, node, node.kit.peer, what, shown)
        log_rows.keep(connection, "conflict", *(signed or ("",)))
        log_rows.keep(connection, "proven", head_text(proven))
    if signed is not None and shown.head not in heads(connection):
        forks = public_log.forks(connection)
        if shown not in (parse(one)[0] for one in forks):
            first, newest = [*forks, signed[0]][:_FORKS], [*forks, signed[0]][_FORKS:]
            _keep_forks(connection, [*first, *newest[-_FORKS:]])


def alarm(connection: sa.Connection, node: Node, whose: str, what: str, shown: Checkpoint) -> None:
    """Tell the operator that something is wrong with a log, each time; and everybody, of 1, 2, 4, 8, ... of them.

    The other server does not get to fill this one's log.
    """
    _log.error("log.alarm", log=whose, what=what, shown=head_text(shown.head))
    name = f"alarms/{whose}"
    kept = log_rows.kept(connection, name)
    count = 1 if kept is None else 1 + int(kept[0])
    log_rows.keep(connection, name, str(count))
    if count & (count - 1) == 0:
        public_log.write(connection, node, whose, public_log.ALARM, "log", what, {"kind": "alarm", "log": whose})


def accept_restored(node: Node, caller: Caller, wanted: RestoredLog) -> RestoredLog:
    """Go on from a log that the other server shows, which does not extend what it had shown: on record here."""
    require(caller, "operator")
    with node.store.write() as connection:
        confirm(connection, caller)
        connection.execute(sa.select(SCHEMA.versions).with_for_update())
        conflict, before = (log_rows.kept(connection, name) for name in ("conflict", "peer"))
        if conflict is None and _accepted(connection) == wanted.model_dump():
            return wanted  # it was accepted, and the answer was lost
        if conflict is None or conflict[1] is None:
            raise NotFoundError(
                f"The log of {node.kit.peer.upper()} extends what it has shown before.", "There is nothing to accept."
            )
        shown = parse(conflict[0])[0]
        if shown.head != (wanted.size, bytes.fromhex(wanted.root)):
            raise ConflictError(
                f"The log that {node.kit.peer.upper()} shows has {shown.size:,} entries and another root.",
                f"If its operator says the same: `sedml log --accept-restored {head_text(shown.head)}`.",
            )
        verifiers = [_key(node, one) for one in (before, conflict) if one and one[1]]
        if len(set(verifiers)) > 1:
            raise ConflictError(
                f"The log that {node.kit.peer.upper()} shows is signed with another key.",
                "Clients know the old one, so it cannot go on. Its operator has to put the key of the log back.",
            )
        known, time = heads(connection), _moment(node, _last(connection))
        was, kept = known[0] if known else NOTHING, log_rows.kept(connection, "proven")
        proven = NOTHING if kept is None else _head(kept[0])
        told = {"log": node.kit.peer, "was": _plain(was), "kept": _plain(proven), "now": _plain(shown.head)}
        entry = {"kind": _RESTORED, "at": time} | told
        public_log.write(connection, node, caller.name, _RESTORED, node.kit.peer, entry=entry)
        log_rows.keep(connection, "peer", *conflict)
        log_rows.keep(connection, "conflict", None)
        _keep_heads(connection, [shown.head, *(one for one in known if one[0] <= proven[0] and one != shown.head)])
        # What is cosigned from now on is later than the entry, to the second: clients tell the two logs by that.
        log_rows.keep(connection, "last", str(time + 1))
    node.wake()
    return wanted


def _accepted(connection: sa.Connection) -> object:
    """What is on record as accepted, last."""
    query = sa.select(log.c.entry).where(log.c.action == _RESTORED).order_by(log.c.number.desc()).limit(1)
    entry = connection.execute(query).scalar()
    return None if entry is None else json.loads(entry)["now"]


def _key(node: Node, note: tuple[str, str | None]) -> Verifier:
    """What a note that is kept was signed with."""
    return public_log.peer_verifier(node, note[1] or "")


def _keep_forks(connection: sa.Connection, notes: list[str]) -> None:
    log_rows.keep(connection, "forks", json.dumps(notes))


def _keep_heads(connection: sa.Connection, found: list[Head]) -> None:
    log_rows.keep(connection, "heads", " ".join(map(head_text, thinned(found))))


def head_text(head: Head) -> str:
    """As people are shown it."""
    return f"{head[0]}:{head[1].hex()}"


def _head(text: str) -> Head:
    size, _, root = text.partition(":")
    return int(size), bytes.fromhex(root)


def _plain(head: Head) -> dict[str, object]:
    return {"size": head[0], "root": head[1].hex()}
