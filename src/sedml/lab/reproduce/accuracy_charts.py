"""The pictures of accuracy: lines over the number of teachers, and what the noise means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sedml.lab.reproduce.drawing import NONE, PAPER, PLAIN, WRONG, bar_chart, canvas, legend
from sedml.lab.reproduce.item_result import Chart
from sedml.lab.reproduce.points import Point
from sedml.lab.reproduce.sweep import Sweep, seed_noise

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy_charts", "draw_lines", "zoom"]

_LOOKS = {"plain": ("s--", PAPER, 6.0, "plaintext aggregation"), "secure": ("o-", PLAIN, 4.5, "secure protocol")}


def accuracy_charts(found: Sweep) -> list[Chart]:
    """Labels of both data sets, students, epsilon."""
    charts = []
    for dataset, points in (("MNIST", found.mnist), ("SVHN", found.svhn)):
        if points:
            caption = f"{dataset}: how many of the labels are right, over the number of teachers."
            figure = _lines(points, _label_accuracy, "right labels, per cent")
            charts.append(Chart(f"accuracy_{dataset.lower()}_labels", caption, figure))
    if found.students:
        caption = "MNIST: accuracy of students on the 1,000 images kept for testing; bars are two standard errors."
        error = seed_noise(found.students) / math.sqrt(2)
        figure = _lines(found.mnist, found.taught, "student right, per cent", error)
        charts.append(Chart("accuracy_mnist_students", caption, figure))
    charts.append(_epsilon_chart(found.mnist or found.svhn))
    return charts


def _label_accuracy(point: Point, line: str) -> float | None:
    return point.quality(line).accuracy


def _lines(
    points: Sequence[Point], value: Callable[[Point, str], float | None], label: str, error: float = 0.0
) -> Figure:
    found = sorted({point.terms.epsilon for point in points})
    figure, panels = canvas(3.3 * max(2, len(found)), 3.6, len(found), share_y=True)
    for axes, epsilon in zip(panels, found, strict=True):
        own = [point for point in points if point.terms.epsilon == epsilon]
        own.sort(key=lambda point: point.terms.teachers)
        draw_lines(axes, [point.terms.teachers for point in own], own, value, error)
        axes.set_title(f"ε of a query {epsilon:g}, sigma {own[0].sigma:.1f}", fontsize=10)
        axes.set_xlabel("teachers")
    panels[0].set_ylabel(label)
    zoom(panels[0], [value(point, line) for point in points for line in _LOOKS])
    legend(figure, panels[0], 2)
    return figure


def draw_lines(
    axes: Axes,
    xs: Sequence[float],
    points: Sequence[Point],
    value: Callable[[Point, str], float | None],
    error: float = 0.0,
) -> None:
    """A line for plaintext and one for the protocol, in per cent, with error bars where there is an error."""
    for line, (look, colour, size, name) in _LOOKS.items():
        heights = [math.nan if (height := value(point, line)) is None else 100 * height for point in points]
        axes.errorbar(
            xs, heights, error or None, fmt=look, color=colour, ms=size, capsize=3, elinewidth=0.9, label=name
        )
    axes.set_xticks(list(xs))


def zoom(axes: Axes, values: Sequence[float | None]) -> None:
    """Leave room of a percentage point around the data, so that random wiggles do not fill the picture."""
    known = [100 * value for value in values if value is not None]
    if known:
        axes.set_ylim(max(0.0, min(known) - 1), min(100.5, max(known) + 1))


def _epsilon_chart(points: Sequence[Point]) -> Chart:
    found = {point.terms.epsilon: point for point in points}
    chosen = [found[epsilon] for epsilon in sorted(found)]
    figure, [axes] = canvas(7.6, 1.8 + 0.8 * len(chosen))
    bar_chart(
        axes,
        [f"sigma {point.sigma:.1f}" for point in chosen],
        (
            ("one query, as the paper counts", PAPER, [point.privacy.query_paper for point in chosen]),
            ("the whole job, proven", WRONG, [point.privacy.job_exact for point in chosen]),
            ("the whole job, the paper's formula", NONE, [point.privacy.job_paper for point in chosen]),
        ),
        f"epsilon at delta {chosen[0].delta:g}, {len(chosen[0].truth):,} queries (logarithmic)",
        lambda value: f"{value:,.4g}" if value < 1000 else f"{value:,.0f}",
    )
    legend(figure, axes, 2)
    return Chart("accuracy_epsilon", "The same noise, counted for one query and for the whole job.", figure)
