"""What a privacy budget buys, as a picture: right labels and their accuracy against epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sedml.errors import FileFormatError, require_libraries
from sedml.lab.saving import saving
from sedml.privacy.planning import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["check_target", "save_utility_plot", "utility_figure"]

_SUFFIXES = (".png", ".svg", ".pdf")
_RIGHT, _ANSWERED, _ASKED, _PLAN = "#0b5394", "#6fa8dc", "#999999", "#cc4125"


def check_target(path: Path) -> None:
    """Raise unless a picture can be drawn and the path has a folder and a known suffix."""
    if path.suffix.lower() not in _SUFFIXES:
        raise FileFormatError(f"A plot cannot be written to {path}.", f"Use a file ending in {', '.join(_SUFFIXES)}.")
    if not path.parent.is_dir():
        raise FileFormatError(f"The folder of {path} does not exist.", "Create it, or choose another file.")
    require_libraries("matplotlib")


def save_utility_plot(plan: Plan, path: Path) -> None:
    """Draw `utility_figure` to a .png, .svg or .pdf file."""
    check_target(path)
    with saving(path) as stream:
        utility_figure(plan).savefig(stream, format=path.suffix.lower().removeprefix("."), dpi=150)


def utility_figure(plan: Plan) -> Figure:
    """The best plan of every budget around this one: labels above, their accuracy below, this plan marked."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 6.4), layout="constrained")
    labels, accuracy = figure.subplots(2, 1, sharex=True, height_ratios=(2.2, 1.0))
    labels.set_title("What a privacy budget buys", loc="left", fontsize=14, fontweight="bold", pad=34)
    labels.text(
        0.0,
        1.02,
        f"{plan.teachers:,} teachers, {plan.classes} classes, up to {plan.samples:,} samples\n{plan.source}",
        transform=labels.transAxes,
        va="bottom",
        fontsize=9,
        color="#444444",
    )
    _draw_labels(labels, plan)
    _draw_accuracy(accuracy, plan)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    charged = "all samples asked answered" if plan.charged == "reserved" else "the expected number answered"
    accuracy.set_xlabel(f"privacy budget epsilon at delta {plan.delta:g} (requester's view, {charged})")
    accuracy.set_xlim(0.0, 1.02 * max(point.epsilon for point in (*plan.by_epsilon, plan.chosen)))
    return figure


def _draw_labels(axes: Axes, plan: Plan) -> None:
    epsilons = [point.epsilon for point in plan.by_epsilon]
    axes.plot(epsilons, [point.asked for point in plan.by_epsilon], "--", color=_ASKED, label="samples worth asking")
    axes.plot(epsilons, [point.answered for point in plan.by_epsilon], color=_ANSWERED, label="labels expected")
    axes.plot(epsilons, [point.right for point in plan.by_epsilon], color=_RIGHT, lw=2.5, label="right labels expected")
    chosen = plan.chosen
    marked = f"the plan: {chosen.right:,.0f} right labels at epsilon {chosen.epsilon:.3g}"
    axes.plot([chosen.epsilon], [chosen.right], "*", ms=16, color=_PLAN, label=marked, zorder=5)
    axes.set_ylabel("number of samples")
    axes.set_ylim(0, 1.08 * max(point.asked for point in (*plan.by_epsilon, chosen)))
    axes.grid(alpha=0.25)


def _draw_accuracy(axes: Axes, plan: Plan) -> None:
    points, floor = plan.by_epsilon, 100.0 * plan.min_accuracy
    axes.plot([point.epsilon for point in points], [100.0 * point.accuracy for point in points], color=_RIGHT, lw=2.5)
    axes.plot([plan.chosen.epsilon], [100.0 * plan.chosen.accuracy], "*", ms=16, color=_PLAN, zorder=5)
    axes.axhline(floor, color=_ASKED, ls=":")
    lowest = min(floor, *(100.0 * point.accuracy for point in points))
    room = 0.3 * (100.0 - lowest)
    axes.set_ylim(lowest - room, 100.0)
    axes.text(
        0.99,
        floor - 0.15 * room,
        f"at least {floor:g} % was asked for",
        transform=axes.get_yaxis_transform(),
        ha="right",
        va="top",
        fontsize=9,
        color="#666666",
    )
    axes.set_ylabel("accuracy, %")
    axes.grid(alpha=0.25)
