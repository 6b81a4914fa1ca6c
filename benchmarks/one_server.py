"""Processor time of one server alone, on what the other one said before: steady where other work shares the machine.

Both servers run a block once, in two threads, and what S0 receives is kept. Then S0 runs the same block again and again
against that. Links, waiting and the other server are left out, so times are below those of `sedml bench aggregate`;
to compare two versions, or the kernel in C with NumPy (`SEDML_KERNEL=off`), that is what one wants.

    python benchmarks/one_server.py --repeat 30
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from sedml.lab.bench.workload import random_counts, random_votes
from sedml.lab.paper.dealing import Seeds, deal_block, dealt_correlations
from sedml.lab.paper.lab_block import run_block
from sedml.lab.paper.lab_run import ballot_loaders, cast_ballots, counts_loaders
from sedml.lab.paper.lab_task import LabTask
from sedml.mpc.channel import Channel, memory_pair
from sedml.mpc.kernel import kernel_in_use
from sedml.mpc.malloc import keep_freed_memory
from sedml.mpc.ot.extension import Extension, set_up
from sedml.lab.semi_honest.recipe import make
from sedml.lab.semi_honest.party import OneUse, Party
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.lab.semi_honest.block import recipes
from sedml.protocol.drawn_noise import DrawnNoise

JOBS = [
    ("fused", "counts", "servers", 1000),
    ("garbled", "counts", "servers", 1000),
    ("fused", "ballots", "servers", 500),
    ("fused", "counts", "servers", 1_000_000),
    ("fused", "counts", "dealer", 1000),
]
SEEDS = Seed(b"0" * 32), Seed(b"1" * 32)


@dataclass
class Heard:
    """Stands for a link: what came when both were there, again."""

    link: Channel
    live: bool = True
    said: list[list[Array]] = field(default_factory=list)
    at: int = 0

    @property
    def traffic(self):  # noqa: ANN201
        return self.link.traffic

    def exchange(self, block: int, step: str, arrays: Sequence[Array]) -> list[Array]:
        if self.live:
            self.said.append([array.copy() for array in self.link.exchange(block, step, arrays)])
        self.at += 1
        return [array.copy() for array in self.said[self.at - 1]]


def measure(task: LabTask, repeat: int) -> list[float]:
    """Milliseconds of dealing, of what S0 does before the votes are there, and after, for the first block."""
    block = next(iter(task.blocks))
    if task.votes == "counts":
        loaders = counts_loaders(task, random_counts(task.samples, task.classes, task.teachers, seed=1))
    else:
        votes = random_votes(task.samples, task.classes, task.teachers, seed=1)
        loaders = ballot_loaders(task, cast_ballots(task, votes))
    shares = [np.asarray(loader(block)) for loader in loaders]
    seeds = Seeds(*SEEDS)
    corrections = deal_block(task, block, seeds) if task.dealt else None

    def before(role: int, link: Heard, extension: Extension | None) -> OneUse:
        if extension is None:
            return dealt_correlations(task, block, SEEDS[role], corrections if role else None).prepare()
        return make(role, extension, link, block.index, recipes(task, block.samples), SEEDS[role])  # type: ignore[arg-type]

    def after(role: int, link: Heard, made: OneUse) -> None:
        party = Party(role, link, made)  # type: ignore[arg-type]
        run_block(party, task, lambda: shares[role], DrawnNoise(task, SEEDS[role]), Seed(b"2" * 32))

    links = [Heard(link) for link in memory_pair(task.id, timeout=600)]

    def both(role: int) -> Callable[[], Extension | None]:
        trees = set_up(role, links[role].link, SEEDS[role]) if task.dealt is None else None
        after(role, links[role], before(role, links[role], Extension(trees, b"alone") if trees else None))
        return lambda: Extension(trees, b"alone") if trees else None

    with ThreadPoolExecutor(2) as threads:
        first, _ = threads.map(both, (0, 1))
    taken = []
    for _ in range(repeat + 2):
        heard, extension, clock = Heard(links[0].link, False, links[0].said), first(), [time.thread_time()]
        if task.dealt:
            deal_block(task, block, seeds)
        clock.append(time.thread_time())
        made = before(0, heard, extension)
        clock.append(time.thread_time())
        after(0, heard, made)
        clock.append(time.thread_time())
        taken.append(np.diff(clock) * 1e3)
    return [median(part) for part in zip(*taken[2:], strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    keep_freed_memory()
    print(f"on {kernel_in_use()}; milliseconds of processor time, medians")
    for protocol, votes, randomness, samples in JOBS:
        dealer = "fused" if randomness == "dealer" else None
        task = LabTask(10, samples, 250, 150, 40.0, 40.0, protocol, votes=votes, dealt=dealer)
        dealt, offline, online = measure(task, repeat)
        size = next(iter(task.blocks)).samples
        dealing = f"deal {dealt:.2f}, " if randomness == "dealer" else ""
        job = f"{protocol}, {randomness}, {size:,} x 10 {votes}"
        print(f"{job}: {dealing}before {offline:.2f}, online {online:.2f}")


if __name__ == "__main__":
    main()
