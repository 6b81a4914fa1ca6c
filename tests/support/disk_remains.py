"""What is left on servers' disks of what was deleted, for whoever has the disks and the kits."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import closing
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from sedml.protocol.ballots import add_up
from sedml.protocol.ballots.field import P
from sedml.service.server.node import Node
from sedml.service.server.storage.tables import ballot_pages, blocks
from sedml.service.server.storage.vault import page_label
from sedml.service.terms import Terms

_LOG_HEADER, _FRAME_HEADER = 32, 24


def sealed_inputs(connection: sa.Connection, job: str) -> set[bytes]:
    """Halves of ballots as they lie in the tables now."""
    halves = connection.execute(sa.select(ballot_pages.c.sealed).where(ballot_pages.c.job == job)).scalars().all()
    return {bytes(sealed) for sealed in halves}


def sealed_labels(node: Node) -> set[bytes]:
    """Label shares as they lie in the tables now."""
    with node.store.read() as connection:
        return {bytes(sealed) for sealed in connection.execute(sa.select(blocks.c.sealed_labels)).scalars() if sealed}


def remains(folder: Path, secrets: Set[bytes]) -> dict[str, int]:
    """By the name of a file: of how many secrets it holds any fifteen bytes in a row."""
    sought = [_words(secret) for secret in secrets]
    whose = np.repeat(np.arange(len(sought)), [len(words) for words in sought])
    found: Counter[str] = Counter()
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        there = np.concatenate([_words(data[shift:]) for shift in range(8)])
        found[path.name] += len(np.unique(whose[np.isin(np.concatenate(sought), there)]))
    return dict(+found)


def _words(data: bytes) -> np.ndarray:
    return np.frombuffer(data[: len(data) // 8 * 8], np.uint64)


def rebuilt_votes(nodes: Sequence[Node], terms: Terms, scratch: Path) -> dict[str, np.ndarray]:
    """The votes on a job by teacher, from whatever halves both disks still have and the keys of both kits."""
    halves = [_opened_halves(node, terms, scratch) for node in nodes]
    teachers = sorted(set(halves[0]) & set(halves[1]))
    if not teachers:
        return {}
    page = terms.ballot.page(0)  # no test has more
    found = {}
    for one in teachers:
        rows = (add_up(0, [halves[0][one]], page).astype(np.int64) + add_up(1, [halves[1][one]], page)) % P
        found[one] = np.where(rows.any(axis=1), rows.argmax(axis=1), -1).astype(np.int16)
    return found


def _opened_halves(node: Node, terms: Terms, scratch: Path) -> dict[str, bytes]:
    return {
        teacher: node.vault.open(terms.id, page_label(teacher, 0), sealed)
        for state in _earlier_states(Path(node.settings.database), scratch, terms.id)
        for teacher, sealed in state.items()
    }


def _earlier_states(database: Path, scratch: Path, job: str) -> Iterator[dict[str, bytes]]:
    """The ballots of a job in each state that SQLite finds if the log is cut off after one of its transactions."""
    log = database.with_name(f"{database.name}-wal")
    data = log.read_bytes() if log.exists() else b""
    copy, copied_log, index = (scratch / f"copy.db{suffix}" for suffix in ("", "-wal", "-shm"))
    for end in (0, *_transactions(data)):
        shutil.copy(database, copy)
        copied_log.write_bytes(data[:end])
        index.unlink(missing_ok=True)
        with closing(sqlite3.connect(copy)) as connection:
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [ballot_pages.name]).fetchall():
                query = f"SELECT teacher, sealed FROM {ballot_pages.name} WHERE job = ? AND page = 0"
                yield dict(connection.execute(query, [job]).fetchall())


def _transactions(log: bytes) -> Iterator[int]:
    """Where in a log each transaction ends: a frame that ends one has the size of the database in its header."""
    frame = _FRAME_HEADER + struct.unpack_from(">I", log, 8)[0] if log else 1
    for start in range(_LOG_HEADER, len(log) - frame + 1, frame):
        if struct.unpack_from(">I", log, start + 4)[0]:
            yield start + frame
