"""Measure what counting takes in a large deployment, and print the model of `docs/explanation/scale.md`.

Measured here, in seconds of one core: reading a page of a ballot from a server's store, opening it and adding it up,
at each server. What follows the count hardly depends on the teachers: `sedml bench aggregate` measures it.

    python benchmarks/scale.py --teachers 1000000 --samples 10000
"""

from __future__ import annotations

import argparse
import secrets
import tempfile
from dataclasses import replace
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any, cast

import sqlalchemy as sa

from sedml.mpc.kernel import kernel_in_use
from sedml.protocol.ballots import kept_bytes
from sedml.protocol.task import Task
from sedml.service.kits import ServerKit, provision
from sedml.service.server.node import open_node
from sedml.service.server.run.block_counts import counter
from sedml.service.server.settings import load_settings
from sedml.service.server.storage import tables
from sedml.service.server.storage.vault import page_label

BALLOTS = 500


def counting(folder: Path, task: Task, role: int) -> float:
    """Seconds of a core for a whole page of one ballot."""
    kit = ServerKit.load(folder / f"s{role}")
    node, job = open_node(kit, load_settings(kit)), secrets.token_hex(16)
    kept = bytes(kept_bytes(role, task.ballot.page(0)))
    seats = [
        {"job": job, "teacher": f"teacher-{seat}", "name": "00" * 32, "received_at": 0.0, "seat": seat}
        for seat in range(BALLOTS)
    ]
    pages = [
        {
            "job": job,
            "page": 0,
            "teacher": one["teacher"],
            "sealed": node.vault.seal(job, page_label(one["teacher"], 0), kept),
        }
        for one in seats
    ]
    with node.store.write() as connection:
        connection.execute(sa.text("PRAGMA defer_foreign_keys = ON"))
        connection.execute(sa.insert(tables.ballots), seats)
        connection.execute(sa.insert(tables.ballot_pages), pages)
        inside = SimpleNamespace(role=role, vault=node.vault, store=SimpleNamespace(read=lambda: _Open(connection)))
        few = replace(task, teachers=BALLOTS, threshold=BALLOTS // 2)
        counts = counter(cast(Any, inside), cast(Any, SimpleNamespace(id=job)), few)
        start = process_time()
        counts(next(few.blocks))
        taken = process_time() - start
        connection.execute(sa.delete(tables.ballot_pages))
        connection.execute(sa.delete(tables.ballots))
    node.close()
    return taken / BALLOTS


class _Open:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> sa.Connection:
        return self._connection

    def __exit__(self, *_: object) -> None:
        pass


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teachers", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=10_000)
    asked = parser.parse_args()
    task = Task(10, asked.samples, asked.teachers, asked.teachers // 2, 100.0)
    whole = asked.teachers * asked.samples / task.ballot.page(0).samples
    sizes = task.ballot.sizes
    print(f"kernel: {kernel_in_use()}")
    print(f"{task.block_count} blocks of {task.ands} AND gates a sample")
    with tempfile.TemporaryDirectory() as place:
        provision(Path(place) / "kits", ("127.0.0.1:8440", "127.0.0.1:8441"), None, 0, 0)
        for role in (0, 1):
            page = counting(Path(place) / "kits", task, role)
            sent = asked.teachers * sizes[role] / 1e9
            minutes = page * whole / 60
            print(f"S{role}: {page * 1e6:.0f} us a page, {minutes:.1f} minutes of a core; {sent:,.0f} GB of uploads")


if __name__ == "__main__":
    main()
