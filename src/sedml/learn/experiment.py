"""An experiment from private data to a student, described by a few lines of TOML and run by one call.

1. The training part of a data set is split over the teachers; its test part into public samples and the student's
   test. 2. The teachers are trained, each on its own data. 3. Some public samples are chosen without looking at votes,
and the teachers vote on them. 4. The two servers aggregate the votes. 5. The student learns from the labels.

Everything but the protocol follows from the config and its seed. The noise, the shares and the masks are
cryptographic; the plain labels for the very same noise are computed next to the secure ones and must agree.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.aggregation.both_servers import Stats, run_votes
from sedml.aggregation.budget import account_task, check_budget
from sedml.errors import FileFormatError, InputError
from sedml.learn import models
from sedml.learn.datasets import Dataset, load_dataset
from sedml.learn.queries import choose_queries
from sedml.learn.splits import SplitKind, split_public
from sedml.privacy.accounting import PrivacyReport
from sedml.privacy.noise import NoiseSource
from sedml.protocol.ideal import NO_CONSENSUS
from sedml.protocol.task import Protocol, Task, VoteForm
from sedml.protocol.votes import Votes, histogram, threshold_count

__all__ = ["Experiment", "Outcome", "read_experiment", "run_experiment"]


@dataclass(frozen=True)
class Experiment:
    """The config. Defaults are the demo's: scikit-learn's digits, nothing to download."""

    name: str = "digits"
    dataset: str = "digits"
    data_dir: str | None = None
    teachers: int = 100
    split: SplitKind = "even"
    alpha: float = 1.0
    teacher: str = "sklearn.neighbors.KNeighborsClassifier"
    """An import path, "cnn:NAME" for networks trained all at once, or a file of predictions on the whole test set."""
    teacher_params: Mapping[str, Any] = field(default_factory=lambda: {"n_neighbors": 1})
    public: float = 0.5
    """The share of the test set that is public; a whole number above 1 is a count."""
    queries: int | None = 120
    """How many public samples the teachers are asked about; None for all of them."""
    threshold: float = 0.5
    sigma1: float = 16.0
    sigma2: float = 12.0
    delta: float = 1e-5
    budget: float | None = None
    protocol: Protocol = "fused"
    votes: VoteForm = "index"
    noise: NoiseSource = "both"
    student: str = "sklearn.svm.SVC"
    """An import path, or "cnn"."""
    student_params: Mapping[str, Any] = field(default_factory=lambda: {"C": 10.0})
    semi_supervised: bool = True
    """Whether the student also learns from public samples without a label."""
    seed: int = 0
    checkpoint: str | None = None
    """A file that keeps the networks in training, to go on after an interruption; removed when they are done."""


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
    accuracies: dict[str, float]
    stats: Stats
    privacy: PrivacyReport
    privacy_bound: PrivacyReport
    seconds: dict[str, float]

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


def run_experiment(experiment: Experiment, progress: Progress = silent) -> Outcome:
    """Run an experiment from the data to the student."""
    seconds: dict[str, float] = {}

    @contextmanager
    def stage(name: str) -> Iterator[Progress]:
        start = perf_counter()
        progress(name, 0, 1)
        yield lambda _, done, total: progress(name, done, total)
        seconds[name] = perf_counter() - start

    with stage("data"):
        data = load_dataset(experiment.dataset, experiment.data_dir, seed=experiment.seed)
        public, held_out = split_public(len(data.test_labels), _count(experiment.public), seed=experiment.seed)
        asked = _queries(experiment, data, public)
    with stage("teachers") as told:
        votes = models.teacher_votes(experiment, data, public, asked, told)
    task = _task(experiment, data, votes)
    if experiment.budget is not None:
        check_budget(task, experiment.budget, experiment.delta)
    bound = account_task(task, task.samples, experiment.delta)
    with stage("aggregation") as told:
        counts = histogram(votes, data.classes)
        run = run_votes(task, votes, told)
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
        accuracies=_accuracies(votes, counts, labels, truth) | student,
        stats=run.stats,
        privacy=account_task(task, int((labels != NO_CONSENSUS).sum()), experiment.delta),
        privacy_bound=bound,
        seconds=seconds,
    )


def _count(public: float) -> float:
    """A whole number above 1 is a count."""
    return int(public) if public > 1 and float(public).is_integer() else public


def _queries(experiment: Experiment, data: Dataset, public: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions among the public samples; near the middles of their clusters, and without looking at votes."""
    if experiment.queries is None or experiment.queries >= len(public):
        return np.arange(len(public))
    return choose_queries(data.test_images[public], experiment.queries, seed=experiment.seed)


def _task(experiment: Experiment, data: Dataset, votes: Votes) -> Task:
    return Task(
        classes=data.classes,
        samples=votes.shape[1],
        teachers=votes.shape[0],
        threshold=threshold_count(experiment.threshold, votes.shape[0]),
        sigma1=experiment.sigma1,
        sigma2=experiment.sigma2,
        protocol=experiment.protocol,
        votes=experiment.votes,
        noise=experiment.noise,
    )


def _accuracies(
    votes: Votes,
    counts: npt.NDArray[np.int64],
    labels: npt.NDArray[np.int64],
    truth: npt.NDArray[np.int64],
) -> dict[str, float]:
    single = (votes == truth).mean(axis=1)
    answered = labels != NO_CONSENSUS
    return {
        "a teacher alone, mean": float(single.mean()),
        "a teacher alone, best": float(single.max()),
        "plurality of all votes, no privacy": float((counts.argmax(axis=0) == truth).mean()),
        "labels given": float((labels == truth)[answered].mean()) if answered.any() else 0.0,
    }
