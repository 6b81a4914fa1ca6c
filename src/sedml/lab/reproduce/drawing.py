"""The charts of all items: what one shows is data, and this is the one place that draws it.

There are two kinds: curves over numbers, and horizontal bars for groups by name. Units are on the axes, the legend is
below, and the paper's values are in a colour of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sedml.lab.report.charts import NONE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAPER = "#d9822b"
_LOG_ROOM = 6.0
_SHORT, _MEDIUM = 30.0, 200.0
_HOURS = 36_000


@dataclass(frozen=True)
class Series:
    """A curve, or the bars of one colour; a y, or a bar, is None where there is nothing to show."""

    name: str
    colour: str
    ys: Sequence[float | None]
    xs: Sequence[float] = ()
    """Where the points of a curve are."""
    style: str = "o-"
    error: float = 0.0
    """Half the length of error bars."""


@dataclass(frozen=True)
class Panel:
    """One of the pictures side by side. Its axis of values is logarithmic, and `unit` writes them.

    Where it is `linear` values are per cent, shown with a point of room around them, so that random wiggles do not fill
    the picture.
    """

    series: Sequence[Series]
    x: str
    y: str = ""
    unit: Callable[[float], str] | None = None
    linear: bool = False
    title: str = ""
    band: tuple[float, float, str] | None = None
    """Part of the x axis that is pointed out, and what is so about it."""


@dataclass(frozen=True)
class Chart:
    """A picture and what it shows: bars where there are `groups`, else curves."""

    name: str
    caption: str
    panels: Sequence[Panel]
    groups: Sequence[str] = ()
    size: tuple[float, float] = (7.6, 4.6)
    share_y: bool = False
    columns: int = 3
    """How many columns the legend has, which is below all panels."""


def seconds(value: float) -> str:
    """Seconds for people: 4.3 ms, 47.3 s."""
    if value < 1e-3:
        return f"{value * 1e6:.3g} µs"
    if value < 1:
        return f"{value * 1e3:.3g} ms"
    if value < _HOURS:
        return f"{value:,.3g} s" if value < 1000 else f"{value:,.0f} s"
    return f"{value / 3600:,.3g} h"


def kilobytes(count: float) -> str:
    """Bytes for people: 463 KB, 1.15 MB."""
    if count < 1e6:
        return f"{count / 1e3:,.3g} KB"
    return f"{count / 1e6:,.3g} MB" if count < 1e9 else f"{count / 1e9:,.3g} GB"


def draw(chart: Chart) -> Figure:
    """The picture of a chart."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=chart.size, layout="constrained")
    places = figure.subplots(1, len(chart.panels), squeeze=False, sharey=chart.share_y)[0]
    together = [one for panel in chart.panels for one in panel.series]
    for axes, panel in zip(places, chart.panels, strict=True):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=3)
        axes.grid(visible=True, which="major", alpha=0.25)
        axes.set_axisbelow(True)
        if chart.groups:
            _bars(axes, panel, chart.groups if axes is places[0] else [""] * len(chart.groups))
        else:
            _curves(axes, panel, together if chart.share_y else panel.series)
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.set_title(panel.title, fontsize=10)
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=chart.columns, frameon=False)
    return figure


def _bars(axes: Axes, panel: Panel, groups: Sequence[str]) -> None:
    """A group of bars for each name, each with its value behind it."""
    unit = panel.unit or str
    height = 0.8 / len(panel.series)
    for place, one in enumerate(panel.series):
        offset = (place - (len(panel.series) - 1) / 2) * height
        known = [(index + offset, value) for index, value in enumerate(one.ys) if value]
        rows, widths = [row for row, _ in known], [value for _, value in known]
        axes.barh(rows, widths, height=0.9 * height, color=one.colour, label=one.name)
        for row, value in known:
            axes.annotate(
                unit(value), (value, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5
            )
    axes.set_yticks(range(len(groups)), groups)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    values = [value for one in panel.series for value in one.ys if value]
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 3, max(values) * _LOG_ROOM)
    _log_ticks(axes.xaxis, axes.get_xlim(), unit)


def _curves(axes: Axes, panel: Panel, together: Sequence[Series]) -> None:
    """The curves of a panel, on an axis of values that has room for those `together`."""
    for one in panel.series:
        ys = [math.nan if y is None else y for y in one.ys]
        axes.errorbar(
            one.xs, ys, one.error or None, fmt=one.style, color=one.colour, ms=5, capsize=3, elinewidth=0.9,
            label=one.name,
        )  # fmt: skip
    if panel.band:
        low, high, meaning = panel.band
        axes.axvspan(low, high, color=NONE, alpha=0.35, lw=0, zorder=0, label=meaning)
    known = [y for one in together for y in one.ys if y is not None]
    if not panel.linear:
        axes.set_xscale("log")
        axes.set_yscale("log")
        _log_ticks(axes.xaxis, axes.get_xlim(), "{:,.10g}".format)
        _log_ticks(axes.yaxis, axes.get_ylim(), panel.unit or str)
        return
    axes.set_xticks(sorted({x for one in panel.series for x in one.xs}))
    if known:
        axes.set_ylim(max(0.0, min(known) - 1), min(100.5, max(known) + 1))


def _log_ticks(axis: Any, limits: tuple[float, float], unit: Callable[[float], str]) -> None:  # noqa: ANN401
    """Ticks as people write them, such as 10 ms or 100,000."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = limits
    # A short axis would have only one or two powers of ten to read it by.
    steps: tuple[float, ...] = (1.0,)
    if high < _SHORT * low:
        steps = (1.0, 2.0, 5.0)
    elif high < _MEDIUM * low:
        steps = (1.0, 5.0)
    axis.set_major_locator(LogLocator(10, steps, numticks=14))
    axis.set_major_formatter(_written(unit))
    axis.set_minor_formatter(NullFormatter())


def _written(unit: Callable[[float], str]) -> Any:  # noqa: ANN401
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, _: unit(value) if value else "0")
