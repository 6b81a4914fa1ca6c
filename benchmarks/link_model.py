"""Measure what the model of `sedml.lab.semi_honest.links` takes for compute, and show which protocol suits which link.

    seconds of a job = rounds x delay + bytes / bandwidth + compute        if its blocks run one after the other

A deployment also puts every message on record before the next one, and has several blocks under way on a far link.

Jobs of both protocols run between two processes over TLS on loopback (`sedml bench aggregate`);
of their times, offline and online together, the seconds a transfer, an AND gate, a lane and a round take are fitted
by least squares, none below zero, every job counting by its relative error. `--fit` prints them, for the constants at
the top of the module; without it, the table of docs/performance.md is printed from the constants that are there.
`--picture FILE` draws the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.optimize import nnls

from sedml.lab.bench import bench_aggregate
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.semi_honest.links import PER_BYTE, PER_SYNC, blocks_under_way, cost_of

PROTOCOLS = ("fused", "garbled")
JOBS = [(10, 100), (10, 1000), (50, 500), (10, 8000), (100, 200)]
TABLE = [(10, 100), (10, 1000), (10, 10_000)]
LINKS = [(0.2, 10_000), (2, 1000), (10, 1000), (10, 100), (40, 1000), (40, 100), (120, 100)]
"""Milliseconds one way and Mbit/s: one room, one city, one country, an ocean in between, half the world."""


def task_of(classes: int, samples: int, protocol: str) -> LabTask:
    """250 teachers, as in the paper."""
    return LabTask(classes, samples, 250, 150, 40.0, 40.0, protocol)


def seconds_of(task: LabTask, delay: float, bandwidth: float) -> float:
    """How long a deployment takes for a job over a link, by the model: seconds one way and bits a second."""
    cost = cost_of(task)
    rounds = cost.rounds + 1 + task.block_count
    record = rounds * PER_SYNC + 2 * cost.bytes * PER_BYTE
    busy = 8 * cost.bytes / bandwidth + cost.compute + record
    # Blocks that are under way together wait together: those of a lane one after the other.
    in_turn = -(-task.block_count // blocks_under_way(task, delay)) / task.block_count
    return max(rounds * in_turn * delay + busy * in_turn, busy)


def fit(repeat: int) -> None:
    """Measure and print the constants, and how far the model is off."""
    rows, seconds, names = [], [], []
    for classes, samples in JOBS:
        for protocol in PROTOCOLS:
            task = task_of(classes, samples, protocol)
            report = bench_aggregate(task, repeat=repeat)
            cost = cost_of(task)
            rows.append([cost.transfers, cost.ands, cost.lanes, cost.rounds])
            seconds.append(report.seconds["offline"] + report.seconds["total"])
            names.append(f"{protocol}, {samples:,} x {classes}")
    counts, taken = np.array(rows, float), np.array(seconds)
    found, _ = nnls(counts / taken[:, np.newaxis], np.ones(len(taken)))
    for name, value in zip(("_PER_TRANSFER", "_PER_AND", "_PER_LANE", "_PER_ROUND"), found, strict=True):
        print(f"{name} = {value:.2g}")
    for name, measured, model in zip(names, taken, counts @ found, strict=True):
        print(f"{name}: {measured:.4f} s measured, {model:.4f} s by the model")


def table() -> None:
    """Which protocol suits which link, by the model."""
    print("| job of 250 teachers | " + " | ".join(f"{d:g} ms, {m:,} Mbit/s" for d, m in LINKS) + " |")
    print("|---|" + "---|" * len(LINKS))
    for classes, samples in TABLE:
        cells = []
        for delay, mbit in LINKS:
            both = [seconds_of(task_of(classes, samples, name), delay / 1e3, mbit * 1e6) for name in PROTOCOLS]
            shown = [f"{taken:,.0f}" if taken >= 100 else f"{taken:.2g}" for taken in both]
            faster = both.index(min(both))
            shown[faster] = f"**{shown[faster]}**"
            cells.append(" / ".join(shown))
        print(f"| {samples:,} x {classes} | " + " | ".join(cells) + " |")


def picture(path: Path) -> None:
    """Seconds of a job over the delay of the link, by the model."""
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    delays = np.geomspace(0.2, 150, 60)
    for axes, mbit in zip(figure.subplots(1, 2, sharey=True), [1000, 100], strict=True):
        for name, colour in zip(PROTOCOLS, ("#2f6fb5", "#1a7f4b"), strict=True):
            taken = [seconds_of(task_of(10, 1000, name), delay / 1e3, mbit * 1e6) for delay in delays]
            axes.plot(delays, taken, color=colour, linewidth=2)
            axes.annotate(name, (delays[-1], taken[-1]), (4, 0), textcoords="offset points", va="center", color=colour)
        axes.set(xscale="log", yscale="log", xlim=(0.2, 450), xlabel="delay one way, milliseconds")
        axes.set_xticks([0.2, 2, 10, 40, 120], ["0.2", "2", "10", "40", "120"])
        axes.set_xticks([], minor=True)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g} s")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_title(f"1,000 x 10, {mbit:,} Mbit/s", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.3)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="measure the constants, in a minute")
    parser.add_argument("--repeat", type=int, default=7, help="runs of each job; the median counts")
    parser.add_argument("--picture", type=Path, help="draw the model into this file")
    options = parser.parse_args()
    if options.fit:
        fit(options.repeat)
    elif options.picture:
        picture(options.picture)
    else:
        table()
