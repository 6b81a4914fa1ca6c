"""Measure what a large deployment takes besides the protocol, and print the model of `docs/scale.md`.

Measured here, in seconds of one core: reading a ballot's page from a server's store and opening it, at each server, and
copying a byte from S1's worker to S0's on a cluster. Rounds and bytes of the job are exact; what a vote costs in the
protocol is `--vote-ns`, as `benchmarks/block_cost.py` has it.

    python benchmarks/scale.py --teachers 1000000 --samples 10000 --machines 64 --cores 16
"""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import tempfile
import threading
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import sqlalchemy as sa

from sedml.mpc.prg import Seed
from sedml.protocol import ballots
from sedml.protocol.links import cost_of
from sedml.protocol.task import Block, Task
from sedml.service.kits import ServerKit, provision
from sedml.service.server.node import open_node
from sedml.service.server.run import ray_workers
from sedml.service.server.run.block_work import open_votes
from sedml.service.server.run.blocks import read_sealed_votes
from sedml.service.server.settings import load_settings
from sedml.service.server.storage import tables

ROWS = 10_000
COPIED = 1 << 30
SYNC = 1e-3
"""Seconds that a disk takes to keep a message of the record."""


def rows(folder: Path, task: Task, role: int) -> tuple[float, float]:
    """Seconds to read a ballot's page of a block, and to open it and expand it."""
    kit = ServerKit.load(folder / f"s{role}")
    node, job = open_node(kit, load_settings(kit)), secrets.token_hex(16)
    half = ballots.cast(np.zeros(task.samples, np.int16), task.ballot, Seed.random())[role]
    made = [
        {
            "job": job,
            "teacher": f"teacher-{seat}",
            "submission": secrets.token_hex(16),
            "digest": "",
            "received_at": 0.0,
            "seat": seat,
            "sealed_half": node.vault.seal_pages(job, f"ballot/teacher-{seat}", half, task.ballot.page_bytes(role)),
        }
        for seat in range(ROWS)
    ]
    with node.store.write() as connection:
        connection.execute(sa.text("PRAGMA defer_foreign_keys = ON"))
        connection.execute(sa.insert(tables.ballots), made)
        block, record = Block(0, 0, task.block_samples), cast(Any, SimpleNamespace(id=job))
        inside = SimpleNamespace(role=role, store=SimpleNamespace(read=lambda: _Open(connection)))
        start = process_time()
        sealed = list(read_sealed_votes(cast(Any, inside), record, task, block))
        read = process_time()
        open_votes(node.vault, job, role, replace(task, teachers=ROWS, threshold=ROWS // 2), block, sealed)
        opened = process_time()
        connection.execute(sa.delete(tables.ballots))
    node.close()
    return (read - start) / ROWS, (opened - read) / ROWS


class _Open:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> sa.Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        pass


def copying() -> float:
    """Seconds of a core to copy a byte from one connection to another."""
    (a, b), (c, d) = _tcp(), _tcp()
    ended = count()
    for pair in ((b, c), (c, b)):
        threading.Thread(target=ray_workers._copy, args=(*pair, ended), daemon=True).start()
    if not (sender := os.fork()):
        space = bytes(1 << 20)
        for _ in range(COPIED >> 20):
            a.sendall(space)
        os._exit(0)
    if not (receiver := os.fork()):
        left, space = COPIED, bytearray(1 << 18)
        while left > 0:
            left -= d.recv_into(space)
        os._exit(0)
    start = process_time()
    for child in (sender, receiver):
        os.waitpid(child, 0)
    return (process_time() - start) / COPIED


def _tcp() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teachers", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--machines", type=int, default=64)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--gbit", type=float, default=10.0)
    parser.add_argument("--vote-ns", type=float, default=690.0)
    asked = parser.parse_args()
    half = asked.teachers // 2
    task = Task(10, asked.samples, asked.teachers, half, 100.0, 100.0)
    cost, pages = cost_of(task), task.block_count * asked.teachers
    with tempfile.TemporaryDirectory() as place:
        provision(Path(place) / "kits", ("127.0.0.1:8440", "127.0.0.1:8441"), None, 0, 0)
        found = [rows(Path(place) / "kits", task, role) for role in (0, 1)]
    byte = copying()
    print(
        f"{task.block_count} blocks of {task.block_samples}; {cost.rounds} rounds, {cost.bytes / 1e9:.0f} GB each way"
    )
    for role, (read, opened) in enumerate(found):
        print(f"S{role}: {read * 1e6:.1f} us to read a page, {opened * 1e6:.1f} us to open it")
    print(f"copying: {1e-9 / byte:.1f} GB/s a core")
    cores = asked.machines // 2 * asked.cores
    votes = asked.teachers * asked.samples
    workers = (votes * asked.vote_ns * 1e-9 + pages * max(opened for _, opened in found)) / cores
    print(f"workers, {cores} cores an operator: {workers:.0f} s")
    print(f"link of {asked.gbit:g} Gbit/s: {8 * cost.bytes / asked.gbit / 1e9:.0f} s")
    print(f"copying at S0: {2 * cost.bytes * byte:.0f} s of a core")
    print(f"record, a sync of {SYNC * 1e3:g} ms a round: {cost.rounds * SYNC:.0f} s")
    reading = [f"{pages * read:.0f} s at S{role}" for role, (read, _) in enumerate(found)]
    print(f"reading ballots, in one process: {', '.join(reading)}")


if __name__ == "__main__":
    main()
