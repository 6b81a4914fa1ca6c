"""The tables and charts of a sweep: every figure that a point has, its heading and how it is written; curves of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from typing import Literal

from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import PAPER, PLAIN, Chart, Panel, Series
from sedml.lab.reproduce.labelling import Point
from sedml.lab.reproduce.results import Cell, Column, Table
from sedml.lab.reproduce.students import StudentRow
from sedml.lab.reproduce.sweep import Line, Sweep, seed_noise

__all__ = ["point_table", "student_tables", "sweep_charts"]

_FIGURES: dict[str, tuple[str, str, Callable[[Point, Sweep], Cell]]] = {
    "dataset": ("data", "", lambda point, _: point.dataset),
    "epsilon_query": ("ε of a query", "g", lambda point, _: point.terms.epsilon),
    "teachers": ("teachers", ",", lambda point, _: point.terms.teachers),
    "threshold": ("threshold", "g", lambda point, _: point.terms.threshold),
    "plain_answered": ("labels, plain", ",", lambda point, _: point.quality("plain").answered),
    "secure_answered": ("labels, secure", ",", lambda point, _: point.quality("secure").answered),
    "plain_accuracy": ("right, plain", ".2%", lambda point, _: point.quality("plain").accuracy),
    "plain_again_accuracy": ("right, plain again", ".2%", lambda point, _: point.quality("again").accuracy),
    "secure_accuracy": ("right, secure", ".2%", lambda point, _: point.quality("secure").accuracy),
    "secure_right_of_all": ("right of all asked, secure", ".2%", lambda point, _: point.quality("secure").right_of_all),
    "student_plain": ("student, plain", ".2%", lambda point, found: found.taught(point, "plain")),
    "student_secure": ("student, secure", ".2%", lambda point, found: found.taught(point, "secure")),
    "same_noise_same_labels": ("same noise, same labels", "", lambda point, _: point.agrees),
    "delta": ("δ", "g", lambda point, _: point.delta),
    "queries": ("queries", ",", lambda point, _: len(point.truth)),
    "sigma": ("sigma1 = sigma2, votes", ".3f", lambda point, _: point.task.sigma1),
    "epsilon_query_paper": ("ε of a query, the paper", ".4g", lambda point, _: point.privacy.paper_query),
    "epsilon_job_paper": ("ε of the job, the paper's formula", ",.1f", lambda point, _: point.privacy.paper_job),
    "epsilon_job_exact": ("ε of the job, proven, exact noise", ",.1f", lambda point, _: point.exact_epsilon),
    "epsilon_job": ("ε of the job, as drawn", ",.1f", lambda point, _: point.privacy.requester.epsilon),
}
"""By its name in the CSV file: the heading on the page, the form of its numbers there, and where it comes from."""

_LOOKS = ("plain", "plaintext aggregation", PAPER, "s--"), ("secure", "secure protocol", PLAIN, "o-")


def point_table(
    name: str, title: str, keys: Sequence[str], found: Sweep, points: Sequence[Point], note: str = ""
) -> Table:
    """One row per point, with these figures."""
    columns = [Column(key, *_FIGURES[key][:2]) for key in keys]
    return Table(name, title, columns, [[_FIGURES[key][2](point, found) for key in keys] for point in points], note)


def student_tables(item: str, rows: Sequence[StudentRow]) -> list[Table]:
    """Every student, for the CSV file; no table where there is none."""
    forms = {"labels": ",", "accuracy": ".4f"}
    columns = [Column(each.name, each.name, forms.get(each.name, "")) for each in fields(StudentRow)]
    return [Table(f"{item}_students", "Every student", columns, [*map(astuple, rows)], page=False)] if rows else []


def sweep_charts(item: str, found: Sweep, x: Literal["teachers", "threshold"]) -> list[Chart]:
    """Accuracy of the labels of each data set and of the students of MNIST, over one of the terms."""
    labels = {"teachers": "teachers", "threshold": "threshold, share of the teachers"}

    def panel(points: Sequence[Point], value: Line, label: str, error: float) -> Panel:
        best = published.BEST_THRESHOLDS[points[0].dataset]
        return Panel(
            [
                Series(name, colour, [_percent(value(point, line)) for point in points],
                       [getattr(point.terms, x) for point in points], style, error)
                for line, name, colour, style in _LOOKS
            ],
            labels[x],
            label,
            linear=True,
            title=f"ε of a query {points[0].terms.epsilon:g}, sigma {points[0].task.sigma1:.1f}",
            band=(best - 0.01, best + 0.01, f"best for students by the paper, about {best:g}")
            if x == "threshold"
            else None,
        )  # fmt: skip

    def chart(name: str, caption: str, points: Sequence[Point], value: Line, label: str, error: float = 0.0) -> Chart:
        noises = sorted({point.terms.epsilon for point in points})
        panels = [
            panel([point for point in points if point.terms.epsilon == epsilon], value, "" if place else label, error)
            for place, epsilon in enumerate(noises)
        ]
        return Chart(f"{item}_{name}", caption, panels, size=(3.3 * max(2, len(panels)), 3.6), share_y=True, columns=2)

    over = "the number of teachers" if x == "teachers" else "the threshold"
    charts = []
    for name, points in found.by_dataset:
        caption = f"{name}: how many of the labels are right, over {over}."
        charts.append(chart(f"{name.lower()}_labels", caption, points, found.right, "right labels, per cent"))
    if found.students:
        caption = f"MNIST: students over {over}, on the 1,000 images kept for testing; bars are two standard errors."
        error = seed_noise(found.students) / math.sqrt(2)
        charts.append(chart("mnist_students", caption, found.mnist, found.taught, "student right, per cent", error))
    return charts


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share
