"""Measure the tables of docs/explanation/performance.md in one run: `make bench`, or with `--quick` in a minute.

Each row is a call of `sedml bench aggregate`, printed as it stands on the page; times are medians, counts are exact,
every label is checked. Some have figures that they must reach. Exit code 1 if a count is missed or a label is wrong;
times depend on the machine, so a missed time is only marked. What does not depend on the machine goes to
benchmarks/counts.json, which `tests/lab/bench/test_counts.py` holds the code to; `--counts-only` writes that alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from counted_costs import count_tasks
from sedml.lab.bench.protocol import StageReport, bench_protocol
from sedml.lab.saving import save_text
from sedml.protocol.task import Task

MB = 1_000_000
COUNTS = Path(__file__).with_name("counts.json")


@dataclass(frozen=True)
class Figure:
    """A measurement and its bounds; None where there is none."""

    samples: int
    classes: int = 10
    latency_ms: float = 0.0
    repeat: int = 5
    seconds: dict[str, float] | None = None
    """By stage."""
    votes_rounds: int | None = None
    bytes: int | None = None
    rss_mb: float | None = None

    @property
    def name(self) -> str:
        far = f", {self.latency_ms:g} ms one way" if self.latency_ms else ""
        return f"{self.samples:,} x {self.classes}{far}"


FIGURES = [
    Figure(
        1000,
        repeat=21,
        seconds={"set_up": 0.15, "total": 0.4, "votes": 0.03},
        votes_rounds=4,
        bytes=110 * MB,
        rss_mb=350,
    ),
    Figure(33, repeat=21, seconds={"total": 0.06}, votes_rounds=4, bytes=4 * MB),
    Figure(10_000, repeat=3),
    Figure(100_000, repeat=1, rss_mb=600),
    Figure(1000, classes=50),
    Figure(1000, classes=100),
    Figure(1000, latency_ms=20, seconds={"votes": 0.3}),
]
QUICK = 2


def measure(figure: Figure) -> StageReport:
    """Run one row between two processes over TLS."""
    task = Task(figure.classes, figure.samples, 250, 150, 40.0)
    return bench_protocol(task, latency_ms=figure.latency_ms, repeat=figure.repeat)


def main() -> int:
    """Measure, print, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/figures.json"), help="where the JSON goes")
    parser.add_argument("--quick", action="store_true", help="only the first few rows")
    parser.add_argument("--counts", type=Path, default=COUNTS, help="where the counts go")
    parser.add_argument("--counts-only", action="store_true", help="write the counts, measure no time")
    options = parser.parse_args()

    save_text(options.counts, json.dumps(count_tasks(), indent=2) + "\n")
    if options.counts_only:
        return 0

    print(
        "| | set-up | preparation | with the votes | in all after the set-up | rounds | MB | memory of a server | B |"
    )
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    rows, missed = [], []
    for figure in FIGURES[:QUICK] if options.quick else FIGURES:
        report = measure(figure)
        rows.append({"name": figure.name, **asdict(report)})
        missed += _missed(figure, report)
        print(_row(figure, report), flush=True)
    print(f"on {rows[0]['kernel']}")
    save_text(options.out, json.dumps(rows, indent=2) + "\n")
    print(*(f"missed: {line}" for line in missed), sep="\n")
    return 1 if missed else 0


def _row(figure: Figure, report: StageReport) -> str:
    """A row of the page; rounds and bytes before the votes + with them."""
    before, votes = report.stages["prepare"], report.stages["votes"]
    bounds = figure.seconds or {}
    times = [
        f"{cost.seconds * 1e3:,.0f} ms" + (" (!)" if cost.seconds > bounds.get(stage, cost.seconds) else "")
        for stage, cost in report.stages.items()
    ]
    counts = f"{before.rounds} + {votes.rounds}", f"{before.bytes / MB:,.2f} + {votes.bytes / MB:,.2f}"
    cells = figure.name, *times, *counts, f"{report.peak_rss_mb:.0f} MB", str(report.bucket or "")
    return f"| {' | '.join(cells)} |"


def _missed(figure: Figure, report: StageReport) -> list[str]:
    found = {
        "wrong labels": (not report.matches_ideal, 0),
        "rounds with the votes": (report.stages["votes"].rounds, figure.votes_rounds),
        "bytes": (report.stages["total"].bytes, figure.bytes),
        "resident MB": (report.peak_rss_mb, figure.rss_mb),
    }
    return [
        f"{figure.name}: {what} {got}, bound {bound}"
        for what, (got, bound) in found.items()
        if bound is not None and got > bound
    ]


if __name__ == "__main__":
    sys.exit(main())
