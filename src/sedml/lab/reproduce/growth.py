"""How cost grows with samples, classes, teachers and distance: measured points, fitted laws, projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sedml.lab.bench import Report
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.reproduce.cost_model import LINKS, Law, Model, blocks_of, dealt_bytes, fit, rounds_of
from sedml.lab.reproduce.drawing import kilobytes, seconds
from sedml.lab.reproduce.growth_charts import AXES, axis_chart, bytes_chart, law_place, projection_chart
from sedml.lab.reproduce.item_result import Cell, Column, Headline, ItemResult, Table
from sedml.lab.reproduce.measuring import TRANSPORTS, measure, standard_task
from sedml.lab.reproduce.scale import Scale, Settings

__all__ = ["TITLE", "run"]

TITLE = "Growth: what larger jobs and longer distances cost"

_MILLION = 1_000_000


def run(settings: Settings) -> ItemResult:
    """Measure along the four axes, fit, project."""
    scale = settings.scale
    found = _measure(settings)
    reports = [report for series in found.values() for report in series.values()]
    laws = _laws(found, scale)
    model = Model(
        laws["samples", "time"],
        _per_vote(found, scale, "time"),
        laws["samples", "bytes"],
        _per_vote(found, scale, "bytes"),
    )
    rows, words = _project(model, scale)
    latency = laws["latency", "time"]
    rounds = found["latency"][scale.growth_latencies[0]].rounds["total"]
    exact = all(
        report.rounds["total"] == rounds_of(_task(scale, axis, size))
        for axis, series in found.items()
        for size, report in series.items()
    )
    return ItemResult(
        name="growth",
        title=TITLE,
        paper="Only that time is linear in samples and in classes.",
        ours="Time and traffic have a fixed part and one that is linear in samples, in classes and in votes. "
        f"By the fit, distance costs {latency.each:.1f} one-way delays, for {rounds} rounds. The rounds "
        f"{'are as' if exact else 'are NOT as'} the protocol's formula says at every point. {words}",
        measured=(
            f"Every point of the first three charts; {TRANSPORTS[scale.transport]}; delays made by holding back every "
            "message; labels checked against plain aggregation for the same noise.",
        ),
        modelled=(
            "The laws are fitted by least squares of relative errors; the table gives the farthest point of each.",
            "Projections: a fixed part per block, plus samples, plus votes, plus rounds times the one-way delay, plus "
            "the bytes of one direction over the bandwidth. Rounds and dealt bytes follow exactly from the protocol; "
            f"bandwidth was not measured, nor anything beyond {max(scale.growth_teachers):,} teachers.",
            f"Links: {'; '.join(link.words for link in LINKS)}.",
        ),
        headlines=(
            Headline(
                f"{_MILLION:,} teachers, {scale.samples:,} samples, one machine",
                "not tried",
                seconds(model.seconds(_index_task(scale, _MILLION), LINKS[0])),
                "model",
            ),
        ),
        tables=(_points_table(found), _law_table(laws), rows),
        charts=(
            axis_chart(found, laws, ("samples", "classes")),
            axis_chart(found, laws, ("teachers", "latency")),
            bytes_chart(found, laws),
            projection_chart(model, found["teachers"], lambda teachers: _index_task(scale, teachers), _MILLION),
        ),
        agrees=all(report.matches_ideal for report in reports),
    )


def _task(scale: Scale, axis: str, size: float) -> LabTask:
    if axis == "samples":
        return standard_task(int(size), 10, scale.teachers)
    if axis == "classes":
        return standard_task(scale.samples, int(size), scale.teachers)
    if axis == "teachers":
        return _index_task(scale, int(size))
    return standard_task(scale.samples, 10, scale.teachers)


def _index_task(scale: Scale, teachers: int) -> LabTask:
    return standard_task(scale.samples, 10, teachers, votes="index")


def _measure(settings: Settings) -> dict[str, dict[float, Report]]:
    scale = settings.scale
    axes: dict[str, Sequence[float]] = {
        "samples": scale.growth_samples,
        "classes": scale.growth_classes,
        "teachers": scale.growth_teachers,
        "latency": scale.growth_latencies,
    }
    total, done = sum(len(grid) for grid in axes.values()), 0
    found: dict[str, dict[float, Report]] = {}
    for axis, grid in axes.items():
        for size in grid:
            settings.progress(f"{size:,g} {AXES[axis]}", done, total)
            delay = size if axis == "latency" else 0.0
            found.setdefault(axis, {})[size] = measure(scale, _task(scale, axis, size), latency_ms=delay)
            done += 1
    return found


def _laws(found: Mapping[str, Mapping[float, Report]], scale: Scale) -> dict[tuple[str, str], Law]:
    laws = {}
    for axis, series in found.items():
        xs = [law_place(axis, size) for size in series]
        laws[axis, "time"] = fit(xs, [report.seconds["total"] for report in series.values()])
        if axis != "latency":
            laws[axis, "bytes"] = fit(xs, [float(report.bytes["servers"]) for report in series.values()])
            laws[axis, "dealt"] = fit(xs, [float(report.bytes["dealer"]) for report in series.values()])
    held = [float(min(size, _task(scale, "samples", size).block_samples)) for size in found["samples"]]
    laws["samples in a block", "memory"] = fit(held, [report.peak_rss_mb for report in found["samples"].values()])
    return laws


def _per_vote(found: Mapping[str, Mapping[float, Report]], scale: Scale, what: str) -> Law:
    votes = [teachers * scale.samples for teachers in found["teachers"]]
    series = found["teachers"].values()
    ys = [report.seconds["total"] if what == "time" else float(report.bytes["servers"]) for report in series]
    return fit(votes, ys)


def _points_table(found: Mapping[str, Mapping[float, Report]]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (AXES[axis], size, report.votes, report.seconds["total"] * 1e3, report.rounds["total"],
         report.bytes["servers"], report.bytes["dealer"], report.peak_rss_mb)
        for axis, series in found.items()
        for size, report in series.items()
    ]  # fmt: skip
    return Table(
        name="growth_points",
        title="Measured points",
        columns=(
            Column("axis", "over"),
            Column("value", "value", ",g"),
            Column("votes", "from"),
            Column("ms", "time, ms", ",.2f"),
            Column("rounds", "rounds", ","),
            Column("server_bytes", "between servers, bytes", ","),
            Column("dealer_bytes", "from the dealer, bytes", ","),
            Column("rss_mb", "resident, MB", ",.0f"),
        ),
        rows=tuple(rows),
    )


_FORMS: dict[str, tuple[str, Callable[[float], str]]] = {
    "time": ("time", seconds),
    "bytes": ("between servers", kilobytes),
    "dealt": ("from the dealer", kilobytes),
    "memory": ("resident memory of a server", lambda value: f"{value:.3g} MB"),
}


def _law_table(laws: Mapping[tuple[str, str], Law]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for (axis, what), law in laws.items():
        name, form = _FORMS[what]
        unit = {"latency": "a second of delay", "classes": "1,000 duels, one fewer than classes"}.get(
            axis, f"1,000 {axis}"
        )
        grown = f"{law.each:.2f} s" if axis == "latency" else form(1000 * law.each)
        rows.append((name, axis, law.fixed, law.each, f"{form(law.fixed)} + {grown} for {unit}", law.points, law.lowest,
                     law.highest, law.worst))  # fmt: skip
    return Table(
        name="growth_laws",
        title="Fitted laws",
        columns=(
            Column("quantity", "what"),
            Column("axis", "over"),
            Column("fixed", "fixed part", ".4g"),
            Column("each", "for each", ".4g"),
            Column("law", "in words"),
            Column("points", "points"),
            Column("lowest", "from", ",g"),
            Column("highest", "to", ",g"),
            Column("worst", "farthest point off by", ".0%"),
        ),
        rows=tuple(rows),
        note="In seconds, bytes and megabytes. Rounds need no fit: for each block of samples there are 1 + carry + "
        "⌈log4 N⌉ + 1 for the threshold, (2 + carry) ⌈log2 N⌉ for the label, and 3 more where votes are counted.",
    )


def _project(model: Model, scale: Scale) -> tuple[Table, str]:
    tasks = [_index_task(scale, teachers) for teachers in (scale.teachers, 10_000, 100_000, _MILLION)]
    tasks.append(standard_task(_MILLION, 10, scale.teachers))
    largest = max(scale.growth_teachers)
    rows: list[tuple[Cell, ...]] = []
    for task in tasks:
        near = task.teachers <= largest and task.samples <= max(scale.growth_samples)
        rows += [
            (task.teachers, task.samples, task.votes, link.name, blocks_of(task), rounds_of(task),
             model.traffic(task) / 1e6, dealt_bytes(task) / 1e6, model.seconds(task, link),
             "within" if near else "beyond")
            for link in LINKS
        ]  # fmt: skip
    table = Table(
        name="growth_projection",
        title="Projections",
        columns=(
            Column("teachers", "teachers", ","),
            Column("samples", "samples", ","),
            Column("votes", "from"),
            Column("link", "link"),
            Column("blocks", "blocks, exact", ","),
            Column("rounds", "rounds, exact", ","),
            Column("server_mb", "between servers, MB, model", ",.4g"),
            Column("dealer_mb", "from the dealer, MB, exact", ",.4g"),
            Column("seconds", "time, s, model", ",.3g"),
            Column("range", "measured range"),
        ),
        rows=tuple(rows),
    )
    million = _index_task(scale, _MILLION)
    here, far = model.seconds(million, LINKS[0]), model.seconds(million, LINKS[-1])
    words = (
        f"By the model a million teachers' votes on {scale.samples:,} samples take {seconds(here)} on one machine and "
        f"{seconds(far)} across an ocean, in {blocks_of(million):,} blocks of {million.block_samples} samples and "
        f"{rounds_of(million):,} rounds: blocks are kept small to bound memory, so over a distance rounds decide."
    )
    return table, words
