"""All points of an accuracy figure, on both data sets, the students taught by them, and tables and charts of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import mean
from typing import Literal, TypeAlias

from sedml.errors import FileFormatError, InputError
from sedml.lab.report.charts import PLAIN
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import PAPER, Chart, Panel, Series
from sedml.lab.reproduce.labelling import Point, Terms, mnist_point, svhn_point
from sedml.lab.reproduce.results import Column, Table
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.students import StudentRow, train_students_of
from sedml.lab.reproduce.vote_data import svhn_histograms

Line: TypeAlias = Callable[[Point, str], float | None]
"""The accuracy of the labels of a point, or of its students: in plaintext, in plaintext again, or secure."""

_LOOKS = ("plain", "plaintext aggregation", PAPER, "s--"), ("secure", "secure protocol", PLAIN, "o-")


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a figure is made of; SVHN has no students, as the images of its queries are not public."""

    mnist: Sequence[Point]
    svhn: Sequence[Point]
    students: Sequence[StudentRow]
    missing: str
    """What could not be had, and why."""

    @property
    def by_dataset(self) -> list[tuple[str, Sequence[Point]]]:
        """The points of each data set that has any."""
        return [(name, points) for name, points in (("MNIST", self.mnist), ("SVHN", self.svhn)) if points]

    @property
    def points(self) -> Sequence[Point]:
        """The points of both data sets."""
        return [*self.mnist, *self.svhn]

    @property
    def agrees(self) -> bool:
        """Whether every label of the protocol is that of plain aggregation for the same noise."""
        return all(point.agrees for point in self.points)

    def right(self, point: Point, line: str) -> float | None:
        """The share of right ones among the labels of a line."""
        return point.quality(line).accuracy

    def taught(self, point: Point, line: str) -> float | None:
        """The mean accuracy of the students of a line, None if there are none."""
        found = [row.accuracy for row in self.students if (row.point, row.line) == (point.name, line)]
        return mean(found) if found else None


def sweep(settings: Settings, grid: Mapping[str, Terms], svhn_queries: int) -> Sweep:
    """Label both data sets under all terms of a grid, by name, and teach students of MNIST."""
    missing: list[str] = []
    mnist, svhn = (_points(settings, dataset, grid, svhn_queries, missing) for dataset in ("mnist", "svhn"))
    students, reason = _teach(settings, mnist) if mnist else ([], "")
    if reason:
        missing.append(f"No students: {reason}")
    return Sweep(mnist, svhn, students, " ".join(missing))


def seed_noise(rows: Sequence[StudentRow]) -> float:
    """By how many percentage points the means of two equal points differ by chance: two standard errors.

    The deviation of a student from the mean of its point is pooled over all points; 0 where there is one seed only.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        found.setdefault((row.point, row.line), []).append(row.accuracy)
    squares = sum((value - mean(values)) ** 2 for values in found.values() for value in values)
    freedom = sum(len(values) - 1 for values in found.values())
    if freedom < 1:
        return 0.0
    return 200 * math.sqrt(squares / freedom * 2 / min(len(values) for values in found.values()))


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
        Column("secure_right_of_all", "right of all asked, secure", ".2%", lambda x: x.quality("secure").right_of_all),
        Column("student_plain", "student, plain", ".2%", lambda x: found.taught(x, "plain")),
        Column("student_secure", "student, secure", ".2%", lambda x: found.taught(x, "secure")),
        Column("same_noise_same_labels", "same noise, same labels", "", lambda x: x.agrees),
        Column("delta", "δ", "g", lambda x: x.delta),
        Column("queries", "queries", ",", lambda x: len(x.truth)),
        Column("sigma", "sigma1 = sigma2, votes", ".3f", lambda x: x.task.sigma1),
        Column("epsilon_query_paper", "ε of a query, the paper", ".4g", lambda x: x.epsilon(1)),
        Column("epsilon_job_paper", "ε of the job, the paper's formula", ",.1f", lambda x: x.epsilon(len(x.truth))),
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


def _points(
    settings: Settings, dataset: str, grid: Mapping[str, Terms], svhn_queries: int, missing: list[str]
) -> list[Point]:
    points = []
    try:
        histograms = svhn_histograms(settings.data_dir, svhn_queries) if dataset == "svhn" else None
        for done, (name, terms) in enumerate(grid.items()):
            settings.progress(f"labels of {dataset}", done, len(grid))
            if histograms is None:
                points.append(mnist_point(settings, f"{dataset}-{name}", terms))
            else:
                points.append(svhn_point(histograms, f"{dataset}-{name}", terms))
    except FileFormatError as error:
        missing.append(f"{dataset.upper()} is missing: {error.what} {error.do}")
        return []
    return points


def _teach(settings: Settings, points: Sequence[Point]) -> tuple[list[StudentRow], str]:
    """Train the students of all points; or none, and why."""
    try:
        return train_students_of(points, settings), ""
    except InputError as error:
        return [], f"{error.what} {error.do}"
