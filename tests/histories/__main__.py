"""Play random histories, send hostile requests and report: `make faults`, or `python -m histories --count 200`.

Exit code 1 if something was not as it must be. `SEDML_HISTORY_SEED=n` repeats one history alone. Ctrl-C ends it early,
and what was played until then is reported.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from queue import Empty

from rich.console import Console
from rich.table import Table

from histories.history_plan import on_postgres, stage_of
from histories.one_history import Outcome
from histories.theatre import Ray, work
from support.hostile import hostile_requests_to_a_fresh_server
from support.postgres_server import Postgres, running_postgres
from support.ray_cluster import ray_cluster
from support.sweeper import watch_over_this_run

console = Console()
_OF_ALL_KINDS = 240
"""Histories in a row in which all kinds are."""


def _played(seeds: list[int], workers: int, postgres: Postgres | None, keep: Path, ray: Ray) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    waiting, outcomes = context.Queue(), context.Queue()
    for seed in seeds:
        waiting.put(seed)
    children = [context.Process(target=work, args=(waiting, outcomes, postgres, keep, ray)) for _ in range(workers)]
    for child in children:
        child.start()
    try:
        left = len(seeds)
        while left:
            try:
                yield outcomes.get(timeout=1.0)
                left -= 1
            except Empty:
                if not any(child.is_alive() for child in children):
                    raise RuntimeError(f"{left} histories were not played: all workers are gone") from None
        for child in children:
            child.join(60.0)
    finally:  # what they have started ends with this run
        for child in children:
            child.terminate()


def _ray(stack: ExitStack) -> Ray:
    """A cluster of this machine, if Ray is installed."""
    if find_spec("ray") is None:
        return None
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ray-"))  # the names of its sockets must be short
    cluster = stack.enter_context(ray_cluster(Path(folder)))
    return cluster.address, cluster.process


def _counts(outcomes: list[Outcome]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.counts)
    return counts


def _report(outcomes: list[Outcome], seed: int, seconds: float, where: Path) -> None:
    counts = _counts(outcomes)
    failed = [outcome for outcome in outcomes if outcome.violations]
    counts["violations"] = len(failed)
    table = Table("what", "how many", title=f"{counts['histories']} histories from seed {seed}, {seconds:.0f} s")
    table.columns[1].justify = "right"
    for name in sorted(counts):
        table.add_row(name, f"{counts[name]:,}")
    console.print(table)
    document = {
        "seed": seed,
        "seconds": round(seconds, 1),
        "counts": dict(sorted(counts.items())),
        "violations": [asdict(outcome) for outcome in failed],
    }
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(json.dumps(document, indent=1) + "\n")
    console.print(f"Written to {where}.")


def _ordered(seeds: list[int]) -> list[int]:
    """Those of one kind together, so that pairs of servers last longer; but all kinds early in a long run."""
    return sorted(seeds, key=lambda one: ((one - seeds[0]) // _OF_ALL_KINDS, on_postgres(one), stage_of(one)))


def _histories(seeds: list[int], workers: int, keep: Path) -> Iterator[Outcome]:
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres()) if any(map(on_postgres, seeds)) else None
        if postgres is None and any(map(on_postgres, seeds)):
            console.print("No PostgreSQL here: all histories are played on SQLite.")
        ray = _ray(stack) if any(stage_of(one) == "Ray" for one in seeds) else None
        if ray is None and any(stage_of(one) == "Ray" for one in seeds):
            console.print("No Ray here: its histories are played without.")
        yield from _played(_ordered(seeds), min(workers, len(seeds)), postgres, keep, ray)


def _hostile(count: int, seed: int) -> Iterator[Outcome]:
    """At least so many requests, on fresh servers every few hundred; until one is not answered as it must be."""
    sent = 0
    while sent < count:
        began, statuses, problem = time.monotonic(), *hostile_requests_to_a_fresh_server(seed)
        counts = {f"hostile requests answered with {status}": number for status, number in statuses.items()}
        sent += statuses.total()
        counts["hostile requests"] = statuses.total()
        yield Outcome(seed, time.monotonic() - began, counts, [problem] if problem else [])
        if problem:
            return
        seed += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="histories", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None, help="of the first history; the others have the next ones")
    parser.add_argument("--hostile", type=int, default=None, help="requests that mean no good; ten for each history")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", type=Path, default=Path("results/histories/report.json"))
    options = parser.parse_args()
    watch_over_this_run()
    alone = os.environ.get("SEDML_HISTORY_SEED")
    seed = int(alone) if alone else options.seed
    if seed is None:
        seed = random.SystemRandom().randrange(10**9)
    seeds = [seed] if alone else list(range(seed, seed + options.count))
    hostile = 0 if alone else 10 * options.count if options.hostile is None else options.hostile
    console.print(f"seed {seed}: {len(seeds):,} histories, then {hostile:,} hostile requests")
    began, outcomes = time.monotonic(), []
    try:
        for outcome in chain(_histories(seeds, options.workers, options.report.parent), _hostile(hostile, seed)):
            outcomes.append(outcome)
            for violation in outcome.violations:
                console.print(f"seed {outcome.seed}: {violation}", markup=False, soft_wrap=True)
            if len(outcomes) % 20 == 0:
                counts = _counts(outcomes)
                said = ", ".join(f"{counts[what]:,} {what}" for what in ("histories", "hostile requests"))
                console.print(f"{said}, {time.monotonic() - began:.0f} s")
    except KeyboardInterrupt:
        console.print("Ended early")
    _report(outcomes, seed, time.monotonic() - began, options.report)
    return 1 if any(outcome.violations for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
