"""The pictures of growth: measured points, fitted laws, projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from sedml.lab.bench import Report
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.reproduce.cost_model import LINKS, Law, Model
from sedml.lab.reproduce.drawing import (
    NONE,
    OTHER,
    PAPER,
    PLAIN,
    RIGHT,
    WRONG,
    canvas,
    kilobytes,
    legend,
    log_axis,
    seconds,
)
from sedml.lab.reproduce.item_result import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AXES", "axis_chart", "bytes_chart", "law_place", "projection_chart"]

AXES = {"samples": "samples", "classes": "classes", "teachers": "teachers", "latency": "one-way delay, ms"}
"""What is varied, and its unit."""


def law_place(axis: str, size: float) -> float:
    """What a law over an axis is linear in: duels, one fewer than classes; seconds of delay; else the size itself."""
    return size - 1 if axis == "classes" else size / 1e3 if axis == "latency" else size


def axis_chart(
    found: Mapping[str, Mapping[float, Report]], laws: Mapping[tuple[str, str], Law], axes_of: tuple[str, str]
) -> Chart:
    """Time over two of the axes: points and laws."""
    figure, panels = canvas(10.4, 4.0, 2)
    for axes, axis in zip(panels, axes_of, strict=True):
        law, series = laws[axis, "time"], found[axis]
        times = [report.seconds["total"] for report in series.values()]
        if axis == "latency":
            line = np.linspace(0, max(series) * 1.1, 50)
            axes.set_ylim(0, 1.15 * max(times))
            _plain_seconds(axes)
        else:
            line = np.geomspace(min(series), max(series), 50)
        axes.plot(line, [law.at(law_place(axis, x)) for x in line], "-", color=PAPER, label="fitted law")
        axes.plot(list(series), times, "o", color=PLAIN, label="measured", ms=6)
        if axis != "latency":
            axes.set_yscale("log")
            axes.set_ylim(min(times) / 2, max(times) * 2)
            log_axis(axes, "x")
            log_axis(axes, "y", seconds)
        axes.set_xlabel(AXES[axis] + ("" if axis == "latency" else " (logarithmic)"))
        axes.set_ylabel("time" + ("" if axis == "latency" else " (logarithmic)"))
    legend(figure, panels[0], 2)
    name = f"growth_{axes_of[0]}_{axes_of[1]}"
    return Chart(name, f"Time over {axes_of[0]} and over {axes_of[1]}: fixed part plus a linear one.", figure)


def _plain_seconds(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds(value) if value else "0"))


def bytes_chart(found: Mapping[str, Mapping[float, Report]], laws: Mapping[tuple[str, str], Law]) -> Chart:
    """Traffic over samples, classes and teachers."""
    figure, panels = canvas(11.4, 4.0, 3, share_y=True)
    for axes, axis in zip(panels, ("samples", "classes", "teachers"), strict=True):
        series = found[axis]
        for what, key, colour, name in (
            ("bytes", "servers", RIGHT, "between the servers"),
            ("dealt", "dealer", OTHER, "from the dealer, before"),
        ):
            law = laws[axis, what]
            line = np.geomspace(min(series), max(series), 50)
            axes.plot(line, [law.at(law_place(axis, x)) for x in line], "-", color=colour, alpha=0.5)
            axes.plot(
                list(series), [report.bytes[key] for report in series.values()], "o", color=colour, label=name, ms=5
            )
        log_axis(axes, "x")
        log_axis(axes, "y", kilobytes)
        axes.set_xlabel(f"{AXES[axis]} (logarithmic)")
    panels[0].set_ylabel("traffic (logarithmic)")
    legend(figure, panels[0], 2)
    return Chart("growth_bytes", "Traffic: measured points and fitted laws (lines).", figure)


def projection_chart(
    model: Model, measured: Mapping[float, Report], task_of: Callable[[int], LabTask], most: int
) -> Chart:
    """Time over the number of teachers, to `most` of them, by link."""
    figure, [axes] = canvas(8.4, 4.8)
    largest, samples = max(measured), task_of(1).samples
    grid = [int(value) for value in np.unique(np.geomspace(min(measured), most, 60).round())]
    for link, colour in zip(LINKS, (PLAIN, RIGHT, OTHER, WRONG), strict=True):
        times = [model.seconds(task_of(teachers), link) for teachers in grid]
        axes.plot(grid, times, "--", color=colour, label=f"model: {link.name}, {link.delay * 1e3:g} ms")
    times = [report.seconds["total"] for report in measured.values()]
    axes.plot(list(measured), times, "o", color=PLAIN, ms=7, label="measured, one machine")
    axes.axvspan(
        largest, most * 1.2, color=NONE, alpha=0.25, lw=0, label=f"beyond {largest:,.0f} teachers: not measured"
    )
    axes.set_xlim(min(grid) / 1.3, most * 1.2)
    log_axis(axes, "x")
    log_axis(axes, "y", seconds)
    axes.set_xlabel("teachers (logarithmic)")
    axes.set_ylabel(f"time for {samples:,} samples (logarithmic)")
    legend(figure, axes, 2)
    return Chart("growth_projection", "Projected to a million teachers and to long distances.", figure)
