"""All points of an accuracy figure, on both data sets, and the students taught by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import TypeAlias

from sedml.errors import FileFormatError, InputError
from sedml.lab.reproduce.labelling import Point, Terms, mnist_point, svhn_point
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.students import StudentRow, read_students, train_label_files
from sedml.lab.reproduce.vote_data import svhn_histograms
from sedml.learn.datasets import data_folder

__all__ = ["Line", "Sweep", "seed_noise", "sweep"]

Line: TypeAlias = Callable[[Point, str], float | None]
"""The accuracy of the labels of a point, or of its students: in plaintext, in plaintext again, or secure."""


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
        found = [row.accuracy for row in self.students if (row.file, row.line) == (point.file.name, line)]
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
        found.setdefault((row.file, row.line), []).append(row.accuracy)
    squares = sum((value - mean(values)) ** 2 for values in found.values() for value in values)
    freedom = sum(len(values) - 1 for values in found.values())
    if freedom < 1:
        return 0.0
    return 200 * math.sqrt(squares / freedom * 2 / min(len(values) for values in found.values()))


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
        if settings.students is not None and dataset == "mnist":
            raise
        missing.append(f"{dataset.upper()} is missing: {error.what} {error.do}")
        return []
    return points


def _teach(settings: Settings, points: Sequence[Point]) -> tuple[list[StudentRow], str]:
    """Train the students of all points, or read those trained elsewhere; or none, and why."""
    files = [point.file for point in points]
    if settings.students is not None:
        rows = read_students(settings.students, files)
        return rows, "" if rows else "the file of students has none for these labels"
    scale = settings.scale
    try:
        rows = train_label_files(
            files,
            data_folder(settings.data_dir),
            steps=scale.student_steps,
            seeds=scale.student_seeds,
            device=settings.device,
            progress=settings.progress,
        )
    except InputError as error:
        return [], f"{error.what} {error.do}"
    return rows, ""
