"""A point of an accuracy figure: labels under some terms, and how good they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError
from sedml.lab.paper.lab_task import LabTask, VoteForm
from sedml.lab.reproduce import published
from sedml.lab.reproduce.labelling import (
    Epsilons,
    Labelled,
    Quality,
    epsilons,
    label_counts,
    label_votes,
    quality,
    sigma_by_theorem,
)
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.students import LabelFile, read_label_file, write_label_file
from sedml.lab.reproduce.vote_data import CLASSES, Histograms, mnist_votes, thin
from sedml.protocol.thresholds import threshold_count

__all__ = ["Point", "Terms", "mnist_point", "svhn_point"]


@dataclass(frozen=True)
class Terms:
    """What the labels of a point are made under."""

    teachers: int
    threshold: float
    """The share of the teachers that makes a consensus."""
    epsilon: float
    """What one query costs by the paper's theorem: sigma is chosen for it."""


@dataclass(frozen=True, eq=False)
class Point:
    """Labels by line ("secure", "plain", "again"), their quality, and what the noise means."""

    dataset: str
    terms: Terms
    file: LabelFile
    sigma: float
    delta: float
    truth: npt.NDArray[np.int64] = field(repr=False)
    own_crew: bool
    """Whether exactly these teachers shared the whole training set."""
    privacy: Epsilons

    @property
    def agrees(self) -> bool:
        """Whether the protocol's labels are those of plain aggregation for the same noise."""
        return bool(self.file.terms["agrees"])

    def quality(self, line: str) -> Quality:
        """How good the labels of a line are."""
        return quality(self.file.lines[line], self.truth)


def mnist_point(settings: Settings, name: str, terms: Terms) -> Point:
    """Label MNIST by the single votes of real teachers, or take the labels that students elsewhere were trained on."""
    real = mnist_votes(settings.data_dir, terms.teachers, settings.scale.queries)
    task = _task("mnist", terms, settings.scale.queries, "index")
    made_under = _kept_terms(task, real.own)
    if settings.students is None:
        file = _label_file(name, label_votes(task, real.votes), made_under)
        write_label_file(settings.labels, file)
    else:
        file = read_label_file(settings.labels / f"{name}.npz")
        if any(file.terms.get(key) != value for key, value in made_under.items()):
            raise FileFormatError(
                f"The labels of {name} in the results folder were made under other terms.",
                "Use the same settings, --quick included, or make the labels again without --students.",
            )
    return _point("mnist", terms, task, file, (real.truth, real.own))


def svhn_point(histograms: Histograms, name: str, terms: Terms) -> Point:
    """Label SVHN by the vote histograms, thinned to so many teachers."""
    counts = thin(histograms, terms.teachers)
    task = _task("svhn", terms, counts.shape[1], "counts")
    file = _label_file(name, label_counts(task, counts), _kept_terms(task, False))
    return _point("svhn", terms, task, file, (histograms.truth, False))


def _task(dataset: str, terms: Terms, samples: int, votes: VoteForm) -> LabTask:
    sigma = sigma_by_theorem(terms.epsilon, published.DELTAS[dataset])
    threshold = threshold_count(terms.threshold, terms.teachers)
    return LabTask(CLASSES, samples, terms.teachers, threshold, sigma, sigma, dealt="fused", votes=votes)


def _kept_terms(task: LabTask, own: bool) -> dict[str, Any]:
    """What makes labels comparable; the nonce is not part of it."""
    return {
        "samples": task.samples,
        "teachers": task.teachers,
        "threshold": task.threshold,
        "sigma": task.sigma1,
        "own_crew": own,
    }


def _label_file(name: str, made: Labelled, terms: dict[str, Any]) -> LabelFile:
    lines = {"secure": made.secure, "plain": made.plain, "again": made.again}
    return LabelFile(name, lines, terms | {"agrees": made.agrees})


def _point(
    dataset: str, terms: Terms, task: LabTask, file: LabelFile, known: tuple[npt.NDArray[np.int64], bool]
) -> Point:
    """`known`: the true classes, and whether the teachers shared the whole training set."""
    delta = published.DELTAS[dataset]
    return Point(dataset, terms, file, task.sigma1, delta, *known, epsilons(task, delta))
