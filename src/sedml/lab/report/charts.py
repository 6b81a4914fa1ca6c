"""The pictures of an experiment's report, each as an inline SVG for a page that needs no other file.

Their ink follows the reader's light or dark mode. The same figures give the same bytes.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sedml.privacy.accounting import PrivacyReport
from sedml.protocol.votes import NO_CONSENSUS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RIGHT, WRONG, NONE, PLAIN, INK = "#2a9960", "#d0533f", "#a9b1ba", "#4a7cc9", "#1d2430"
NEUTRAL = "#7b8591"
_DARK = f"""
* {{ font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif !important; }}
@media (prefers-color-scheme: dark) {{
  [style*="fill: {INK}"] {{ fill: #e6e9ee !important; }}
  [style*="stroke: {INK}"] {{ stroke: #a3adba !important; }}
}}
"""
_WIDTH = 5.4  # inches: narrow enough for its letters to be read on a phone
_COLUMNS = 10  # of the gallery


def inline(figure: Figure) -> str:
    """A figure as a data URL."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "sedml"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    drawn = buffer.getvalue().decode().replace("<defs>", f"<style>{_DARK}</style><defs>", 1)
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.encode()).decode()


def class_chart(labels: npt.NDArray[np.int64], truth: npt.NDArray[np.int64], names: Sequence[str]) -> Figure:
    """A bar for each class: samples labelled right, labelled wrong, and left without a label."""
    figure, axes = _canvas(3.4)
    positions = np.arange(len(names))
    bottom = np.zeros(len(names))
    parts = (
        ("right label", (labels == truth), RIGHT),
        ("wrong label", (labels != truth) & (labels != NO_CONSENSUS), WRONG),
        ("no consensus", labels == NO_CONSENSUS, NONE),
    )
    for name, chosen, colour in parts:
        heights = np.bincount(truth[chosen], minlength=len(names))
        axes.bar(positions, heights, bottom=bottom, color=colour, label=f"{name} ({int(chosen.sum()):,})", width=0.75)
        bottom += heights
    axes.set_xticks(positions, names, rotation=0 if len(names) <= 12 else 60)
    axes.set_xlabel("true class")
    axes.set_ylabel("public samples")
    axes.locator_params(axis="y", integer=True)
    _legend(axes)
    return figure


def margin_chart(top: npt.NDArray[np.int64], answered: npt.NDArray[np.bool_], threshold: int, teachers: int) -> Figure:
    """How many votes the most popular class of each sample had, against the threshold."""
    figure, axes = _canvas(3.4)
    edges = np.linspace(-0.5, teachers + 0.5, min(teachers + 2, 42)).tolist()
    axes.hist(
        [top[answered], top[~answered]],
        bins=edges,
        stacked=True,
        color=[PLAIN, NONE],
        label=["labelled", "no consensus"],
    )
    axes.axvline(threshold, color=WRONG, linewidth=1.6)
    side, offset = ("right", -6) if threshold > teachers / 2 else ("left", 6)
    axes.annotate(
        f"threshold {threshold}", (threshold, 0.97), xycoords=("data", "axes fraction"), color=WRONG, va="top",
        ha=side, xytext=(offset, 0), textcoords="offset points",
    )  # fmt: skip
    axes.set_xlim(0, teachers)
    axes.set_xlabel(f"votes for the most popular class, of {teachers}")
    axes.set_ylabel("public samples")
    _legend(axes)
    return figure


def accuracy_chart(accuracies: Mapping[str, float]) -> Figure:
    """How often each is right, as bars from the top down."""
    figure, axes = _canvas(0.55 + 0.42 * len(accuracies))
    names = list(accuracies)
    values = [100 * accuracies[name] for name in names]
    colours = [RIGHT if name.startswith("student") else PLAIN for name in names]
    axes.barh(range(len(names)), values, color=colours, height=0.62)
    for row, value in enumerate(values):
        axes.text(value + 0.6, row, f"{value:.1f}%", va="center", color=INK)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, 112)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("correct, %")
    return figure


def epsilon_chart(spent: PrivacyReport) -> Figure:
    """Epsilon of a job: what is claimed, and what holds if no operator works with the requester."""
    figure, axes = _canvas(1.8)
    names = ["requester and one operator", "requester alone"]
    found = [spent.epsilon, spent.epsilon_apart]
    widest = max((value for value in found if math.isfinite(value)), default=1.0)
    values = [value if math.isfinite(value) else widest * 1.15 for value in found]
    axes.barh(names, values, height=0.5, color=[PLAIN, NONE])
    for row, (value, place) in enumerate(zip(found, values, strict=True)):
        text = f"{value:.3g}" if math.isfinite(value) else "no guarantee"
        axes.text(place + widest * 0.01, row, text, va="center", color=INK)
    axes.invert_yaxis()
    axes.set_xlim(0, widest * 1.45)
    axes.set_xlabel(f"epsilon of the whole job at delta = {spent.delta:g}")
    return figure


def gallery(
    images: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    truth: npt.NDArray[np.int64],
    top: npt.NDArray[np.int64] | None,
    names: Sequence[str],
) -> Figure:
    """A few samples with their labels, and the most votes unless None: right, wrong, and those without consensus."""
    from matplotlib.figure import Figure

    rows = [
        ("right", np.flatnonzero(labels == truth), RIGHT),
        ("wrong", np.flatnonzero((labels != truth) & (labels != NO_CONSENSUS)), WRONG),
        ("no consensus", np.flatnonzero(labels == NO_CONSENSUS), NEUTRAL),
    ]
    rows = [row for row in rows if len(row[1])]
    figure = Figure(figsize=(_WIDTH, 0.98 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), _COLUMNS, squeeze=False)
    for line, (name, chosen, colour) in zip(grid, rows, strict=True):
        for place, axes in enumerate(line):
            axes.set_axis_off()
            if place < len(chosen):
                sample = chosen[place]
                axes.imshow(images[sample].squeeze(), cmap="gray_r" if images.shape[-1] == 1 else None)
                label = "" if labels[sample] == NO_CONSENSUS else names[labels[sample]]
                title = label if top is None else f"{label} ({top[sample]})".lstrip()
                axes.set_title(title, fontsize=7.5, color=colour, pad=2)
        line[0].annotate(
            name, (-0.15, 0.5), xycoords="axes fraction", rotation=90, ha="right", va="center", fontsize=8, color=colour
        )
    return figure


def _legend(axes: Axes) -> None:
    """Above the picture, where it hides nothing."""
    axes.legend(
        ncols=3, frameon=False, labelcolor=INK, fontsize=9, loc="lower left", bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2, columnspacing=1.2, handlelength=1.2,
    )  # fmt: skip


def _canvas(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    for spine in axes.spines.values():
        spine.set_color(INK)
    axes.tick_params(length=3, color=INK, labelcolor=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    return figure, axes
