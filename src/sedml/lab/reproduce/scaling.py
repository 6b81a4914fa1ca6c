"""The scalability figure: time over the number of samples, and over the number of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from sedml.lab.bench import Report
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import PAPER, PLAIN, RIGHT, canvas, legend, log_axis, seconds
from sedml.lab.reproduce.item_result import Chart, Column, Headline, ItemResult, Table
from sedml.lab.reproduce.measuring import TRANSPORTS, measure, standard_task
from sedml.lab.reproduce.scale import Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TITLE", "paper_seconds", "run"]

TITLE = "Scalability: time over samples and over classes"
_PROTOCOLS: tuple[Literal["paper", "fused"], ...] = ("paper", "fused")
_LOOKS = {"paper": (PLAIN, "s", "ours, the paper's three phases"), "fused": (RIGHT, "o", "ours, fused")}


def run(settings: Settings) -> ItemResult:
    """Time both protocols over the paper's ranges, and on from there."""
    scale = settings.scale
    grid = [("samples", size) for size in scale.sample_grid] + [("classes", size) for size in scale.class_grid]
    found: dict[tuple[str, str], dict[int, Report]] = {}
    for done, (what, size) in enumerate(grid):
        settings.progress(f"{size:,} {what}", done, len(grid))
        samples, classes = (size, 10) if what == "samples" else (scale.samples, size)
        for protocol in _PROTOCOLS:
            task = standard_task(samples, classes, scale.teachers, protocol)
            found.setdefault((what, protocol), {})[size] = measure(scale, task)
    reports = [report for series in found.values() for report in series.values()]
    most = {what: max(size for kind, size in grid if kind == what) for what in ("samples", "classes")}
    largest = found["samples", "fused"][most["samples"]].seconds["total"]
    widest = found["classes", "fused"][most["classes"]].seconds["total"]
    three = [_growth(found["samples", "paper"]), _growth(found["classes", "paper"])]
    return ItemResult(
        name="scaling",
        title=TITLE,
        paper="47.336 s for 1,000 samples and 231.720 s for 5,000, linear in between; linear over 10 to 50 classes "
        "for 1,000 samples (the figure prints no times).",
        ours=f"Linear as well, once the work outgrows the fixed cost of a round: from {scale.sample_grid[0]:,} to "
        f"{most['samples']:,} samples the three phases take {three[0]} as long, from {scale.class_grid[0]} to "
        f"{most['classes']:,} classes {three[1]}. The fused protocol labels {most['samples']:,} samples of 10 "
        f"classes in {seconds(largest)} and {scale.samples:,} samples of {most['classes']:,} classes in "
        f"{seconds(widest)}.",
        measured=(
            f"Every point; {TRANSPORTS[scale.transport]}; medians; shared counts of {scale.teachers} teachers in, "
            "shares of labels out; every label checked against plain aggregation for the same noise.",
        ),
        modelled=(
            "The paper's two times are quoted. Its line over classes is drawn through its Table 1 at 10 classes by "
            "its own words: 2 (N - 1) comparisons in phases 1 and 3, one in phase 2.",
        ),
        headlines=(
            Headline(
                "time for 5,000 samples", seconds(published.SAMPLE_SECONDS[5000]), _at(found["samples", "fused"], 5000)
            ),
            Headline(f"time for {most['samples']:,} samples", "not tried", seconds(largest)),
            Headline(f"time for {most['classes']:,} classes, {scale.samples:,} samples", "not tried", seconds(widest)),
        ),
        tables=(_table("samples", found, scale.sample_grid), _table("classes", found, scale.class_grid)),
        charts=(_chart(found, scale.samples),),
        agrees=all(report.matches_ideal for report in reports),
    )


def paper_seconds(what: str, size: int) -> float | None:
    """The paper's line at a number of samples or classes within its range; None outside."""
    if what == "samples":
        (low, first), (high, last) = sorted(published.SAMPLE_SECONDS.items())
        return first + (last - first) * (size - low) / (high - low) if low <= size <= high else None
    duels = published.SECONDS["highest"] + published.SECONDS["label"]
    return published.SECONDS["threshold"] + duels * (size - 1) / 9 if 10 <= size <= 50 else None


def _growth(series: Mapping[int, Report]) -> str:
    first, last = min(series), max(series)
    return f"{series[last].seconds['total'] / series[first].seconds['total']:,.3g} times"


def _at(series: Mapping[int, Report], size: int) -> str:
    return seconds(series[size].seconds["total"]) if size in series else "not in this run"


def _table(what: str, found: Mapping[tuple[str, str], Mapping[int, Report]], grid: Sequence[int]) -> Table:
    three, fused = found[what, "paper"], found[what, "fused"]
    return Table(
        name=f"scaling_{what}",
        title=f"Time over {what}",
        columns=(
            Column(what, what, ","),
            Column("paper_s", "the paper, s", ",.1f"),
            Column("three_phases_ms", "ours, its three phases, ms", ",.1f"),
            Column("fused_ms", "ours, fused, ms", ",.1f"),
            Column("fused_rounds", "rounds, fused", ","),
            Column("fused_bytes", "between servers, fused, bytes", ","),
            Column("fused_rss_mb", "resident, fused, MB", ",.0f"),
        ),
        rows=tuple(
            (
                size,
                paper_seconds(what, size),
                three[size].seconds["total"] * 1e3,
                fused[size].seconds["total"] * 1e3,
                fused[size].rounds["total"],
                fused[size].bytes["servers"],
                fused[size].peak_rss_mb,
            )
            for size in grid
        ),
        note="The paper's column is its straight line within the range it measured.",
    )


def _chart(found: Mapping[tuple[str, str], Mapping[int, Report]], samples: int) -> Chart:
    figure, panels = canvas(10.4, 4.4, 2, share_y=True)
    for axes, what in zip(panels, ("samples", "classes"), strict=True):
        _panel(axes, what, {protocol: found[what, protocol] for protocol in _PROTOCOLS})
    panels[0].set_ylabel("time (logarithmic)")
    panels[0].set_xlabel("samples, of 10 classes (logarithmic)")
    panels[1].set_xlabel(f"classes, {samples:,} samples (logarithmic)")
    legend(figure, panels[0])
    return Chart(
        "scaling",
        "Time over the number of samples (left) and of classes (right). The paper prints the times marked; "
        "dashed is the straight line it claims.",
        figure,
    )


def _panel(axes: Axes, what: str, series: Mapping[str, Mapping[int, Report]]) -> None:
    ends = sorted(published.SAMPLE_SECONDS) if what == "samples" else [10, 50]
    line = [paper_seconds(what, size) or 0.0 for size in ends]
    axes.plot(ends, line, "-" if what == "samples" else "--", color=PAPER, lw=2.2, label="the paper")
    known = ends if what == "samples" else ends[:1]
    axes.plot(known, line[: len(known)], "D", color=PAPER, ms=7)
    for protocol, (colour, marker, name) in _LOOKS.items():
        points = sorted(series[protocol].items())
        times = [report.seconds["total"] for _, report in points]
        axes.plot([size for size, _ in points], times, f"{marker}-", color=colour, label=name, ms=5)
    log_axis(axes, "x")
    log_axis(axes, "y", seconds)
