"""The scalability figure: time over the number of samples, and over the number of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from sedml.lab.bench.protocol import StageReport
from sedml.lab.report.charts import PLAIN
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import PAPER, Chart, Panel, Series, seconds
from sedml.lab.reproduce.measuring import LINK, measure, standard_task
from sedml.lab.reproduce.results import Column, Headline, ItemResult, Table
from sedml.lab.reproduce.scale import Settings

_Found: TypeAlias = Mapping[str, Mapping[int, StageReport]]
"""What was measured, by what grows and by size."""


def scaling(settings: Settings) -> ItemResult:
    """Time the three phases over the paper's ranges, and on from there."""
    scale = settings.scale
    grid = [("samples", size) for size in scale.sample_grid] + [("classes", size) for size in scale.class_grid]
    found: dict[str, dict[int, StageReport]] = {}
    for done, (what, size) in enumerate(grid):
        settings.progress(f"{size:,} {what}", done, len(grid))
        samples, classes = (size, 10) if what == "samples" else (scale.samples, size)
        found.setdefault(what, {})[size] = measure(scale, standard_task(samples, classes, scale.teachers))
    samples, classes = max(scale.sample_grid), max(scale.class_grid)
    largest, widest = seconds(_time(found["samples"], samples)), seconds(_time(found["classes"], classes))
    return ItemResult(
        paper="47.336 s for 1,000 samples and 231.720 s for 5,000, linear in between; linear over 10 to 50 classes "
        "for 1,000 samples (the figure prints no times).",
        ours=f"Linear as well, once the work outgrows the fixed cost of a round: from {scale.sample_grid[0]:,} to "
        f"{samples:,} samples the three phases take {_growth(found['samples'])} as long, from {scale.class_grid[0]} to "
        f"{classes:,} classes {_growth(found['classes'])}. They label {samples:,} samples of 10 classes in {largest} "
        f"and {scale.samples:,} samples of {classes:,} classes in {widest}.",
        measured=(
            f"Every point; {LINK}; medians; shared counts of {scale.teachers} teachers in, "
            "shares of labels out; every label checked against plain aggregation for the same noise.",
        ),
        modelled=(
            "The paper's two times are quoted. Its line over classes is drawn through its Table 1 at 10 classes by "
            "its own words: 2 (N - 1) comparisons in phases 1 and 3, one in phase 2.",
        ),
        headlines=(
            Headline(
                "time for 5,000 samples",
                seconds(published.SAMPLE_SECONDS[5000]),
                seconds(_time(found["samples"], 5000)) if 5000 in found["samples"] else "not in this run",
            ),
            Headline(f"time for {samples:,} samples", "not tried", largest),
            Headline(f"time for {classes:,} classes, {scale.samples:,} samples", "not tried", widest),
        ),
        tables=[_table(what, found) for what in ("samples", "classes")],
        charts=[
            Chart(
                "scaling",
                "Time over the number of samples (left) and of classes (right). The paper prints the times marked; "
                "dashed is the straight line it claims.",
                [
                    _panel("samples", found, "samples, of 10 classes (logarithmic)", "time (logarithmic)"),
                    _panel("classes", found, f"classes, {scale.samples:,} samples (logarithmic)"),
                ],
                size=(10.4, 4.4),
                share_y=True,
            )
        ],
        agrees=all(report.matches_ideal for series in found.values() for report in series.values()),
    )


def paper_seconds(what: str, size: int) -> float | None:
    """The paper's line at a number of samples or classes within its range; None outside."""
    if what == "samples":
        (low, first), (high, last) = sorted(published.SAMPLE_SECONDS.items())
        return first + (last - first) * (size - low) / (high - low) if low <= size <= high else None
    duels = published.SECONDS["highest"] + published.SECONDS["label"]
    return published.SECONDS["threshold"] + duels * (size - 1) / 9 if 10 <= size <= 50 else None


def _time(series: Mapping[int, StageReport], size: int) -> float:
    return series[size].stages["votes"].seconds


def _growth(series: Mapping[int, StageReport]) -> str:
    return f"{_time(series, max(series)) / _time(series, min(series)):,.3g} times"


def _table(what: str, found: _Found) -> Table:
    three = found[what]
    return Table(
        f"scaling_{what}",
        f"Time over {what}",
        (
            Column(what, what, ",", lambda size: size),
            Column("paper_s", "the paper, s", ",.1f", lambda size: paper_seconds(what, size)),
            Column("three_phases_ms", "ours, its three phases, ms", ",.1f", lambda size: _time(three, size) * 1e3),
            Column("rounds", "rounds", ",", lambda size: three[size].stages["votes"].rounds),
            Column("bytes", "between servers, bytes", ",", lambda size: three[size].stages["votes"].bytes),
            Column("rss_mb", "resident, MB", ",.0f", lambda size: three[size].peak_rss_mb),
        ),
        three,
        "The paper's column is its straight line within the range it measured.",
    )


def _panel(what: str, found: _Found, x: str, y: str = "") -> Panel:
    ends = sorted(published.SAMPLE_SECONDS) if what == "samples" else [10, 50]
    times = [_time(found[what], size) for size in found[what]]
    line = Series("the paper", PAPER, [paper_seconds(what, size) for size in ends], ends,
                  "D-" if what == "samples" else "--")  # fmt: skip
    ours = Series("ours, the paper's three phases", PLAIN, times, list(found[what]), "s-")
    return Panel([line, ours], x, y, seconds)
