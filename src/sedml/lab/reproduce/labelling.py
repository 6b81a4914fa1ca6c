"""Points of an accuracy figure: labels by the protocol and by plain aggregation on the same votes, and how good they
are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError
from sedml.lab.paper.lab_run import LabStats, run_counts, run_votes
from sedml.lab.paper.lab_task import LabTask, VoteForm
from sedml.lab.paper.lone_noise import lab_noise
from sedml.lab.paper.two_noises import TwoNoises, two_noises_epsilon, two_noises_report
from sedml.lab.reproduce import published
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.students import LabelFile, read_label_file, write_label_file
from sedml.lab.reproduce.vote_data import CLASSES, Histograms, mnist_votes, thin
from sedml.lab.semi_honest.semi_honest_servers import Run
from sedml.lab.semi_honest.two_noise_ideal import ideal_labels
from sedml.mpc.ring import Array
from sedml.protocol.thresholds import threshold_count
from sedml.protocol.votes import NO_CONSENSUS, histogram

__all__ = ["Point", "Quality", "Terms", "mnist_point", "sigma_by_theorem", "svhn_point"]

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
    """The labels of a file, made under these terms by this task, and the true classes."""

    dataset: str
    terms: Terms
    task: LabTask
    file: LabelFile
    truth: Labels = field(repr=False)

    @property
    def agrees(self) -> bool:
        """Whether the protocol's labels are those of plain aggregation for the same noise."""
        return bool(self.file.terms["agrees"])

    @property
    def own_crew(self) -> bool:
        """Whether exactly these teachers shared the whole training set."""
        return bool(self.file.terms["own_crew"])

    @property
    def delta(self) -> float:
        """The delta of the paper."""
        return published.DELTAS[self.dataset]

    @cached_property
    def privacy(self) -> TwoNoises:
        """What the noise means for the whole job, every sample answered, as it is drawn."""
        task = self.task
        return two_noises_report(task.samples, task.sigma1, task.sigma2, self.delta, classes=task.classes)

    @cached_property
    def exact_epsilon(self) -> float:
        """What the requester's view of the job would cost, had the noise been drawn exactly."""
        task = self.task
        return two_noises_epsilon(task.samples, task.sigma1, task.sigma2, self.delta)

    def quality(self, line: str) -> Quality:
        """How good the labels of a line are."""
        labels = self.file.lines[line]
        right, known = int((labels == self.truth).sum()), int((labels != NO_CONSENSUS).sum())
        return Quality(known, right / known if known else None, right / len(labels))


def mnist_point(settings: Settings, name: str, terms: Terms) -> Point:
    """Label MNIST by the single votes of real teachers, or take the labels that students elsewhere were trained on."""
    votes, truth, own = mnist_votes(settings.data_dir, terms.teachers, settings.scale.queries)
    task = _task("mnist", terms, settings.scale.queries, "onehot")
    if settings.students is None:
        file = _label_file(name, task, run_votes(task, votes), histogram(votes, CLASSES), own)
        write_label_file(settings.labels, file)
        return Point("mnist", terms, task, file, truth)
    file = read_label_file(settings.labels / f"{name}.npz")
    if any(file.terms.get(key) != value for key, value in _kept_terms(task, own).items()):
        raise FileFormatError(
            f"The labels of {name} in the results folder were made under other terms.",
            "Use the same settings, --quick included, or make the labels again without --students.",
        )
    return Point("mnist", terms, task, file, truth)


def svhn_point(histograms: Histograms, name: str, terms: Terms) -> Point:
    """Label SVHN by the vote histograms, thinned to so many teachers."""
    counts = thin(histograms, terms.teachers)
    task = _task("svhn", terms, counts.shape[1], "counts")
    file = _label_file(name, task, run_counts(task, counts), counts, own=False)
    return Point("svhn", terms, task, file, histograms.truth)


def sigma_by_theorem(epsilon: float, delta: float) -> float:
    """The sigma1 = sigma2 at which the paper's theorem says `epsilon` for one query.

    With both equal its RDP is rho = 5.5 / sigma² and epsilon = rho + 2√(rho log 1/delta), so √rho solves a quadratic.
    """
    log = math.log(1.0 / delta)
    return math.sqrt(5.5) / (math.sqrt(log + epsilon) - math.sqrt(log))


def _task(dataset: str, terms: Terms, samples: int, votes: VoteForm) -> LabTask:
    sigma = sigma_by_theorem(terms.epsilon, published.DELTAS[dataset])
    threshold = threshold_count(terms.threshold, terms.teachers)
    return LabTask(CLASSES, samples, terms.teachers, threshold, sigma, sigma, dealt="fused", votes=votes)


def _kept_terms(task: LabTask, own: bool) -> dict[str, int | float | bool]:
    """What makes labels comparable; the nonce is not part of it."""
    kept = {"samples": task.samples, "teachers": task.teachers, "threshold": task.threshold, "sigma": task.sigma1}
    return kept | {"own_crew": own}


def _label_file(name: str, task: LabTask, run: Run[LabStats], counts: Array, own: bool) -> LabelFile:
    """Labels by the protocol ("secure"), and by plain aggregation with fresh noise, twice.

    The second time ("again") shows how far fresh noise alone moves the labels. They "agree" where every label of the
    protocol is the one that plain aggregation gives for the very same noise.
    """
    plain, again = (ideal_labels(task, counts, (lab_noise(task, 0), lab_noise(task, 1))) for _ in range(2))
    lines = {"secure": run.labels, "plain": plain, "again": again}
    return LabelFile(name, lines, _kept_terms(task, own) | {"agrees": run.is_ideal(counts)})
