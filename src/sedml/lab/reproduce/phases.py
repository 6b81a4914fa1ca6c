"""What the paper's two tables share: its phases by name, a chart of bars for each, the headlines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sedml.lab.reproduce.drawing import PAPER, PLAIN, RIGHT, bar_chart, canvas, legend
from sedml.lab.reproduce.item_result import Chart, Headline

__all__ = ["PHASE_NAMES", "phase_chart", "phase_headlines"]

PHASE_NAMES = {
    "count": "counting the votes",
    "highest": "1. highest vote",
    "threshold": "2. threshold check",
    "label": "3. consensus label",
    "total": "in all",
}


def phase_chart(
    name: str,
    caption: str,
    values: tuple[Sequence[float | None], Sequence[float | None], Sequence[float | None]],
    label: str,
    text: Callable[[float], str],
) -> Chart:
    """Bars by phase; `values` are the paper's, those of its three phases here, and those of the fused protocol."""
    figure, [axes] = canvas(7.6, 4.6)
    names = ("the paper", PAPER), ("ours, the paper's three phases", PLAIN), ("ours, fused", RIGHT)
    series = [(*look, row) for look, row in zip(names, values, strict=True)]
    bar_chart(axes, list(PHASE_NAMES.values()), series, label, text)
    legend(figure, axes)
    return Chart(name, caption, figure)


def phase_headlines(
    what: str, job: str, paper: str, ours: tuple[str, str], times_less: tuple[float, float]
) -> tuple[Headline, Headline]:
    """The paper's figure of a whole job next to that of its three phases here, and of the fused protocol."""
    three, fused = (
        Headline(f"{what}, {protocol}, {job}", paper, own, f"{less:,.0f} times less")
        for protocol, own, less in zip(("the paper's three phases", "fused protocol"), ours, times_less, strict=True)
    )
    return three, fused
