"""The two servers show each other their logs, and cosign what only adds to what they have seen.

1. `log/known`: sizes and roots of the other's log that each has cosigned, newest first, with the other's own signature
   under the newest; one that it has refused, if it has; and its own key with its certificate.
2. `log/shown`: each one's newest checkpoint, signed, and a proof that it extends the newest of those that it can; and
   one that it extends what was refused, if it does.
3. `log/cosigned`: each one's cosignature, or that there is none.

What a server cosigns it has on disk first, so it never cosigns two logs that are not one. If another connection was
quicker meanwhile, both begin again. A log that has fewer entries than it had, or other ones, gets no cosignature: its
checkpoint is kept, with how much of it is proven to be what it was, there is an alarm, and an operator has to look
(`peer_log.accept_restored`).
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from enum import IntEnum
from itertools import takewhile

import numpy as np
import sqlalchemy as sa
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from numpy.typing import NDArray

from sedml.errors import LogError
from sedml.mpc.channel import Channel
from sedml.service.kits import origin
from sedml.service.log.merkle import MOST_HASHES, check_consistency
from sedml.service.log.notes import Checkpoint, Verifier, parse
from sedml.service.server import peer_log, public_log
from sedml.service.server.node import Node, now
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import SCHEMA

_HEAD, _SIGNATURE, _CERTIFICATE, _HASH = 40, 64, 2048, 32
_HEADS = _HEAD * peer_log.MOST_HEADS
_TRIES = 16
_LOST = 8  # states of its own log that a server raises an alarm about; one for each time that it was put back
_AHEAD = 86_400  # seconds


class _Verdict(IntEnum):
    """What a server makes of the other's checkpoint."""

    COSIGNED = 1
    AGAIN = 2
    REFUSED = 3


@dataclass(frozen=True)
class _Shown:
    """The other server's checkpoint, as it came."""

    checkpoint: Checkpoint
    signature: bytes
    base: int
    """Which of the heads that are known the path begins at; nothing at all, beyond the last."""
    path: list[bytes]
    grown: list[bytes] | None
    """That it extends what was refused, if the other server says so."""
    certificate: str


def cosign(node: Node, channel: Channel) -> None:
    """Either server's side; raises `LogError` unless both have cosigned the other's log as it is now."""
    for _ in range(_TRIES):
        verdict, theirs = _once(node, channel)
        if _Verdict.REFUSED in (verdict, theirs):
            both = [node.kit.name.upper(), node.kit.peer.upper()]
            who, whose = both if verdict is _Verdict.REFUSED else reversed(both)
            raise LogError(
                f"{who} does not cosign the log of {whose}, which does not extend what it has shown before.",
                "No job runs until the operators have found out why: docs/how-to/operate/log.md says how to go on.",
            )
        if verdict is theirs is _Verdict.COSIGNED:
            return
    raise LogError("The two servers do not get to cosign each other's logs.", "Look at the load of both servers.")


def _once(node: Node, channel: Channel) -> tuple[_Verdict, _Verdict]:
    with node.store.read() as connection:
        known, signature = peer_log.heads(connection), _signature(node, connection)
        refused = peer_log.refused(connection) or peer_log.NOTHING
    certificate = x509.load_pem_x509_certificate(node.kit.log_certificate).public_bytes(Encoding.DER)
    told, vouched, not_cosigned, their_certificate = channel.exchange(
        0,
        "log/known",
        [
            _bytes(b"".join(map(_head, known)), _HEADS),
            _bytes(signature, _SIGNATURE),
            _bytes(_head(refused), _HEAD),
            _bytes(len(certificate).to_bytes(2) + certificate, _CERTIFICATE),
        ],
    )
    with node.store.read() as connection:
        checkpoint, tree = public_log.checkpoint_of(node, connection), public_log.tree_of(node, connection)
    seen = _read_heads(told.tobytes())
    base, common = next(
        (place, one)
        for place, one in enumerate([*seen, peer_log.NOTHING])
        if one[0] <= checkpoint.size and tree.root(one[0]) == one[1]
    )
    if base and seen:
        _alarm(node, checkpoint, Checkpoint(checkpoint.origin, *seen[0]), vouched.tobytes())
    proof = [_path(base, tree.consistency(common[0], checkpoint.size)), _path(0, [])]
    size, root = _read_head(not_cosigned.tobytes())
    if 0 < size <= checkpoint.size and tree.root(size) == root:
        proof[1] = _path(1, tree.consistency(size, checkpoint.size))
    head = _head(checkpoint.head) + node.kit.log_signer.sign(checkpoint)
    shown = channel.exchange(0, "log/shown", [_bytes(head, _HEAD + _SIGNATURE), *proof])
    verdict, time, cosignature = _examine(node, known, _read(node, shown, their_certificate))
    answer = bytes([verdict]) + time.to_bytes(8) + cosignature
    [came] = channel.exchange(0, "log/cosigned", [_bytes(answer, 9 + _SIGNATURE)])
    theirs = _Verdict(came[0]) if came[0] in list(_Verdict) else _Verdict.REFUSED
    if theirs is _Verdict.COSIGNED:
        _take(node, checkpoint, int.from_bytes(came[1:9].tobytes()), came[9:].tobytes())
    return verdict, theirs


def _read_heads(told: bytes) -> list[peer_log.Head]:
    """As many as there are before the first that is of nothing."""
    each = [told[start : start + _HEAD] for start in range(0, _HEADS, _HEAD)]
    return list(takewhile(lambda one: one[0] > 0, map(_read_head, each)))


def _signature(node: Node, connection: sa.Connection) -> bytes:
    """The other server's own, under what is known of its log."""
    kept = log_rows.kept(connection, "peer")
    if kept is None or kept[1] is None:
        return b""
    return public_log.peer_verifier(node, kept[1]).signature(kept[0])


def _read(node: Node, shown: list[NDArray[np.uint8]], certificate: NDArray[np.uint8]) -> _Shown:
    head, proof, grown, der = (one.tobytes() for one in (*shown, certificate))
    pem = ssl.DER_cert_to_PEM_cert(der[2 : 2 + int.from_bytes(der[:2])])
    name = origin(node.credentials.authority, node.kit.peer)
    checkpoint = Checkpoint(name, *_read_head(head[:_HEAD]))
    return _Shown(checkpoint, head[_HEAD:], proof[0], _hashes(proof), _hashes(grown) if grown[0] else None, pem)


def _examine(node: Node, known: list[peer_log.Head], shown: _Shown) -> tuple[_Verdict, int, bytes]:
    """Cosign, if it extends what is known; that is on disk before anybody hears of it."""
    signed, proven = None, peer_log.NOTHING
    with node.store.write() as connection:
        connection.execute(sa.select(SCHEMA.versions).with_for_update())
        if peer_log.heads(connection) != known:
            return _Verdict.AGAIN, 0, b""
        kept = log_rows.kept(connection, "peer")
        grown = _has_grown(peer_log.refused(connection), shown)
        try:
            verifier = public_log.peer_verifier(node, shown.certificate)
            note = f"{shown.checkpoint.text}\n{verifier.line(shown.signature)}"
            verifier.check(note)
            signed = note
            if kept is not None and kept[1] is not None and public_log.peer_verifier(node, kept[1]) != verifier:
                raise LogError("It is signed with another key.", "Ask the other operator.")
            base = [*known, peer_log.NOTHING][min(shown.base, len(known))]
            check_consistency(base, shown.checkpoint.head, shown.path)
            proven = base
            if shown.base and known:
                raise LogError("It does not extend what it was.", "Ask the other operator.")
        except LogError as error:
            about = None if signed is None else (signed, shown.certificate)
            peer_log.refuse(connection, node, error.what, shown.checkpoint, proven, about, grown)
            return _Verdict.REFUSED, 0, b""
        time, signature = peer_log.cosign(connection, node, shown.checkpoint, signed, shown.certificate, grown)
    return _Verdict.COSIGNED, time, signature


def _has_grown(refused: peer_log.Head | None, shown: _Shown) -> bool:
    """Whether it is proven to extend what was refused before."""
    if refused is None or shown.grown is None:
        return False
    try:
        check_consistency(refused, shown.checkpoint.head, shown.grown)
    except LogError:
        return False
    return True


def _alarm(node: Node, shown: Checkpoint, claimed: Checkpoint, signature: bytes) -> None:
    """Of this server's own log, if it has signed what it does not have; of the other's claim, if not."""
    own = node.kit.log_signer.verifier
    try:
        own.check(f"{claimed.text}\n{own.line(signature)}")
        name, most, whose = "lost", _LOST, node.kit.name
        what = "This server has signed more of its log than there is: it was put back."
    except LogError:
        name, most, whose = "claim", 1, node.kit.peer
        what = "It says it saw what this server's log never had, without proof."
    with node.store.write() as connection:
        connection.execute(sa.select(SCHEMA.versions).with_for_update())
        kept = log_rows.kept(connection, name)
        # Who repeats all that this server had signed before it was put back is heard a few times, and no more.
        said, earlier = peer_log.head_text(claimed.head), [] if kept is None else kept[0].split()
        if said not in earlier and len(earlier) < most:
            log_rows.keep(connection, name, " ".join([*earlier, said]))
            peer_log.alarm(connection, node, whose, what, shown)


def _take(node: Node, checkpoint: Checkpoint, time: int, signature: bytes) -> None:
    """Keep the other server's cosignature, if it is one, unless there is one of a longer log already."""
    signer = node.kit.log_signer
    with node.store.write() as connection:
        connection.execute(sa.select(SCHEMA.versions).with_for_update())
        peer = log_rows.kept(connection, "peer")
        if peer is None or peer[1] is None:
            return
        verifier: Verifier = public_log.peer_verifier(node, peer[1])
        own = signer.verifier.line(signer.sign(checkpoint))
        note = f"{checkpoint.text}\n{own}{verifier.line(signature, time)}"
        verifier.cosigned_at(note)
        kept = log_rows.kept(connection, "own")
        known, last = (None, 0) if kept is None else (parse(kept[0])[0], verifier.cosigned_at(kept[0]))
        # What was taken once stays good. While this clock is doubted, which the other server has a hand in, the limit
        # moves on with time that passes.
        passed = node.log.since_taken(node.steady())
        doubted = node.time.doubt() is not None
        limit = last + (0 if not doubted else _AHEAD if passed is None else passed)
        moment = node.time.earlier() if doubted else now(node)
        if time > max(moment + _AHEAD, limit):
            # Who has seen that takes no later checkpoint for later, until then.
            raise LogError(f"{node.kit.peer.upper()} cosigns at a time that is yet to come.", "Look at both clocks.")
        again = known == checkpoint and time <= last
        if not again and (known is None or known.size <= checkpoint.size):
            log_rows.keep(connection, "own", note)
            node.log.taken = node.steady()


def _head(head: peer_log.Head) -> bytes:
    return head[0].to_bytes(8) + head[1]


def _read_head(told: bytes) -> peer_log.Head:
    return int.from_bytes(told[:8]), told[8:]


def _path(base: int, path: list[bytes]) -> NDArray[np.uint8]:
    return _bytes(bytes([base, len(path)]) + b"".join(path), 2 + _HASH * MOST_HASHES)


def _hashes(proof: bytes) -> list[bytes]:
    return [proof[2 + _HASH * place : 2 + _HASH * (place + 1)] for place in range(min(proof[1], MOST_HASHES))]


def _bytes(content: bytes, size: int) -> NDArray[np.uint8]:
    return np.frombuffer(content.ljust(size, b"\x00"), np.uint8)
