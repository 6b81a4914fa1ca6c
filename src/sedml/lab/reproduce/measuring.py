"""Measurements of jobs on synthetic votes, as `sedml bench aggregate` makes them."""

from __future__ import annotations

from sedml.lab.bench.protocol import StageReport, bench_lab
from sedml.lab.paper.two_noise_task import Task, VoteForm
from sedml.lab.reproduce import published
from sedml.lab.reproduce.scale import Scale
from sedml.protocol.thresholds import threshold_count

_SIGMA = 40.0
"""Noise of the jobs that are timed; it decides the width of the rings and little else."""

LINK = "S0 and S1 as two processes over TLS on loopback"
"""What times are measured on; tests use threads of one process."""

_MANY = 20_000


def standard_task(samples: int, classes: int, teachers: int, votes: VoteForm = "counts") -> Task:
    """A job with the paper's threshold of 60%."""
    threshold = threshold_count(published.THRESHOLD, teachers)
    return Task(classes, samples, teachers, threshold, _SIGMA, _SIGMA, votes)


def paper_task(scale: Scale) -> Task:
    """The job of the paper's tables, from single votes."""
    return standard_task(scale.samples, 10, scale.teachers, "onehot")


def measure(scale: Scale, task: Task) -> StageReport:
    """Median times of a job, its labels checked; large jobs are repeated less often."""
    size = task.samples * task.classes / 10 + (task.samples * task.teachers / 25 if task.votes != "counts" else 0)
    repeat = scale.repeat if size <= _MANY else max(1, min(3, scale.repeat))
    return bench_lab(task, transport=scale.transport, repeat=repeat)
