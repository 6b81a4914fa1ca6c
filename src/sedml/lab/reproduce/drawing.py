"""Charts in the style of `sedml.lab.report.charts`: units on the axes, the legend below, the paper's values marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from sedml.lab.report.charts import NONE, PLAIN, RIGHT, WRONG

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "NONE",
    "OTHER",
    "PAPER",
    "PLAIN",
    "RIGHT",
    "WRONG",
    "Series",
    "bar_chart",
    "canvas",
    "cost_panels",
    "kilobytes",
    "legend",
    "log_axis",
    "seconds",
]

Series: TypeAlias = tuple[str, str, Sequence[float | None]]
"""Name, colour, and a value for each group of bars, None where there is none."""

PAPER, OTHER = "#d9822b", "#7d5ba6"
_LOG_ROOM = 6.0
_SHORT, _MEDIUM = 30.0, 200.0
_HOURS = 36_000


def canvas(
    width: float = 7.6, height: float = 3.8, columns: int = 1, *, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(1, columns, squeeze=False, sharey=share_y)[0]
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=3)
        axes.grid(visible=True, which="major", alpha=0.25)
        axes.set_axisbelow(True)
    return figure, list(panels)


def legend(figure: Figure, axes: Axes, columns: int = 3) -> None:
    """The legend of these axes, below the whole figure, where no data is."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def log_axis(axes: Axes, which: str, unit: Callable[[float], str] | None = None) -> None:
    """A logarithmic axis with ticks as people write them, such as 10 ms or 100,000; call it after drawing."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis: Any = axes.xaxis if which == "x" else axes.yaxis
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    name = unit or (lambda value: f"{value:,.10g}")
    # A short axis would have only one or two powers of ten to read it by.
    steps = (1.0, 2.0, 5.0) if high < _SHORT * low else (1.0, 5.0) if high < _MEDIUM * low else (1.0,)
    axis.set_major_locator(LogLocator(10, steps, numticks=14))
    axis.set_major_formatter(FuncFormatter(lambda value, _: name(value)))
    axis.set_minor_formatter(NullFormatter())


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


def bar_chart(
    axes: Axes,
    groups: Sequence[str],
    series: Sequence[Series],
    label: str,
    text: Callable[[float], str],
    *,
    one_each: bool = False,
) -> None:
    """Horizontal bars on a logarithmic axis, a group of bars for each name, each with its value behind it.

    `one_each` if no group has two values.
    """
    height = 0.72 if one_each else 0.8 / len(series)
    values = [value for _, _, row in series for value in row if value]
    for place, (name, colour, row) in enumerate(series):
        offset = 0.0 if one_each else (place - (len(series) - 1) / 2) * height
        known = [(index, value) for index, value in enumerate(row) if value]
        rows, widths = [index + offset for index, _ in known], [value for _, value in known]
        axes.barh(rows, widths, height=0.9 * height, color=colour, label=name)
        for where, value in zip(rows, widths, strict=True):
            axes.annotate(
                text(value), (value, where), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8.5
            )
    axes.set_yticks(range(len(groups)), groups)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 3, max(values) * _LOG_ROOM)
    log_axis(axes, "x", text)
    axes.set_xlabel(label)


def cost_panels(names: Sequence[str], panels: Sequence[tuple[Sequence[Series], str, Callable[[float], str]]]) -> Figure:
    """Several costs of the same systems side by side; a panel has its series, its axis and a way to write values."""
    figure, axes = canvas(10.4, 1.7 + 0.42 * len(names), len(panels))
    for place, (series, label, text) in enumerate(panels):
        bar_chart(axes[place], names, series, label, text, one_each=True)
        if place:
            axes[place].set_yticklabels([])
    legend(figure, axes[0])
    return figure
