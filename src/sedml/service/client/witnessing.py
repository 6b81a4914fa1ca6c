"""A witness: somebody in a third place who cosigns the checkpoints of both logs, each only if it extends the last.

Its kit needs no account at the servers. What it has seen last, its key and the notes that it has cosigned are in `log/`
of the kit; the notes are for everybody, and whoever reads a log can hold it against them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sedml.errors import InputError, LogError, warn
from sedml.service.client.connection import PATIENCE, Connection, connected
from sedml.service.client.log_reading import LogReading, check_note, keys_of, newest_head, read_log, went_on
from sedml.service.client.log_summary import odd_age
from sedml.service.client.pair import Pair, from_both, paired
from sedml.service.kits import ClientKit, origin
from sedml.service.kits.folder import inner_folder, read_bytes, replace_private
from sedml.service.log.notes import Checkpoint, Signer, Verifier, parse
from sedml.service.messages import ServerName


@dataclass(frozen=True)
class Witnessed:
    """A checkpoint that was cosigned."""

    server: ServerName
    checkpoint: Checkpoint
    note: str
    path: Path
    vkey: str


async def witness(kit: ClientKit, patience: float = PATIENCE) -> list[Witnessed]:
    """Cosign the newest checkpoint of each log, if it extends the one that was cosigned last; raises if one does not.

    Each by itself: a server that gives no answer, or a wrong one, keeps nobody from cosigning the other one's log.
    """
    signer = _signer(kit)
    async with paired(kit, patience) as pair:
        return list(await from_both(pair, lambda server: _witness(kit, pair, server, signer)))


async def _witness(kit: ClientKit, pair: Pair, server: Connection, signer: Signer) -> Witnessed:
    head, checkpoint, at, _ = await newest_head(kit, pair, server)
    name, keys, time = server.name, keys_of(kit), int(datetime.now(UTC).timestamp())
    if odd := odd_age(name, time - at):
        warn(odd, "If it stays so, somebody keeps newer ones from you: tell both operators.")
    # The two signatures that were checked, and no other line of the server's: that could spoil the note.
    own, other = keys[name], keys["s1" if name == "s0" else "s0"]
    stamped, signature = other.cosignature(head.checkpoint)
    known = own.line(own.signature(head.checkpoint)) + other.line(signature, stamped)
    cosigned = f"{checkpoint.text}\n{known}" + signer.verifier.line(signer.cosign(checkpoint, time), time)
    path = inner_folder(kit.folder, "log") / f"{name}.witnessed"
    replace_private(path, cosigned)
    return Witnessed(name, checkpoint, cosigned, path, signer.verifier.vkey)


def check_witnessed(
    kit: ClientKit, reading: LogReading, note: str, verifier: Verifier, other: LogReading | None = None
) -> int | None:
    """Up to when a witness vouches for the log that was read here; raises if it has seen another one.

    It was shown what the other server had cosigned by then, which may have been long before. None if it saw the log
    before that was put back, as the other log, if that was read, has it on record. If it saw more than was read here,
    the log may have grown since: it is read again.
    """
    checkpoint, at = check_note(keys_of(kit), reading.server, note)
    time = verifier.cosigned_at(note)
    if _begins(reading, checkpoint):
        return min(time, at)
    since = None if other is None else went_on(other, checkpoint, reading.server, at, reading.cosigned_at)
    if since is not None and _begins(reading, since):
        return None
    if checkpoint.size > reading.checkpoint.size:
        newer = anyio.run(_read_again, kit, reading.server)
        if _begins(newer, checkpoint) and _begins(newer, reading.checkpoint):
            return min(time, at)
    raise LogError(
        f"{reading.server.upper()} has shown the witness a log that is not the one it shows here.",
        "Keep both notes, and tell both operators: one of the two was shown a forged log, or an old one.",
    )


def _begins(reading: LogReading, earlier: Checkpoint) -> bool:
    """Whether a log that was read begins with an earlier one."""
    return earlier.size <= reading.tree.size and reading.tree.root(earlier.size) == earlier.root


async def _read_again(kit: ClientKit, name: ServerName) -> LogReading:
    async with connected(kit, name) as server:
        return await read_log(kit, Pair(server, server), server, excused=False)


def read_vkey(text: str) -> Verifier:
    """A witness's public key, as `sedml witness` prints it."""
    import base64
    import binascii

    try:
        name, _, encoded = text.strip().split("+", 2)
        found = Verifier(name, base64.b64decode(encoded, validate=True)[1:])
    except (ValueError, binascii.Error):
        found = None
    # Of a name that somebody made up, nothing may steer the terminal that shows it, or look like more than a name.
    if found is None or found.vkey != text.strip() or not re.fullmatch("[!-~]{1,128}", found.name):
        raise InputError("This is not the key of a witness.", "Give the line that `sedml witness` prints.")
    return found


def log_of(kit: ClientKit, note: str) -> ServerName:
    """Whose log a note is about."""
    checkpoint, _ = parse(note)
    for name in kit.servers:
        if checkpoint.origin == origin(kit.authority, name):
            return name
    raise LogError("The note is about a log of another deployment.", "Give one of this deployment's.")


def _signer(kit: ClientKit) -> Signer:
    path = inner_folder(kit.folder, "log") / "witness.key"
    if not path.exists():
        replace_private(path, Ed25519PrivateKey.generate().private_bytes_raw().hex())
    name = f"{origin(kit.authority, 's0').partition('/')[0]}/witness/{kit.name}"
    return Signer(name, Ed25519PrivateKey.from_private_bytes(bytes.fromhex(read_bytes(path).decode())))
