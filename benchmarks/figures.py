"""Measure every dealt figure of docs/performance.md in one run: `make bench`, or with `--quick` in a minute.

Each row is a call of `sedml bench aggregate`; times are medians, counts are exact, every label is checked. Each has
the figure that it must reach. Exit code 1 if a count is missed or a label is wrong; times depend on the
machine, so a missed time is only marked. What does not depend on the machine goes to benchmarks/counts.json, which
`tests/lab/bench/test_counts.py` holds the code to; `--counts-only` writes that alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from sedml.lab.bench.lab_jobs import Report, bench_lab
from sedml.lab.bench.counts import count_tasks
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.saving import save_text

KB = 1000
COUNTS = Path(__file__).with_name("counts.json")


@dataclass(frozen=True)
class Figure:
    """A measurement and its bounds; None where there is none."""

    name: str
    samples: int
    classes: int = 10
    votes: str = "counts"
    dealt: str = "fused"
    latency_ms: float = 0.0
    repeat: int = 21
    rounds: int | None = None
    server_bytes: int | None = None
    seconds: float | None = None
    rss_mb: float | None = None


FIGURES = [
    Figure("1,000 x 10 counts", 1000, repeat=51, rounds=34, server_bytes=250 * KB, seconds=0.008),
    Figure("10,000 x 10 counts", 10_000, repeat=21, rounds=34, seconds=0.015),
    Figure("100,000 x 10 counts", 100_000, repeat=7, rounds=34),
    Figure("1,000,000 x 10 counts", 1_000_000, repeat=3, seconds=2.5, rss_mb=1500),
    Figure("1,000 x 20 counts", 1000, classes=20),
    Figure("1,000 x 50 counts", 1000, classes=50),
    Figure("100,000 x 50 counts", 100_000, classes=50, repeat=3),
    Figure("1,000 x 10 ballots, 250 teachers", 1000, votes="ballots", rounds=34, server_bytes=250 * KB),
    Figure("10,000 x 10 ballots, 250 teachers", 10_000, votes="ballots", repeat=5),
    Figure("1,000 x 10 one-hot, 250 teachers", 1000, votes="onehot", repeat=11),
    Figure("1,000 x 10 counts, 20 ms away", 1000, latency_ms=20, repeat=3),
    Figure("1,000 x 10 counts, the paper's phases", 1000, dealt="paper", repeat=11),
    Figure("10,000 x 10 counts, the paper's phases", 10_000, dealt="paper", repeat=5),
]
QUICK = 4


def measure(figure: Figure) -> Report:
    """Run one row between two processes over TLS."""
    task = LabTask(
        classes=figure.classes,
        samples=figure.samples,
        teachers=250,
        threshold=150,
        sigma1=40.0,
        sigma2=40.0,
        votes=figure.votes,
        dealt=figure.dealt,
    )
    return bench_lab(task, transport="tcp", latency_ms=figure.latency_ms, repeat=figure.repeat)


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

    console = Console(width=None if sys.stdout.isatty() else 150)
    table = Table(title="Two processes over TLS on loopback; K = 250, T = 150, sigma 40")
    for column in (
        "",
        "online",
        "count",
        "highest",
        "threshold",
        "label",
        "rounds",
        "servers",
        "dealer",
        "unpack",
        "dealt in",
        "RSS",
    ):
        table.add_column(column, justify="left" if not column else "right")
    rows, missed = [], []
    for figure in FIGURES[:QUICK] if options.quick else FIGURES:
        with console.status(figure.name):
            report = measure(figure)
        rows.append({"name": figure.name, **asdict(report)})
        missed += _missed(figure, report)
        seconds = report.seconds
        late = figure.seconds is not None and seconds["total"] > figure.seconds
        table.add_row(
            figure.name,
            f"{seconds['total'] * 1e3:,.1f} ms" + (" (!)" if late else ""),
            *(f"{seconds[phase] * 1e3:,.1f}" for phase in ("count", "highest", "threshold", "label")),
            str(report.rounds["total"]),
            f"{report.bytes['servers'] / KB:,.1f} KB",
            f"{report.bytes['dealer'] / KB:,.1f} KB",
            f"{seconds['prepare'] * 1e3:,.1f} ms",
            f"{seconds['deal'] * 1e3:,.1f} ms",
            f"{report.peak_rss_mb:.0f} MB",
        )
    console.print(table)
    save_text(options.out, json.dumps(rows, indent=2) + "\n")
    for line in missed:
        console.print(f"[red]missed:[/] {line}")
    return 1 if missed else 0


def _missed(figure: Figure, report: Report) -> list[str]:
    checks = [
        ("labels", report.matches_ideal, True, report.matches_ideal),
        ("rounds", report.rounds["total"], figure.rounds, _within(report.rounds["total"], figure.rounds)),
        ("bytes", report.bytes["total"], figure.server_bytes, _within(report.bytes["servers"], figure.server_bytes)),
        ("resident MB", report.peak_rss_mb, figure.rss_mb, _within(report.peak_rss_mb, figure.rss_mb)),
    ]
    return [f"{figure.name}: {what} {got}, bound {bound}" for what, got, bound, fine in checks if not fine]


def _within(value: float, bound: float | None) -> bool:
    return bound is None or value <= bound


if __name__ == "__main__":
    sys.exit(main())
