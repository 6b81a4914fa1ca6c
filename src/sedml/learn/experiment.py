"""An experiment from private data to a student, described by a few lines of TOML and run by one call.

1. The training part of a data set is split over the teachers; its test part into public samples and the student's
   test. 2. The teachers are trained, each on its own data. 3. Some public samples are chosen without looking at votes,
and the teachers vote on them. 4. The two servers aggregate the votes. 5. The student learns from the labels.

Everything but the protocol follows from the config and its seed. The noise, the shares and the masks are
cryptographic; the plain labels for the very same noise are computed next to the secure ones and must agree. Only a
demonstration, on data that is nobody's, may have noise that follows from its seed, so that it can be shown again.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.aggregation.both_servers import Stats, run_votes
from sedml.aggregation.budget import check_budget
from sedml.errors import FileFormatError, InputError
from sedml.learn import models
from sedml.learn.datasets import NAMES, Dataset, load_dataset
from sedml.learn.queries import Questions
from sedml.learn.splits import SplitKind, split_public
from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.privacy.accounting import PrivacyReport, job_report
from sedml.privacy.unit import Unit
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.task import Task
from sedml.protocol.thresholds import threshold_count
from sedml.protocol.votes import NO_CONSENSUS, Votes, histogram

_TRIED = 300  # held-out samples that every teacher is tried on, next to the student


@dataclass(frozen=True)
class Experiment:
    """The config. The data set by default is scikit-learn's digits: nothing to download."""

    name: str = "digits"
    dataset: str = "digits"
    data_dir: str | None = None
    teachers: int = 100
    split: SplitKind = "even"
    alpha: float = 1.0
    teacher: str = "sklearn.svm.SVC"
    """An import path, "cnn:NAME" for networks trained all at once, or a file of predictions on the whole test set."""
    teacher_params: Mapping[str, Any] = field(default_factory=dict)
    public: float = 0.5
    """The share of the test set that is public; a whole number above 1 is a count."""
    queries: int | None = 120
    """How many public samples the teachers are asked about; None for all of them."""
    threshold: float = 0.5
    sigma: float = 12.0
    delta: float = 1e-5
    budget: float | None = None
    student: str = "sklearn.svm.SVC"
    """An import path, or "cnn"."""
    student_params: Mapping[str, Any] = field(default_factory=dict)
    semi_supervised: bool = True
    """Whether the student also learns from public samples without a label."""
    seed: int = 0
    checkpoint: str | None = None
    """A file that keeps the networks in training, to go on after an interruption; removed when they are done."""


DEMONSTRATIONS = {
    "printed": Experiment(
        name="printed digits",
        dataset="printed",
        teachers=600,
        teacher_params={"C": 10.0},
        public=4000,
        queries=100,
        threshold=0.3,
        sigma=66.0,
        budget=1.0,
        student_params={"C": 10.0},
    ),
    "digits": Experiment(
        name="handwritten digits",
        teacher="sklearn.neighbors.KNeighborsClassifier",
        teacher_params={"n_neighbors": 1},
        student_params={"C": 10.0},
    ),
}
"""What `sedml demo` runs, by data set; none of them holds anybody's data."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of an experiment. Plain votes are here because this is an experiment; a deployment has none."""

    experiment: Experiment
    task: Task
    class_names: tuple[str, ...]
    images: npt.NDArray[np.float32] = field(repr=False)
    """The samples that were asked about."""
    truth: npt.NDArray[np.int64] = field(repr=False)
    counts: npt.NDArray[np.int64] = field(repr=False)
    labels: npt.NDArray[np.int64] = field(repr=False)
    same_as_plain: bool
    teacher_accuracies: dict[str, float]
    """How often teachers alone and their plurality are right: no noise protects these figures."""
    accuracies: dict[str, float]
    """How often the labels and the students are right."""
    stats: Stats
    privacy: PrivacyReport
    seconds: dict[str, float]
    fixed_noise: bool = False
    """Whether the noise follows from the experiment's seed, and so protects nothing."""

    @property
    def own_data(self) -> bool:
        """Whether the data or the votes are somebody's own, rather than a well-known data set split up."""
        return self.experiment.dataset not in NAMES or models.votes_from_file(self.experiment)

    @property
    def answered(self) -> int:
        """How many of the samples asked about got a label."""
        return int((self.labels != NO_CONSENSUS).sum())


def read_experiment(path: str | Path) -> Experiment:
    """An experiment from a TOML file whose keys are the fields of `Experiment`."""
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror}).", "Check the path.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} is not valid TOML: {error}", "Correct that line.") from error
    known = {item.name for item in fields(Experiment)}
    if unknown := sorted(set(document) - known):
        raise InputError(
            f"{path} has unknown settings: {', '.join(unknown)}.", f"Use only these: {', '.join(sorted(known))}."
        )
    return Experiment(**document)


def run_experiment(experiment: Experiment, progress: Progress = silent, *, fixed_noise: bool = False) -> Outcome:
    """Run an experiment from the data to the student; `fixed_noise` is for demonstrations only."""
    if fixed_noise and (experiment.dataset not in DEMONSTRATIONS or models.votes_from_file(experiment)):
        raise InputError(
            "Noise that follows from a seed was asked for where it would protect nothing.",
            f"Leave fixed_noise out: it is for teachers trained on {' or '.join(DEMONSTRATIONS)}, nobody's data.",
        )
    seconds: dict[str, float] = {}

    @contextmanager
    def stage(name: str) -> Iterator[Progress]:
        start = perf_counter()
        progress(name, 0, 1)
        yield lambda _, done, total: progress(name, done, total)
        seconds[name] = perf_counter() - start

    with stage("data"):
        data = load_dataset(experiment.dataset, experiment.data_dir, seed=experiment.seed)
        public, held_out = split_public(len(data.test_labels), experiment.public, seed=experiment.seed)
        asked = _queries(experiment, data, public)
    tried = held_out[:_TRIED]
    with stage("teachers") as told:
        every = models.teacher_votes(experiment, data, np.concatenate([public[asked], tried]), told)
        votes, alone = every[:, : len(asked)], every[:, len(asked) :]
    task = _task(experiment, data, votes)
    noises = None
    if fixed_noise:
        task = replace(task, nonce="")
        noises = (
            draw_noise(task, task.samples, _demo_seed(experiment, 0)),
            draw_noise(task, task.samples, _demo_seed(experiment, 1)),
        )
    if experiment.budget is not None:
        check_budget(task, experiment.budget, experiment.delta, Unit())
    with stage("aggregation") as told:
        counts = histogram(votes, data.classes)
        run = run_votes(task, votes, told, noises=noises)
    labels = run.labels
    with stage("student") as told:
        everything = np.full(len(public), NO_CONSENSUS)
        everything[asked] = labels
        student = models.student_accuracy(experiment, data, public, everything, held_out, told)
    truth = data.test_labels[public[asked]]
    return Outcome(
        experiment=experiment,
        task=task,
        class_names=data.class_names,
        images=data.test_images[public[asked]],
        truth=truth,
        counts=counts,
        labels=labels,
        same_as_plain=run.is_ideal(counts),
        teacher_accuracies=_teacher_accuracies(alone, data, tried),
        accuracies={"labels given": _share_right(labels, truth)} | student,
        stats=run.stats,
        privacy=job_report(task.samples, task.sigma, experiment.delta, classes=task.classes),
        seconds=seconds,
        fixed_noise=fixed_noise,
    )


def _demo_seed(experiment: Experiment, role: int) -> Seed:
    return Seed(hashlib.blake2b(f"demonstration/{experiment.seed}/S{role}".encode(), digest_size=SEED_BYTES).digest())


def _queries(experiment: Experiment, data: Dataset, public: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions among the public samples; near the middles of their clusters, and without looking at votes."""
    if experiment.queries is None or experiment.queries >= len(public):
        return np.arange(len(public))
    return Questions(data.test_images[public], data.classes, seed=experiment.seed).choose(experiment.queries)


def _task(experiment: Experiment, data: Dataset, votes: Votes) -> Task:
    return Task(
        classes=data.classes,
        samples=votes.shape[1],
        teachers=votes.shape[0],
        threshold=threshold_count(experiment.threshold, votes.shape[0]),
        sigma=experiment.sigma,
    )


def _teacher_accuracies(alone: Votes, data: Dataset, tried: npt.NDArray[np.int64]) -> dict[str, float]:
    """How often the teachers are right on held-out samples, as the student is measured."""
    truth = data.test_labels[tried]
    single = (alone == truth).mean(axis=1)
    return {
        "a teacher alone, mean": float(single.mean()),
        "a teacher alone, best": float(single.max()),
        "plurality of all votes, no privacy": float((histogram(alone, data.classes).argmax(axis=0) == truth).mean()),
    }


def _share_right(labels: npt.NDArray[np.int64], truth: npt.NDArray[np.int64]) -> float:
    """How many of the labels given are right."""
    answered = labels != NO_CONSENSUS
    return float((labels == truth)[answered].mean()) if answered.any() else 0.0
