"""Students for label files, trained here or on another machine that has only torch and numpy.

A label file, `labels/NAME.npz`, holds the labels of one point of a figure: int64[Q] arrays `secure` and `plain` for the
first Q test images of MNIST, -1 for none, and their terms as JSON. Elsewhere,

    PYTHONPATH=src python3 benchmarks/gpu_learning.py batch --label-files results/labels --data-dir DATA --out OUT

makes OUT/students.csv, which `sedml reproduce accuracy --students OUT/students.csv` uses instead of training. A digest
ties each accuracy to the labels it came from.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import FileFormatError, explain_missing
from sedml.lab.saving import save_text, saving
from sedml.learn.idx import read_idx

__all__ = [
    "STUDENT_SEEDS",
    "STUDENT_STEPS",
    "LabelFile",
    "StudentRow",
    "digest",
    "read_label_file",
    "read_students",
    "train_label_files",
    "write_label_file",
    "write_students",
]

_LINES = ("plain", "secure")
STUDENT_STEPS, STUDENT_SEEDS = 1000, 3
_HELD_OUT = 9000  # the student is tested on the test images from here on; those before may be public
_NETWORK, _BATCH = "medium", 64
_AT_ONCE = {"cuda": 16, "cpu": 1}

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LabelFile:
    """The labels of one point, by how they were made, and the terms they were made under."""

    name: str
    lines: Mapping[str, Labels] = field(repr=False)
    terms: Mapping[str, Any]


@dataclass(frozen=True)
class StudentRow:
    """One trained student."""

    file: str
    line: str
    digest: str
    labels: int
    setting: str
    seed: int
    accuracy: float


def digest(labels: Labels) -> str:
    """A short hash of labels."""
    return hashlib.sha256(np.ascontiguousarray(labels, "<i8").tobytes()).hexdigest()[:16]


def write_label_file(folder: Path, content: LabelFile) -> None:
    """Keep the labels of a point."""
    arrays: dict[str, Any] = {"terms": json.dumps(dict(content.terms)), **content.lines}
    with saving(folder / f"{content.name}.npz") as stream:
        np.savez_compressed(stream, **arrays)


def read_label_file(path: Path) -> LabelFile:
    """The labels of a point, checked."""
    try:
        with np.load(path) as archive:
            lines = {key: archive[key] for key in archive.files if key != "terms"}
            terms = json.loads(str(archive["terms"]))
    except (OSError, ValueError, KeyError) as error:
        raise FileFormatError(
            f"{path.name} does not exist or is not a label file ({type(error).__name__}).",
            "Make the labels first: sedml reproduce accuracy, or threshold, without --students.",
        ) from error
    for key in _LINES:
        labels = lines.get(key, np.empty(0))
        if labels.dtype != np.int64 or labels.ndim != 1 or not ((labels >= -1) & (labels < 10)).all():
            raise FileFormatError(f"{path.name} lacks labels '{key}' from -1 to 9.", "Make the label files again.")
    return LabelFile(path.stem, lines, terms)


def train_label_files(
    files: Sequence[LabelFile],
    data_dir: Path,
    *,
    steps: int,
    seeds: int,
    device: str = "auto",
    progress: Progress = silent,
) -> list[StudentRow]:
    """Train `seeds` students on each line of each file and test them; a line without any label has none."""
    with explain_missing():
        from sedml.learn.networks import choose_device
        from sedml.learn.student_cnn import StudentConfig, predict, train_students

    images, truth = _mnist_test(data_dir, "images-idx3"), _mnist_test(data_dir, "labels-idx1")
    jobs = [
        (file.name, line, file.lines[line], seed)
        for seed in range(seeds)
        for file in files
        for line in _LINES
        if (file.lines[line] >= 0).any()
    ]
    config = StudentConfig(network=_NETWORK, members=1, steps=steps, batch=_BATCH, robust=0.0, learning_rate=2e-3)
    setting = (
        f"network '{_NETWORK}', {steps:,} steps of {_BATCH} labelled images, cross-entropy, "
        "small random distortions, no unlabelled images"
    )
    place = choose_device(device)
    rows: list[StudentRow] = []
    for start in range(0, len(jobs), size := _AT_ONCE.get(place.type, 1)):
        some = jobs[start : start + size]
        known = [labels >= 0 for _, _, labels, _ in some]
        runs = [(images[: len(own)][own], job[2][own]) for job, own in zip(some, known, strict=True)]
        students = train_students(
            runs, None, classes=10, seeds=[seed for *_, seed in some], config=config, device=place
        )  # fmt: skip
        for (name, line, labels, seed), own, student in zip(some, known, students, strict=True):
            accuracy = float((predict(student, images[_HELD_OUT:]) == truth[_HELD_OUT:]).mean())
            rows.append(StudentRow(name, line, digest(labels), int(own.sum()), setting, seed, accuracy))
        progress("training students", len(rows), len(jobs))
    return rows


def write_students(path: Path, rows: Sequence[StudentRow]) -> None:
    """The students as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [item.name for item in fields(StudentRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    save_text(path, text.getvalue())


def read_students(path: Path, files: Sequence[LabelFile]) -> list[StudentRow]:
    """The students of these label files from a CSV file; raises if one was trained on other labels."""
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = [
                StudentRow(file, line, hashed, int(labels), setting, int(seed), float(accuracy))
                for file, line, hashed, labels, setting, seed, accuracy in list(csv.reader(stream))[1:]
            ]
    except (OSError, ValueError) as error:
        raise FileFormatError(
            f"{path.name} does not exist or is not a table of students ({type(error).__name__}).",
            "Make it with benchmarks/gpu_learning.py batch.",
        ) from error
    known = {(file.name, line): digest(labels) for file in files for line, labels in file.lines.items()}
    own = [row for row in rows if (row.file, row.line) in known]
    for row in own:
        if row.digest != known[row.file, row.line]:
            raise FileFormatError(
                f"The student of {row.file}, {row.line}, was trained on other labels than those in the results folder.",
                "Train the students again, on the label files that are there now.",
            )
        if not 0 <= row.accuracy <= 1:
            raise FileFormatError(f"{path.name} has an accuracy outside 0 to 1.", "Make the file again.")
    return own


def _mnist_test(data_dir: Path, kind: str) -> npt.NDArray[np.uint8]:
    folder = data_dir / "mnist" if (data_dir / "mnist").is_dir() else data_dir
    stem = f"t10k-{kind}-ubyte"
    for path in (folder / stem, folder / f"{stem}.gz"):
        if path.is_file():
            return read_idx(path)
    raise FileFormatError(f"mnist/{stem}.gz is not in the data folder.", "Put it there, or run: sedml data fetch mnist")
