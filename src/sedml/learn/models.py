"""Who takes part in an experiment: teachers and students by the names that a config gives them.

They are scikit-learn estimators by import path, networks as "cnn:NAME", or predictions from a file. PyTorch is imported
only when a network is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from sedml import Progress
from sedml.errors import InputError
from sedml.extras import explain_missing
from sedml.learn.datasets import Dataset, flat
from sedml.learn.splits import split_teachers
from sedml.protocol.votes import NO_CONSENSUS, Votes, as_votes

if TYPE_CHECKING:
    from sedml.learn.experiment import Experiment

T = TypeVar("T")
Indices = npt.NDArray[np.int64]

_FILES = (".npy", ".npz", ".csv", ".tsv", ".parquet")


def votes_from_file(experiment: Experiment) -> bool:
    """Whether the teachers' predictions are read from a file, rather than made by teachers trained here."""
    return Path(experiment.teacher).suffix.lower() in _FILES


def teacher_votes(experiment: Experiment, data: Dataset, asked: Indices, progress: Progress) -> Votes:
    """The teachers' votes on these samples of the test part; trains the teachers, or reads what they predicted."""
    if votes_from_file(experiment):
        from sedml.learn.teachers import load_votes

        path = Path(experiment.data_dir or ".") / experiment.teacher
        return load_votes(path, data.classes, len(data.test_labels))[:, asked]
    parts = split_teachers(
        data.train_labels, experiment.teachers, experiment.split, alpha=experiment.alpha, seed=experiment.seed
    )
    samples = data.test_images[asked]
    if experiment.teacher.startswith("cnn"):
        return _network_votes(experiment, data, parts, samples, progress)
    from sedml.learn.teachers import train_teachers, votes

    teachers = train_teachers(
        experiment.teacher,
        data.train_images,
        data.train_labels,
        parts,
        params=experiment.teacher_params,
        seed=experiment.seed,
        progress=progress,
    )
    return votes(teachers, samples, data.classes)


def student_accuracy(
    experiment: Experiment,
    data: Dataset,
    public: Indices,
    labels: npt.NDArray[np.int64],
    held_out: Indices,
    progress: Progress,
) -> dict[str, float]:
    """How often the student is right on the held-out samples, and one that is told the truth about all public ones."""
    if (labels != NO_CONSENSUS).sum() == 0 or len(np.unique(labels[labels != NO_CONSENSUS])) < 2:
        raise InputError(
            "There are no labels, or labels of one class only.",
            "Ask about more samples, or lower the threshold or the noise; `sedml privacy plan` finds terms.",
        )
    train = _network_student if experiment.student == "cnn" else _sklearn_student
    samples, tests = data.test_images[public], data.test_images[held_out]
    truth = data.test_labels[held_out]
    accuracies = {}
    told = data.test_labels[public]
    for done, (name, given) in enumerate((("student", labels), ("student told every public label", told))):
        guesses = train(experiment, data, samples, given, tests)
        accuracies[name] = float((guesses == truth).mean())
        progress("training", done + 1, 2)
    return accuracies


def _sklearn_student(
    experiment: Experiment,
    _: Dataset,
    samples: npt.NDArray[Any],
    labels: npt.NDArray[np.int64],
    tests: npt.NDArray[Any],
) -> npt.NDArray[np.int64]:
    from sedml.learn.student import spread_labels
    from sedml.parts.classifiers import make_estimator

    student = make_estimator(experiment.student, experiment.student_params)
    if experiment.semi_supervised:
        labels = spread_labels(samples, labels)
    known = labels != NO_CONSENSUS
    guesses: npt.NDArray[np.int64] = student.fit(flat(samples[known]), labels[known]).predict(flat(tests))
    return guesses


def _network_votes(
    experiment: Experiment,
    data: Dataset,
    parts: tuple[Indices, ...],
    samples: npt.NDArray[Any],
    progress: Progress,
) -> Votes:
    with explain_missing():
        from sedml.learn.ensemble import EnsembleConfig, predict, train_ensemble

    name = experiment.teacher.partition(":")[2] or "small"
    config = _configured(EnsembleConfig, {"network": name, **experiment.teacher_params})
    ensemble = train_ensemble(
        data.train_images,
        data.train_labels,
        classes=data.classes,
        shards=parts,
        config=config,
        seed=experiment.seed,
        progress=progress,
        checkpoint_path=experiment.checkpoint,
    )
    return as_votes(predict(ensemble, samples), data.classes)


def _network_student(
    experiment: Experiment,
    data: Dataset,
    samples: npt.NDArray[Any],
    labels: npt.NDArray[np.int64],
    tests: npt.NDArray[Any],
) -> npt.NDArray[np.int64]:
    with explain_missing():
        from sedml.learn.student_cnn import StudentConfig, predict, train_students

    labelled = labels != NO_CONSENSUS
    semi = experiment.semi_supervised and not labelled.all()
    [student] = train_students(
        [(samples[labelled], labels[labelled])],
        samples if semi else None,
        classes=data.classes,
        seeds=[experiment.seed],
        config=_configured(StudentConfig, experiment.student_params),
    )
    return predict(student, tests)


def _configured(kind: Callable[..., T], params: Mapping[str, Any]) -> T:
    """The config of a training; a table in its settings describes an augmentation."""
    from sedml.learn.augment import Augmentation

    try:
        return kind(**{key: Augmentation(**one) if isinstance(one, Mapping) else one for key, one in params.items()})
    except TypeError as error:
        raise InputError(f"A network does not take these parameters: {error}.", "Check their names.") from error
