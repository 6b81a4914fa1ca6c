"""What a server has in memory after many ballots, and with many idle connections: `docs/explanation/performance.md`.

Job after job is created, every teacher votes on it with a ballot made beforehand, and it is deleted. Then clients
connect and say nothing, and leave.

    python benchmarks/server_memory.py --teachers 1000 --jobs 100 --idle 1000
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from stamina.instrumentation import set_on_retry_hooks

from sedml import silent
from sedml.lab.bench.deployment import memory, serving
from sedml.lab.bench.prepared import send_prepared
from sedml.lab.bench.resident import resident_mb
from sedml.lab.bench.workload import random_votes
from sedml.service.client import Requester
from sedml.service.kits import ClientKit, free_ports, provision

SAMPLES = 100


async def stay(kit: ClientKit, count: int) -> list[asyncio.StreamWriter]:
    """So many connections to each server, over which nothing is said."""
    context = ssl.create_default_context(cadata=kit.authority.decode("ascii"))
    found = []
    for name, access in kit.servers.items():
        address = urlsplit(access.url)
        for _ in range(count):
            made = asyncio.open_connection(address.hostname, address.port, ssl=context, server_hostname=name)
            found.append((await made)[1])
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teachers", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--idle", type=int, default=1000)
    asked = parser.parse_args()
    set_on_retry_hooks([])  # the servers take a moment to start
    votes = random_votes(SAMPLES, 10, asked.teachers, seed=0)
    with tempfile.TemporaryDirectory(prefix="sedml-bench-") as place:
        kits = Path(place) / "kits"
        s0, s1, link = (f"127.0.0.1:{port}" for port in free_ports(3))
        provision(kits, (s0, s1), link, asked.teachers, 1, budget=(16.0, 1e-5))
        teachers = sorted(kits.glob("teacher-*"))
        with serving(kits) as processes:
            requester = Requester(kits / "requester-1")
            print("ballots | S0, MB | S1, MB")

            def tell(what: str) -> None:
                print(what, *(f"{one:.0f}" for one in memory(processes, resident_mb)), sep=" | ", flush=True)

            for job in range(asked.jobs):
                made = requester.create(
                    np.full((SAMPLES, 1), job, np.float32),
                    classes=10,
                    threshold=0.6,
                    epsilon=8.0,
                    delta=1e-5,
                    min_teachers=asked.teachers,
                    deadline="1d",
                )
                send_prepared(teachers, made.terms, votes, silent)
                requester.delete(made.id)
                if job in {0, asked.jobs // 10, asked.jobs // 2, asked.jobs - 1}:
                    tell(f"{(job + 1) * asked.teachers:,}")

            async def idle() -> None:
                writers = await stay(ClientKit.load(teachers[0]), asked.idle)
                tell(f"{asked.idle:,} idle connections")
                for writer in writers:
                    writer.transport.abort()
                await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)

            asyncio.run(idle())
            requester.jobs()
            tell("they have left")


if __name__ == "__main__":
    main()
