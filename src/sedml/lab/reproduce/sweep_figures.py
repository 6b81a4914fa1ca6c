"""The tables and charts of a sweep: every figure that a point has, its heading and how it is written; curves of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Literal

from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import PAPER, PLAIN, Chart, Panel, Series
from sedml.lab.reproduce.labelling import Point
from sedml.lab.reproduce.results import Column, Table
from sedml.lab.reproduce.students import StudentRow
from sedml.lab.reproduce.sweep import Line, Sweep, seed_noise

__all__ = ["point_table", "student_tables", "sweep_charts"]

_LOOKS = ("plain", "plaintext aggregation", PAPER, "s--"), ("secure", "secure protocol", PLAIN, "o-")


def point_table(
    name: str, title: str, keys: Sequence[str], found: Sweep, points: Sequence[Point], note: str = ""
) -> Table:
    """One row per point, with these of the figures that a point has."""
    columns = (
        Column("dataset", "data", "", lambda x: x.dataset),
        Column("epsilon_query", "ε of a query", "g", lambda x: x.terms.epsilon),
        Column("teachers", "teachers", ",", lambda x: x.terms.teachers),
        Column("threshold", "threshold", "g", lambda x: x.terms.threshold),
        Column("plain_answered", "labels, plain", ",", lambda x: x.quality("plain").answered),
        Column("secure_answered", "labels, secure", ",", lambda x: x.quality("secure").answered),
        Column("plain_accuracy", "right, plain", ".2%", lambda x: x.quality("plain").accuracy),
        Column("plain_again_accuracy", "right, plain again", ".2%", lambda x: x.quality("again").accuracy),
        Column("secure_accuracy", "right, secure", ".2%", lambda x: x.quality("secure").accuracy),
        Column(
            "secure_right_of_all",
            "right of all asked, secure",
            ".2%",
            lambda x: x.quality("secure").right_of_all,
        ),
        Column("student_plain", "student, plain", ".2%", lambda x: found.taught(x, "plain")),
        Column("student_secure", "student, secure", ".2%", lambda x: found.taught(x, "secure")),
        Column("same_noise_same_labels", "same noise, same labels", "", lambda x: x.agrees),
        Column("delta", "δ", "g", lambda x: x.delta),
        Column("queries", "queries", ",", lambda x: len(x.truth)),
        Column("sigma", "sigma1 = sigma2, votes", ".3f", lambda x: x.task.sigma1),
        Column("epsilon_query_paper", "ε of a query, the paper", ".4g", lambda x: x.privacy.paper_query),
        Column("epsilon_job_paper", "ε of the job, the paper's formula", ",.1f", lambda x: x.privacy.paper_job),
        Column("epsilon_job_exact", "ε of the job, proven, exact noise", ",.1f", lambda x: x.exact_epsilon),
        Column("epsilon_job", "ε of the job, as drawn", ",.1f", lambda x: x.privacy.requester.epsilon),
    )
    return Table(name, title, [column for key in keys for column in columns if column.key == key], points, note)


def student_tables(item: str, rows: Sequence[StudentRow]) -> list[Table]:
    """Every student, for the CSV file; no table where there is none."""
    forms = {"labels": ",", "accuracy": ".4f"}
    columns = [Column(each.name, each.name, forms.get(each.name, "")) for each in fields(StudentRow)]
    return [Table(f"{item}_students", "Every student", columns, rows, page=False)] if rows else []


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
