"""Students of MNIST, taught by the labels of a figure's points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sedml.extras import explain_missing
from sedml.lab.reproduce.labelling import Point
from sedml.lab.reproduce.scale import Settings
from sedml.learn.datasets import data_folder, mnist_test

_LINES = ("plain", "secure")
_HELD_OUT = 9000  # the student is tested on the test images from here on; those before may be public
_NETWORK, _BATCH = "medium", 64
_AT_ONCE = {"cuda": 16, "cpu": 1}


@dataclass(frozen=True)
class StudentRow:
    """One trained student: of which point, and of which of its lines."""

    point: str
    line: str
    labels: int
    setting: str
    seed: int
    accuracy: float


def train_students_of(points: Sequence[Point], settings: Settings) -> list[StudentRow]:
    """Train some students on each line of each point and test them; a line without any label has none."""
    with explain_missing():
        from sedml.learn.networks import choose_device
        from sedml.learn.student_cnn import StudentConfig, predict, train_students

    scale, place = settings.scale, choose_device(settings.device)
    images, truth = mnist_test(data_folder(settings.data_dir))
    jobs = [
        (point.name, line, point.lines[line], seed)
        for seed in range(scale.student_seeds)
        for point in points
        for line in _LINES
        if (point.lines[line] >= 0).any()
    ]
    config = StudentConfig(
        network=_NETWORK, members=1, steps=scale.student_steps, batch=_BATCH, robust=0.0, learning_rate=2e-3
    )
    setting = (
        f"network '{_NETWORK}', {scale.student_steps:,} steps of {_BATCH} labelled images, cross-entropy, "
        "small random distortions, no unlabelled images"
    )
    rows: list[StudentRow] = []
    for start in range(0, len(jobs), size := _AT_ONCE.get(place.type, 1)):
        some = jobs[start : start + size]
        known = [labels >= 0 for _, _, labels, _ in some]
        runs = [(images[: len(own)][own], job[2][own]) for job, own in zip(some, known, strict=True)]
        students = train_students(
            runs, None, classes=10, seeds=[seed for *_, seed in some], config=config, device=place
        )  # fmt: skip
        for (name, line, _, seed), own, student in zip(some, known, students, strict=True):
            accuracy = float((predict(student, images[_HELD_OUT:]) == truth[_HELD_OUT:]).mean())
            rows.append(StudentRow(name, line, int(own.sum()), setting, seed, accuracy))
        settings.progress("training students", len(rows), len(jobs))
    return rows
