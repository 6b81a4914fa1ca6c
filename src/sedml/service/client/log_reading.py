"""What a client checks of the servers' logs, and remembers in `log/` of its kit: keys, and the checkpoint it saw last.

Nobody's word is taken. A checkpoint counts if its server has signed it and the other one has cosigned it, with keys
that the authority of the kit has certified, and if it extends the one that was seen before. The other server's log is
the only excuse for one that does not: there its operator has put on record that the log was put back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import anyio

from sedml import Progress, silent
from sedml.errors import LogError, NotCosignedError, SedmlError, warn
from sedml.service.client.connection import Connection
from sedml.service.client.log_entries import said
from sedml.service.client.pair import Pair
from sedml.service.client.views import check_same_job
from sedml.service.kits import ClientKit, certified
from sedml.service.kits.client_kit import SERVERS
from sedml.service.kits.folder import inner_folder, locked, read_bytes, replace_private
from sedml.service.log.entries import commitment, entry_hash
from sedml.service.log.merkle import EMPTY, Tree, check_consistency, check_inclusion
from sedml.service.log.notes import Checkpoint, Verifier, parse
from sedml.service.messages import JobProof, JobStatus, LogEntry, LogHead, LogLine, LogPage, ServerName
from sedml.service.terms import Terms

T = TypeVar("T")

_FIRST_PAUSE, _LAST_PAUSE = 0.05, 1.0
# What is read of a log: a server could have a root cosigned of as many entries as it likes, and show them for ever.
_MOST = 2**24
_MOST_BYTES = 128 << 20  # of entries that say something, as they come: in memory they take up to seven times as much
_MOST_OF_ITS_OWN = 8 * _MOST_BYTES  # an operator is shown every line of its own server


@dataclass(frozen=True)
class Entry:
    """What a client may know of an entry of a log."""

    number: int
    what: dict[str, Any]
    """What everybody may know; empty if that is nothing."""
    line: LogLine | None
    """Who did what, if the client is the operator or is named."""


@dataclass(frozen=True)
class LogReading:
    """A log that was read from its first entry on, and is the one of its checkpoint."""

    server: ServerName
    note: str
    checkpoint: Checkpoint
    cosigned_at: int
    entries: tuple[Entry, ...]
    """Those that say something to this client."""
    later: int
    """Entries that came since, and are not cosigned yet."""
    head: LogHead
    tree: Tree = field(repr=False)
    known: int = 0
    """How many of the entries were read before the other log was read to its end."""
    left: int = 0
    """How many more bytes of entries are read, if it is read on."""

    def public(self, *kinds: str) -> Iterator[Entry]:
        """Entries of these kinds."""
        return (entry for entry in self.entries if entry.what.get("kind") in kinds)


def keys_of(kit: ClientKit) -> dict[ServerName, Verifier]:
    """The keys of both logs, if the kit has seen them."""
    folder = _folder(kit)
    paths: dict[ServerName, Path] = {name: folder / f"{name}.pem" for name in SERVERS}
    if not all(path.exists() for path in paths.values()):
        return {}
    return {name: certified(read_bytes(path), kit.authority, name) for name, path in paths.items()}


def seen(kit: ClientKit, name: ServerName) -> Checkpoint | None:
    """The checkpoint of a server's log that was seen last."""
    path = _folder(kit) / f"{name}.note"
    return parse(read_bytes(path).decode("utf-8", "replace"))[0] if path.exists() else None


def check_note(keys: dict[ServerName, Verifier], name: ServerName, note: str) -> tuple[Checkpoint, int]:
    """A checkpoint that its server has signed and the other one has cosigned, and when; raises otherwise."""
    checkpoint, own = parse(note)[0], keys[name]
    if checkpoint.origin != own.name:
        raise LogError(f"The checkpoint that {name.upper()} shows is of another log.", "Ask both operators.")
    own.check(note)
    return checkpoint, keys["s1" if name == "s0" else "s0"].cosigned_at(note)


def check_proof(keys: dict[ServerName, Verifier], name: ServerName, terms: Terms, proof: JobProof) -> Checkpoint:
    """Raise unless the job of these terms is in the log of a cosigned checkpoint, for their cohort; that."""
    checkpoint, _ = check_note(keys, name, proof.checkpoint)
    leaf, path = entry_hash(proof.entry, proof.line), _hashes(proof.path)
    check_inclusion(leaf, proof.number, checkpoint.size, path, checkpoint.root)
    told = said(proof.entry)
    if [told.get(key) for key in ("kind", "job", "cohort")] != ["job", terms.id, terms.cohort]:
        raise LogError(f"{name.upper()} shows the entry of something else in its log.", "Do not take part.")
    return checkpoint


async def proven(kit: ClientKit, pair: Pair, server: Connection, job: str, patience: float) -> JobStatus:
    """A job as a server sees it now, with proof that it is in a log which extends the one that was seen last."""
    until = anyio.current_time() + patience

    async def ask(size: int) -> tuple[JobStatus, str, list[str]]:
        pause = _FIRST_PAUSE
        while True:
            status = await server.get(f"/v1/jobs/{job}?seen={size}", JobStatus)
            check_same_job(job, status)
            if status.log is not None:
                check_proof(await _keys(kit, server), server.name, status.terms, status.log)
                return status, status.log.checkpoint, status.log.consistency
            if anyio.current_time() + pause > until:
                raise NotCosignedError(
                    f"Job {job} is not in a log of {server.name.upper()} that the other server has cosigned.",
                    "Nothing was sent. Try again in a moment; if it stays so, tell both operators.",
                )
            await anyio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)

    return (await _followed(kit, pair, server, ask))[0]


async def newest_head(
    kit: ClientKit, pair: Pair, server: Connection, *, excused: bool = True
) -> tuple[LogHead, Checkpoint, int, bool]:
    """The newest cosigned checkpoint, which extends the one that was seen last; and when it was cosigned.

    And whether it extends that only because the other log says that this one was put back.
    """
    keys = await _keys(kit, server)
    other = keys["s1" if server.name == "s0" else "s0"]

    async def ask(size: int) -> tuple[tuple[LogHead, Checkpoint, int], str, list[str]]:
        found = await server.get(f"/v1/log/checkpoint?seen={size}", LogHead)
        checked = check_note(keys, server.name, found.checkpoint)
        return (_signed(found, other), *checked), found.checkpoint, found.consistency

    found, restored = await _followed(kit, pair, server, ask, excused=excused)
    return *found, restored


async def _followed(
    kit: ClientKit,
    pair: Pair,
    server: Connection,
    ask: Callable[[int], Awaitable[tuple[T, str, list[str]]]],
    *,
    excused: bool = True,
) -> tuple[T, bool]:
    """What comes with a checkpoint, once that is seen to extend the one before, and is remembered in its place.

    `ask` gets the size of the one before, and gives a checkpoint with a proof from there. Also whether it took an
    excuse.
    """
    folder, restored = _folder(kit), False
    stored = before = seen(kit, server.name)
    while True:
        result, note, path = await ask(0 if before is None else before.size)
        checkpoint = parse(note)[0]
        try:
            check_consistency((0, EMPTY) if before is None else before.head, checkpoint.head, _hashes(path))
        except LogError as error:
            excuse = None
            if excused and before and before == stored:
                with suppress(SedmlError):  # whoever has no account, or gets no answer, still tells what it has seen
                    excuse = await _excuse(kit, pair, server, before, note)
            if excuse is None:
                raise LogError(
                    f"The log of {server.name.upper()} does not extend what it has shown this kit before: {error.what}",
                    "Do not take part, and tell both operators: docs/how-to/operate/log.md says what they do next, and "
                    "what to do if it was put back and you cannot be shown that.",
                ) from None
            what = f"The log of {server.name.upper()} was put back to an older state, and the other operator knows it."
            warn(what, "`sedml log` shows when, and how many entries are proven to be what they were.")
            before, excused, restored = excuse, False, True  # one excuse goes all the way
            continue
        with locked(folder):
            newest = seen(kit, server.name)
            if newest == stored:
                if newest != checkpoint:
                    replace_private(folder / f"{server.name}.note", note)
                return result, restored
            # Another command with this kit was quicker: what it saw must fit as well.
            stored = before = newest


async def _excuse(kit: ClientKit, pair: Pair, server: Connection, before: Checkpoint, note: str) -> Checkpoint | None:
    """From which checkpoint on the other server goes on cosigning a log that was put back, if it says so in its own.

    It leads forward only: from what was cosigned before it was accepted to what was cosigned later. So whoever has gone
    over stays there, and one who missed an entry of the kind goes from one to the next.
    """
    other, keys = pair.s1 if server is pair.s0 else pair.s0, await _keys(kit, server)
    _, since = check_note(
        keys, server.name, read_bytes(_folder(kit) / f"{server.name}.note").decode("utf-8", "replace")
    )
    _, until = check_note(keys, server.name, note)
    return went_on(await read_log(kit, pair, other, excused=False), before, server.name, since, until)


def went_on(other: LogReading, before: Checkpoint, name: ServerName, since: int, until: int) -> Checkpoint | None:
    """From which checkpoint on a log goes on that was put back between two times, if the other one says so."""
    found = None
    for entry in other.public("restored"):
        was, kept, now = (entry.what[key] for key in ("was", "kept", "now"))
        here = entry.what["log"] == name and since <= entry.what["at"] < until
        # What is proven to be what it was needs no excuse: who saw that, or more than there was, was shown another log.
        of_it = before.size < was["size"] or before.head == (was["size"], bytes.fromhex(was["root"]))
        if here and kept["size"] < before.size and of_it:
            found = before = Checkpoint(before.origin, now["size"], bytes.fromhex(now["root"]))
    return found


async def read_log(
    kit: ClientKit,
    pair: Pair,
    server: Connection,
    progress: Progress = silent,
    *,
    excused: bool = True,
    onto: LogReading | None = None,
) -> LogReading:
    """Read all of a log, or what came since, and see that it is the one of its newest cosigned checkpoint."""
    head, checkpoint, time, _ = await newest_head(kit, pair, server, excused=excused)
    if checkpoint.size > _MOST:
        raise _too_much(server, f"has {checkpoint.size:,} entries")
    tree, entries = (Tree(), list[Entry]()) if onto is None else (onto.tree, list(onto.entries))
    start, later, more = tree.size, 0, True
    most = _MOST_OF_ITS_OWN if kit.role == "operator" else _MOST_BYTES
    left = most if onto is None else onto.left
    while more:
        page = await server.get(f"/v1/log?start={start}", LogPage)
        for shown in page.entries:
            if shown.number != start:
                raise LogError(f"{server.name.upper()} leaves out entry {start} of its log.", "Ask its operator.")
            start += 1
            if shown.number >= checkpoint.size:
                break
            tree.add(_leaf(kit, server.name, shown))
            if shown.entry or shown.opened is not None:
                left -= len(shown.model_dump_json())
                if left < 0:
                    raise _too_much(server, f"has more than {most >> 20} MiB of entries that say something")
                entries.append(Entry(shown.number, said(shown.entry) if shown.entry else {}, shown.opened))
        more = page.more and bool(page.entries) and start < checkpoint.size
        later = max(0, page.size - checkpoint.size)
        progress(f"reading the log of {server.name.upper()}", min(start, checkpoint.size), checkpoint.size)
    if tree.size != checkpoint.size or tree.root(tree.size) != checkpoint.root:
        raise LogError(
            f"The entries that {server.name.upper()} shows are not those of its checkpoint.",
            "One of them was changed or left out. Keep the store as it is, and tell both operators.",
        )
    known = 0 if onto is None else onto.checkpoint.size
    return LogReading(server.name, head.checkpoint, checkpoint, time, tuple(entries), later, head, tree, known, left)


def _too_much(server: Connection, what: str) -> LogError:
    return LogError(
        f"The log of {server.name.upper()} {what}, more than are read at a time.",
        "A server that keeps to the published code gets there after some million votes: ask its operator.",
    )


def _signed(head: LogHead, other: Verifier) -> LogHead:
    """Of what a server keeps of the other one's log only what that has signed: nobody is accused on its word alone."""

    def says(note: str) -> bool:
        try:
            other.check(note)
        except LogError:
            return False
        return True

    conflict = head.conflict if head.conflict is None or says(head.conflict) else ""
    return head.model_copy(update={"conflict": conflict, "forks": list(filter(says, head.forks))})


def _leaf(kit: ClientKit, server: ServerName, shown: LogEntry) -> bytes:
    """The hash of an entry, from all that is shown of it; of a job of another requester, that is the hash alone."""
    if kit.role == "requester" and shown.leaf and (shown.entry, shown.line, shown.opened) == (None,) * 3:
        return bytes.fromhex(shown.leaf)
    if shown.entry is None or shown.line is None:
        raise LogError(
            f"{server.upper()} does not show entry {shown.number} of its log.",
            "It hides what everybody may know. Tell both operators.",
        )
    leaf, line = entry_hash(shown.entry, shown.line), shown.line
    if shown.opened is not None:
        opened = shown.opened.model_dump()
        line = commitment(bytes.fromhex(opened.pop("salt")), **opened)
    if shown.leaf not in (None, leaf.hex()) or line != shown.line:
        raise LogError(
            f"Entry {shown.number} of the log of {server.upper()} is not what was written.",
            "Somebody has changed the store. Keep it as it is, and find out who could write to it.",
        )
    return leaf


async def _keys(kit: ClientKit, server: Connection) -> dict[ServerName, Verifier]:
    """The keys of both logs; at the first time, as a server shows them and the authority has certified them."""
    if keys := keys_of(kit):
        return keys
    shown = (await server.get("/v1/log/checkpoint", LogHead)).certificates
    found = {name: certified(shown.get(name, "").encode(), kit.authority, name) for name in SERVERS}
    folder = _folder(kit)
    with locked(folder):
        for name in SERVERS:
            if not (folder / f"{name}.pem").exists():
                replace_private(folder / f"{name}.pem", shown[name])
    return keys_of(kit) or found


def _hashes(path: list[str]) -> list[bytes]:
    return [bytes.fromhex(one) for one in path]


def _folder(kit: ClientKit) -> Path:
    return inner_folder(kit.folder, "log")
