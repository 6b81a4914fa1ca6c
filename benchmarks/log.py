"""Measure what the log of jobs costs: a vote at a server, on its disk and at a teacher; a job; reading it all.

Processor time of one core, and bytes of SQLite's file.

    python benchmarks/log.py --votes 100000
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import cast

import sqlalchemy as sa

from sedml.mpc.channel import memory_pair
from sedml.service.client.log_reading import check_proof
from sedml.service.kits import ServerKit, certified, provision
from sedml.service.log.merkle import check_consistency
from sedml.service.log.notes import parse
from sedml.service.server import public_log
from sedml.service.server.link.cosigning import cosign
from sedml.service.server.node import Node, open_node
from sedml.service.server.settings import load_settings
from sedml.service.server.storage.tables import log
from sedml.service.terms import Terms

_TOGETHER = 20
"""Votes that a busy server puts on disk at a time."""


def timed(count: int, work: Callable[[], object]) -> float:
    """Milliseconds of one core, each."""
    start = process_time()
    work()
    return 1e3 * (process_time() - start) / count


def cosigned(nodes: list[Node]) -> int:
    """Both servers, over a link in memory; the bytes that each sends."""
    ends = memory_pair(bytes(16))
    with ThreadPoolExecutor(2) as threads:
        for one in [threads.submit(cosign, node, end) for node, end in zip(nodes, ends, strict=True)]:
            one.result()
    return ends[0].traffic.bytes_sent


def bytes_of_log(node: Node) -> int:
    """Of the table and its index, in the file."""
    with node.store.read() as connection:
        query = sa.text("SELECT sum(pgsize) FROM dbstat WHERE name LIKE '%sedml_store_log%'")
        return int(connection.execute(query).scalar_one())


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--votes", type=int, default=100_000)
    votes = parser.parse_args().votes
    with tempfile.TemporaryDirectory() as folder:
        kits = Path(folder) / "kits"
        provision(kits, ("127.0.0.1:8440", "127.0.0.1:8441"), None, 0, 0)
        loaded = [ServerKit.load(kits / name) for name in ("s0", "s1")]
        nodes = [open_node(kit, load_settings(kit)) for kit in loaded]
        node, job = nodes[0], random.Random(1).randbytes(16).hex()
        with node.store.write() as connection:
            told = {"kind": "job", "job": job, "cohort": "teachers"}
            number = public_log.write(connection, node, "requester-1", "create", job, "created", told)
        before = bytes_of_log(node)

        def vote() -> None:
            for start in range(0, votes, _TOGETHER):
                with node.store.write() as connection:
                    names = [(f"teacher-{one:06}", job) for one in range(start, start + _TOGETHER)]
                    public_log.write_all(connection, node, names, "vote")

        def empty() -> None:
            for start in range(0, votes, _TOGETHER):
                with node.store.write() as connection:
                    connection.execute(sa.select(log.c.number).where(log.c.number == start))

        taken, without = timed(votes, vote), timed(votes, empty)
        size = (bytes_of_log(node) - before) / votes
        print(f"an entry of a vote at a server: {taken - without:.3f} ms, {size:.0f} bytes")
        print(f"the first checkpoint of {votes:,} entries, both servers: {timed(1, lambda: cosigned(nodes)):.0f} ms")
        again = timed(100, lambda: [cosigned(nodes) for _ in range(100)])
        print(f"cosigning, both servers together: {again:.1f} ms, {cosigned(nodes):,} bytes each way, 3 rounds")
        seen = 1000

        def prove() -> None:
            for one in range(1000):
                with node.store.read() as connection:
                    public_log.proofs(node, connection, [(number, seen + one)])

        print(f"proofs for a teacher at a server: {timed(1000, prove):.3f} ms")
        with node.store.read() as connection:
            proof = public_log.proofs(node, connection, [(number, seen)])[number, seen]
        terms = cast(Terms, SimpleNamespace(id=job, cohort="teachers"))  # all of them that a proof is about
        keys = {kit.name: certified(kit.log_certificate, kit.credentials.authority, kit.name) for kit in loaded}
        tree = node.log.reaches(seen)
        if proof is None or tree is None:
            raise SystemExit("the log was not cosigned")
        root, path, head = (
            tree.root(seen),
            [bytes.fromhex(one) for one in proof.consistency],
            parse(proof.checkpoint)[0].head,
        )

        def check() -> None:
            for _ in range(1000):
                check_proof(keys, "s0", terms, proof)
                check_consistency((seen, root), head, path)

        size = len(proof.model_dump_json())
        print(f"checking them at the teacher, for each server: {timed(1000, check):.3f} ms; {size:,} bytes came")
        for one in nodes:
            one.close()


if __name__ == "__main__":
    main()
