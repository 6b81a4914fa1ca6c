"""Points of an accuracy figure: labels by the protocol and by plain aggregation on the same votes, and how good they
are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sedml.lab.paper.check_and_label_noise import fresh_noise
from sedml.lab.paper.lab_run import Run, counts_loaders, run, vote_loaders
from sedml.lab.paper.two_noise_ideal import ideal_labels
from sedml.lab.paper.two_noise_task import Task, VoteForm
from sedml.lab.paper.two_noises import paper_epsilon, sigma_by_theorem
from sedml.lab.reproduce import published
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.vote_data import CLASSES, Histograms, mnist_votes, thin
from sedml.mpc.ring import Array
from sedml.protocol.thresholds import threshold_count
from sedml.protocol.votes import NO_CONSENSUS, histogram

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Terms:
    """What the labels of a point are made under."""

    teachers: int
    threshold: float
    """The share of the teachers that makes a consensus."""
    epsilon: float
    """What one query costs by the paper's theorem: sigma is chosen for it."""


@dataclass(frozen=True)
class Quality:
    """How good labels are."""

    answered: int
    accuracy: float | None
    """The share of right ones among the labels, None if there are none."""
    right_of_all: float
    """The share of all samples asked about that got the right label."""


@dataclass(frozen=True, eq=False)
class Point:
    """Labels made under these terms by this task, and the true classes."""

    name: str
    dataset: str
    terms: Terms
    task: Task
    lines: Mapping[str, Labels] = field(repr=False)
    """By the protocol ("secure"), and by plain aggregation with fresh noise, twice.

    The second time ("again") shows how far fresh noise alone moves the labels.
    """
    truth: Labels = field(repr=False)
    agrees: bool
    """Whether the protocol's labels are those of plain aggregation for the same noise."""
    own_crew: bool = False
    """Whether exactly these teachers shared the whole training set."""

    @property
    def delta(self) -> float:
        """The delta of the paper."""
        return published.DELTAS[self.dataset]

    def epsilon(self, queries: int) -> float:
        """What so many queries cost by the paper's formula."""
        return paper_epsilon(self.task.sigma1, self.task.sigma2, self.delta, queries)

    def quality(self, line: str) -> Quality:
        """How good the labels of a line are."""
        labels = self.lines[line]
        right, known = int((labels == self.truth).sum()), int((labels != NO_CONSENSUS).sum())
        return Quality(known, right / known if known else None, right / len(labels))


def mnist_point(settings: Settings, name: str, terms: Terms) -> Point:
    """Label MNIST by the single votes of real teachers."""
    votes, truth, own = mnist_votes(settings.data_dir, terms.teachers, settings.scale.queries)
    task = _task("mnist", terms, settings.scale.queries, "onehot")
    done, counts = run(task, vote_loaders(task, votes)), histogram(votes, CLASSES)
    return Point(name, "mnist", terms, task, _lines(done, counts), truth, done.is_ideal(counts), own)


def svhn_point(histograms: Histograms, name: str, terms: Terms) -> Point:
    """Label SVHN by the vote histograms, thinned to so many teachers."""
    counts = thin(histograms, terms.teachers)
    task = _task("svhn", terms, counts.shape[1], "counts")
    done = run(task, counts_loaders(task, counts))
    return Point(name, "svhn", terms, task, _lines(done, counts), histograms.truth, done.is_ideal(counts))


def _task(dataset: str, terms: Terms, samples: int, votes: VoteForm) -> Task:
    sigma = sigma_by_theorem(terms.epsilon, published.DELTAS[dataset])
    threshold = threshold_count(terms.threshold, terms.teachers)
    return Task(CLASSES, samples, terms.teachers, threshold, sigma, sigma, votes=votes)


def _lines(done: Run, counts: Array) -> dict[str, Labels]:
    plain, again = (ideal_labels(done.task, counts, fresh_noise(done.task)) for _ in range(2))
    return {"secure": done.labels, "plain": plain, "again": again}
