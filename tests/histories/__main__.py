"""Play random histories and report: `make faults`, or `python -m histories --count 200` with tests on the path.

Exit code 1 if something was not as it must be. `SEDML_HISTORY_SEED=n` repeats one history alone.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from queue import Empty

from rich.console import Console
from rich.table import Table

from histories.history_plan import on_postgres
from histories.one_history import Outcome
from histories.theatre import work
from support.postgres_server import Postgres, running_postgres
from support.sweeper import watch_over_this_run

console = Console()


def _played(seeds: list[int], workers: int, postgres: Postgres | None, keep: Path) -> Iterator[Outcome]:
    context = multiprocessing.get_context("spawn")
    waiting, outcomes = context.Queue(), context.Queue()
    for seed in seeds:
        waiting.put(seed)
    children = [context.Process(target=work, args=(waiting, outcomes, postgres, keep)) for _ in range(workers)]
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
    finally:
        for child in children:
            child.join(60.0)
            child.terminate()


def _report(outcomes: list[Outcome], seed: int, seconds: float, where: Path) -> None:
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        counts.update(outcome.counts)
    failed = [outcome for outcome in outcomes if outcome.violations]
    counts["violations"] = len(failed)
    table = Table("what", "how many", title=f"{len(outcomes)} histories from seed {seed}, {seconds:.0f} s")
    table.columns[1].justify = "right"
    for name in sorted(counts):
        table.add_row(name, f"{counts[name]:,}")
    console.print(table)
    document = {
        "seed": seed,
        "seconds": round(seconds, 1),
        "seconds_per_history": round(sum(outcome.seconds for outcome in outcomes) / max(1, len(outcomes)), 3),
        "counts": dict(sorted(counts.items())),
        "violations": [asdict(outcome) for outcome in failed],
    }
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text(json.dumps(document, indent=1) + "\n")
    console.print(f"Written to {where}.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="histories", description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None, help="of the first history; the others have the next ones")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--report", type=Path, default=Path("results/histories/report.json"))
    options = parser.parse_args()
    watch_over_this_run()
    alone = os.environ.get("SEDML_HISTORY_SEED")
    seed = int(alone) if alone else options.seed
    if seed is None:
        seed = random.SystemRandom().randrange(10**9)
    seeds = [seed] if alone else list(range(seed, seed + options.count))
    console.print(f"seed {seed}")
    began, outcomes = time.monotonic(), []
    with running_postgres() if any(map(on_postgres, seeds)) else nullcontext() as postgres:
        if postgres is None and len(seeds) > 1:
            console.print("No PostgreSQL here: all histories are played on SQLite.")
        # Those of one kind together, so that pairs of servers last longer.
        ordered = sorted(seeds, key=on_postgres)
        for outcome in _played(ordered, min(options.workers, len(seeds)), postgres, options.report.parent):
            outcomes.append(outcome)
            for violation in outcome.violations:
                console.print(f"SEDML_HISTORY_SEED={outcome.seed}: {violation}", markup=False, soft_wrap=True)
            if len(outcomes) % 20 == 0:
                console.print(f"{len(outcomes)} of {len(seeds)}, {time.monotonic() - began:.0f} s")
    _report(outcomes, seed, time.monotonic() - began, options.report)
    return 1 if any(outcome.violations for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
