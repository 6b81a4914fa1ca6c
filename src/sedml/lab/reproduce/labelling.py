"""Labels by the protocol and labels by plain aggregation, on the same votes, and what they cost in privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sedml.aggregation.both_servers import Run
from sedml.lab.paper.lab_run import LabStats, run_counts, run_votes
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.lone_noise import lab_noise
from sedml.mpc.ring import Array
from sedml.privacy.accounting import account, job_report
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.votes import NO_CONSENSUS, Votes, histogram

__all__ = [
    "Epsilons",
    "Labelled",
    "Quality",
    "epsilons",
    "label_counts",
    "label_votes",
    "quality",
    "sigma_by_theorem",
]

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labels int64[Q], -1 for none: by the protocol, and by plain aggregation with fresh noise, twice."""

    secure: Labels = field(repr=False)
    plain: Labels = field(repr=False)
    again: Labels = field(repr=False)
    """Plain aggregation once more: how far fresh noise alone moves the labels."""
    agrees: bool
    """Whether every label of the protocol is the one that plain aggregation gives for the very same noise."""
    stats: LabStats


@dataclass(frozen=True)
class Quality:
    """How good labels are."""

    answered: int
    accuracy: float | None
    """The share of right ones among the labels, None if there are none."""
    right_of_all: float
    """The share of all samples asked about that got the right label."""


@dataclass(frozen=True)
class Epsilons:
    """What the same noise means: by the paper for one query, by the paper for the job, and as proven for the job."""

    query_paper: float
    job_paper: float
    job: float
    """What the requester's view costs, every sample answered; inf where the sampler's error leaves no guarantee."""
    job_exact: float
    """The same, had the noise been drawn exactly."""


def sigma_by_theorem(epsilon: float, delta: float) -> float:
    """The sigma1 = sigma2 at which the paper's theorem says `epsilon` for one query.

    With both equal its RDP is rho = 5.5 / sigma² and epsilon = rho + 2√(rho log 1/delta), so √rho solves a quadratic.
    """
    log = math.log(1.0 / delta)
    return math.sqrt(5.5) / (math.sqrt(log + epsilon) - math.sqrt(log))


def epsilons(task: LabTask, delta: float) -> Epsilons:
    """The privacy of a whole job, every sample answered."""
    samples, sigma1, sigma2 = task.samples, task.sigma1, task.sigma2
    drawn = job_report(samples, samples, sigma1, sigma2, delta, classes=task.classes)
    exact = account(samples, samples, sigma1, sigma2, delta)
    return Epsilons(drawn.paper_query, drawn.paper_job, drawn.requester.epsilon, exact.requester.epsilon)


def label_votes(task: LabTask, votes: Votes) -> Labelled:
    """Label single votes int[K, Q], cast as ballots."""
    return _compared(task, run_votes(task, votes), histogram(votes, task.classes))


def label_counts(task: LabTask, counts: Array) -> Labelled:
    """Label counts int[N, Q], shared as they are, for votes of which only the counts were kept."""
    return _compared(task, run_counts(task, counts), counts)


def quality(labels: Labels, truth: Labels) -> Quality:
    """How many labels there are, and how many of them are right."""
    answered = labels != NO_CONSENSUS
    right = int((labels == truth).sum())
    known = int(answered.sum())
    return Quality(known, right / known if known else None, right / len(labels))


def _compared(task: LabTask, run: Run[LabStats], counts: Array) -> Labelled:
    plain, again = (ideal_labels(task, counts, (lab_noise(task, 0), lab_noise(task, 1))) for _ in range(2))
    return Labelled(run.labels, plain, again, run.is_ideal(counts), run.stats)
