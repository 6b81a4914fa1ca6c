"""All points of an accuracy figure, on both data sets, and the students taught by them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from sedml.errors import FileFormatError, InputError
from sedml.lab.reproduce.points import Point, Terms, mnist_point, svhn_point
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.students import StudentRow, read_students, train_label_files
from sedml.lab.reproduce.vote_data import svhn_histograms
from sedml.learn.datasets import data_folder

__all__ = ["Sweep", "accuracy_of", "chance_words", "largest_gap", "seed_noise", "student_words", "sweep"]


@dataclass(frozen=True, eq=False)
class Sweep:
    """What a figure is made of; SVHN has no students, as the images of its queries are not public."""

    mnist: Sequence[Point]
    svhn: Sequence[Point]
    students: Sequence[StudentRow]
    missing: str
    """What could not be had, and why."""

    @property
    def points(self) -> Sequence[Point]:
        """Of both data sets."""
        return [*self.mnist, *self.svhn]

    def taught(self, point: Point, line: str) -> float | None:
        """The mean accuracy of the students of a line, None if there are none."""
        return accuracy_of(self.students, point.file.name, line)


def sweep(settings: Settings, grid: Mapping[str, Terms], svhn_queries: int) -> Sweep:
    """Label both data sets under all terms of a grid, by name, and teach students of MNIST."""
    missing: list[str] = []
    mnist, svhn = (_points(settings, dataset, grid, svhn_queries, missing) for dataset in ("mnist", "svhn"))
    students: list[StudentRow] = []
    if mnist:
        students, reason = _teach(settings, mnist)
        if reason:
            missing.append(f"No students: {reason}")
    return Sweep(mnist, svhn, students, " ".join(missing))


def accuracy_of(rows: Sequence[StudentRow], name: str, line: str) -> float | None:
    """The mean accuracy of a line's students."""
    found = [row.accuracy for row in rows if (row.file, row.line) == (name, line)]
    return mean(found) if found else None


def student_words(settings: Settings, rows: Sequence[StudentRow]) -> str:
    """How the students of a figure were trained."""
    seeds = len({row.seed for row in rows})
    place = ", on another machine on this run's label files" if settings.students is not None else ""
    return (
        f"Students of MNIST: {rows[0].setting}; trained{place} on the labelled images only, tested on the last 1,000 "
        f"test images; mean of {seeds} {'seed' if seeds == 1 else 'seeds'}."
    )


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


def chance_words(rows: Sequence[StudentRow]) -> str:
    """How far apart equal points are by chance."""
    noise = seed_noise(rows)
    if not noise:
        return "with one seed each, nobody can say how much of that is chance"
    return f"the choice of seeds alone moves two equal points up to {noise:.2f} apart (two standard errors)"


def largest_gap(pairs: Sequence[tuple[float | None, float | None]]) -> float:
    """The largest difference of two accuracies, in percentage points."""
    return max((100 * abs(one - other) for one, other in pairs if one is not None and other is not None), default=0.0)


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
