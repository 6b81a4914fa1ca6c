"""How cost grows with samples, classes, teachers and distance: measured points, fitted laws, projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from sedml.lab.bench.lab_jobs import Report
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.reproduce.cost_model import LINKS, Law, Model, dealt_bytes, fit, rounds_of
from sedml.lab.reproduce.drawing import PAPER, PLAIN, Chart, Panel, Series, kilobytes, seconds
from sedml.lab.reproduce.measuring import LINK, measure, standard_task
from sedml.lab.reproduce.results import Column, Headline, ItemResult, Table
from sedml.lab.reproduce.scale import Scale, Settings

__all__ = ["growth"]

_MILLION = 1_000_000
_AXES = {"samples": "samples", "classes": "classes", "teachers": "teachers", "latency": "one-way delay, ms"}
"""What is varied, and its unit."""

_QUANTITIES: dict[str, tuple[str, Callable[[float], str], Callable[[Report], float]]] = {
    "time": ("time", seconds, lambda report: report.seconds["total"]),
    "bytes": ("between servers", kilobytes, lambda report: report.bytes["total"]),
    "dealt": ("from the dealer", kilobytes, lambda report: report.bytes["deal"]),
    "memory": ("resident memory of a server", lambda value: f"{value:.3g} MB", lambda report: report.peak_rss_mb),
}
"""What is measured: in words, how it is written, and where it comes from."""

_Found: TypeAlias = Mapping[str, Mapping[float, Report]]
_Laws: TypeAlias = Mapping[tuple[str, str], Law]


def growth(settings: Settings) -> ItemResult:
    """Measure along the four axes, fit, project."""
    scale = settings.scale
    found = _measure(settings)
    laws = _laws(found, scale)
    model = Model(
        laws["samples", "time"],
        laws["teachers", "time"].each / scale.samples,
        laws["samples", "bytes"],
        laws["teachers", "bytes"].each / scale.samples,
    )
    points = [(axis, size, report) for axis, series in found.items() for size, report in series.items()]
    exact = all(report.rounds["total"] == rounds_of(_task(scale, axis, size)) for axis, size, report in points)
    million = _vote_task(scale, _MILLION)
    here, far = (seconds(model.seconds(million, link)) for link in (LINKS[0], LINKS[-1]))
    return ItemResult(
        paper="Only that time is linear in samples and in classes.",
        ours="Time and traffic have a fixed part and one that is linear in samples, in classes and in votes. "
        f"By the fit, distance costs {laws['latency', 'time'].each:.1f} one-way delays, for "
        f"{found['latency'][min(found['latency'])].rounds['total']} rounds. The rounds "
        f"{'are as' if exact else 'are NOT as'} the protocol's formula says at every point. "
        f"By the model a million teachers' votes on {scale.samples:,} samples take {here} on one machine and "
        f"{far} across an ocean, in {million.block_count:,} blocks of {million.block_samples} samples and "
        f"{rounds_of(million):,} rounds: blocks are kept small to bound memory, so over a distance rounds decide.",
        measured=(
            f"Every point of the charts; {LINK}; delays made by holding back every "
            "message; labels checked against plain aggregation for the same noise.",
        ),
        modelled=(
            "The laws are fitted by least squares of relative errors; the table gives the farthest point of each.",
            "Projections: a fixed part per block, plus samples, plus votes, plus rounds times the one-way delay, plus "
            "the bytes of one direction over the bandwidth. Rounds and dealt bytes follow exactly from the protocol; "
            f"bandwidth was not measured, nor anything beyond {max(scale.growth['teachers']):,} teachers.",
            f"Links: {'; '.join(link.words for link in LINKS)}.",
        ),
        headlines=[
            Headline(f"{_MILLION:,} teachers, {scale.samples:,} samples, one machine", "not tried", here, "model")
        ],
        tables=(_points_table(points), _law_table(laws), _projection_table(model, scale)),
        charts=[_chart(found, laws, pair) for pair in (("samples", "classes"), ("teachers", "latency"))],
        agrees=all(report.matches_ideal for _, _, report in points),
    )


def _task(scale: Scale, axis: str, size: float) -> LabTask:
    if axis == "teachers":
        return _vote_task(scale, int(size))
    samples, classes = (int(size) if axis == one else usual for one, usual in
                        (("samples", scale.samples), ("classes", 10)))  # fmt: skip
    return standard_task(samples, classes, scale.teachers)


def _vote_task(scale: Scale, teachers: int) -> LabTask:
    return standard_task(scale.samples, 10, teachers, votes="onehot")


def _measure(settings: Settings) -> dict[str, dict[float, Report]]:
    scale = settings.scale
    points = [(axis, size) for axis, grid in scale.growth.items() for size in grid]
    found: dict[str, dict[float, Report]] = {axis: {} for axis in scale.growth}
    for done, (axis, size) in enumerate(points):
        settings.progress(f"{size:,g} {_AXES[axis]}", done, len(points))
        delay = size if axis == "latency" else 0.0
        found[axis][size] = measure(scale, _task(scale, axis, size), latency_ms=delay)
    return found


def _place(axis: str, size: float) -> float:
    """What a law over an axis is linear in: duels, one fewer than classes; seconds of delay; else the size itself."""
    return size - 1 if axis == "classes" else size / 1e3 if axis == "latency" else size


def _laws(found: _Found, scale: Scale) -> dict[tuple[str, str], Law]:
    def law(what: str, xs: Sequence[float], series: Mapping[float, Report]) -> Law:
        return fit(xs, [_QUANTITIES[what][2](report) for report in series.values()])

    laws = {}
    for axis, series in found.items():
        xs = [_place(axis, size) for size in series]
        for what in ("time",) if axis == "latency" else ("time", "bytes", "dealt"):
            laws[axis, what] = law(what, xs, series)
    held = [float(min(size, _task(scale, "samples", size).block_samples)) for size in found["samples"]]
    laws["samples in a block", "memory"] = law("memory", held, found["samples"])
    return laws


def _points_table(points: Sequence[tuple[str, float, Report]]) -> Table:
    return Table(
        "growth_points",
        "Measured points",
        (
            Column("axis", "over", value=lambda point: _AXES[point[0]]),
            Column("value", "value", ",g", lambda point: point[1]),
            Column("votes", "from", value=lambda point: point[2].task.votes),
            Column("ms", "time, ms", ",.2f", lambda point: point[2].seconds["total"] * 1e3),
            Column("rounds", "rounds", ",", lambda point: point[2].rounds["total"]),
            Column("server_bytes", "between servers, bytes", ",", lambda point: point[2].bytes["total"]),
            Column("dealer_bytes", "from the dealer, bytes", ",", lambda point: point[2].bytes["deal"]),
            Column("rss_mb", "resident, MB", ",.0f", lambda point: point[2].peak_rss_mb),
        ),
        points,
    )


def _law_table(laws: _Laws) -> Table:
    def words(key: tuple[str, str]) -> str:
        axis, what = key
        law, unit = laws[key], _QUANTITIES[what][1]
        over = {"latency": "a second of delay", "classes": "1,000 duels, one fewer than classes"}
        grown = f"{law.each:.2f} s" if axis == "latency" else unit(1000 * law.each)
        return f"{unit(law.fixed)} + {grown} for {over.get(axis, f'1,000 {axis}')}"

    return Table(
        "growth_laws",
        "Fitted laws",
        (
            Column("quantity", "what", value=lambda key: _QUANTITIES[key[1]][0]),
            Column("axis", "over", value=lambda key: key[0]),
            Column("fixed", "fixed part", ".4g", lambda key: laws[key].fixed),
            Column("each", "for each", ".4g", lambda key: laws[key].each),
            Column("law", "in words", value=words),
            Column("points", "points", value=lambda key: laws[key].points),
            Column("lowest", "from", ",g", lambda key: laws[key].lowest),
            Column("highest", "to", ",g", lambda key: laws[key].highest),
            Column("worst", "farthest point off by", ".0%", lambda key: laws[key].worst),
        ),
        laws,
        "In seconds, bytes and megabytes. Rounds need no fit: for each block of samples there are 1 + carry + "
        "⌈log4 N⌉ + 1 for the threshold and (2 + carry) ⌈log2 N⌉ for the label.",
    )


def _projection_table(model: Model, scale: Scale) -> Table:
    tasks = [_vote_task(scale, teachers) for teachers in (scale.teachers, 10_000, 100_000, _MILLION)]
    tasks.append(standard_task(_MILLION, 10, scale.teachers))

    def reach(task: LabTask) -> str:
        near = task.teachers <= max(scale.growth["teachers"]) and task.samples <= max(scale.growth["samples"])
        return "within" if near else "beyond"

    return Table(
        "growth_projection",
        "Projections",
        (
            Column("teachers", "teachers", ",", lambda case: case[0].teachers),
            Column("samples", "samples", ",", lambda case: case[0].samples),
            Column("votes", "from", value=lambda case: case[0].votes),
            Column("link", "link", value=lambda case: case[1].name),
            Column("blocks", "blocks, exact", ",", lambda case: case[0].block_count),
            Column("rounds", "rounds, exact", ",", lambda case: rounds_of(case[0])),
            Column("server_mb", "between servers, MB, model", ",.4g", lambda case: model.traffic(case[0]) / 1e6),
            Column("dealer_mb", "from the dealer, MB, exact", ",.4g", lambda case: dealt_bytes(case[0]) / 1e6),
            Column("seconds", "time, s, model", ",.3g", lambda case: model.seconds(*case)),
            Column("range", "measured range", value=lambda case: reach(case[0])),
        ),
        [(task, link) for task in tasks for link in LINKS],
    )


def _chart(found: _Found, laws: _Laws, pair: tuple[str, str]) -> Chart:
    """Time over two of the axes: points and laws."""
    panels = []
    for axis in pair:
        sizes, far = list(found[axis]), axis == "latency"
        line = sizes if far else np.geomspace(min(sizes), max(sizes), 50).tolist()
        law = [laws[axis, "time"].at(_place(axis, x)) for x in line]
        times = [report.seconds["total"] for report in found[axis].values()]
        series = Series("fitted law", PAPER, law, line, "-"), Series("measured", PLAIN, times, sizes, "o")
        scale = "" if far else " (logarithmic)"
        panels.append(Panel(series, _AXES[axis] + scale, f"time{scale}", seconds, linear=far))
    caption = f"Time over {pair[0]} and over {pair[1]}: fixed part plus a linear one."
    return Chart(f"growth_{pair[0]}_{pair[1]}", caption, panels, size=(10.4, 4.0))
