"""A point of an accuracy figure: labels under some terms, the students taught by them, and how good both are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, InputError
from sedml.lab.reproduce import published
from sedml.lab.reproduce.item_result import Column, Table
from sedml.lab.reproduce.labelling import Epsilons, Quality, epsilons, label_counts, label_votes, quality, sigma_for
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.students import (
    LabelFile,
    StudentRow,
    read_label_file,
    read_students,
    train_label_files,
    write_label_file,
)
from sedml.lab.reproduce.vote_data import CLASSES, Histograms, mnist_votes, thin
from sedml.learn.datasets import data_folder
from sedml.protocol.task import Task
from sedml.protocol.votes import threshold_count

__all__ = [
    "Point",
    "accuracy_of",
    "chance_words",
    "largest_gap",
    "mnist_point",
    "seed_noise",
    "student_table",
    "student_words",
    "svhn_point",
    "teach",
]


@dataclass(frozen=True, eq=False)
class Point:
    """Labels by line ("secure", "plain", "again"), their quality, and what the noise means."""

    file: LabelFile
    epsilon: float
    """Of one query by the paper's theorem: what the sigma was chosen for."""
    teachers: int
    threshold: float
    sigma: float
    delta: float
    truth: npt.NDArray[np.int64] = field(repr=False)
    own_crew: bool
    """Whether just so many teachers shared the whole training set."""
    privacy: Epsilons

    @property
    def agrees(self) -> bool:
        """Whether the protocol's labels are those of plain aggregation for the same noise."""
        return bool(self.file.terms["agrees"])

    def quality(self, line: str) -> Quality:
        """How good the labels of a line are."""
        return quality(self.file.lines[line], self.truth)


def mnist_point(settings: Settings, name: str, *, teachers: int, threshold: float, epsilon: float) -> Point:
    """Label MNIST by the single votes of real teachers, or take the labels that students elsewhere were trained on."""
    delta = published.DELTAS["mnist"]
    real = mnist_votes(settings.data_dir, teachers, settings.scale.queries)
    task = _task(teachers, threshold, sigma_for(epsilon, delta), settings.scale.queries, "index")
    terms = _terms(task, real.own)
    if settings.students is not None:
        file = read_label_file(settings.labels / f"{name}.npz")
        if any(file.terms.get(key) != value for key, value in terms.items()):
            raise FileFormatError(
                f"The labels of {name} in the results folder were made under other terms.",
                "Use the same settings, --quick included, or make the labels again without --students.",
            )
    else:
        made = label_votes(task, real.votes)
        lines = {"secure": made.secure, "plain": made.plain, "again": made.again}
        file = LabelFile(name, lines, terms | {"agrees": made.agrees})
        write_label_file(settings.labels, file)
    return _point(file, task, epsilon, threshold, delta, real.truth, real.own)


def svhn_point(histograms: Histograms, name: str, *, teachers: int, threshold: float, epsilon: float) -> Point:
    """Label SVHN by the vote histograms, thinned to so many teachers."""
    delta = published.DELTAS["svhn"]
    counts = thin(histograms, teachers)
    task = _task(teachers, threshold, sigma_for(epsilon, delta), counts.shape[1], "counts")
    made = label_counts(task, counts)
    lines = {"secure": made.secure, "plain": made.plain, "again": made.again}
    file = LabelFile(name, lines, _terms(task, False) | {"agrees": made.agrees})
    return _point(file, task, epsilon, threshold, delta, histograms.truth, False)


def teach(settings: Settings, points: Sequence[Point]) -> tuple[list[StudentRow], str]:
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
        return "with one seed each, how much of it is chance is not known"
    return f"two equal points differ by up to {noise:.2f} by the choice of seeds alone (two standard errors)"


def largest_gap(pairs: Sequence[tuple[float | None, float | None]]) -> float:
    """The largest difference of two accuracies, in percentage points."""
    return max((100 * abs(one - other) for one, other in pairs if one is not None and other is not None), default=0.0)


def student_table(name: str, rows: Sequence[StudentRow]) -> Table:
    """Every student, for the CSV file."""
    return Table(
        name=name,
        title="Every student",
        columns=(
            Column("file", "labels"),
            Column("line", "line"),
            Column("digest", "digest"),
            Column("labels", "labels", ","),
            Column("setting", "setting"),
            Column("seed", "seed"),
            Column("accuracy", "accuracy", ".4f"),
        ),
        rows=tuple((row.file, row.line, row.digest, row.labels, row.setting, row.seed, row.accuracy) for row in rows),
        page=False,
    )


def _task(teachers: int, threshold: float, sigma: float, samples: int, votes: Any) -> Task:  # noqa: ANN401
    return Task(CLASSES, samples, teachers, threshold_count(threshold, teachers), sigma, sigma, votes=votes)


def _terms(task: Task, own: bool) -> dict[str, Any]:
    """What makes labels comparable; the nonce is not part of it."""
    return {
        "samples": task.samples,
        "teachers": task.teachers,
        "threshold": task.threshold,
        "sigma": task.sigma1,
        "own_crew": own,
    }


def _point(
    file: LabelFile,
    task: Task,
    epsilon: float,
    threshold: float,
    delta: float,
    truth: npt.NDArray[np.int64],
    own: bool,
) -> Point:
    return Point(
        file, epsilon, task.teachers, threshold, task.sigma1, delta, truth, own, epsilons(task, delta)
    )  # fmt: skip
