"""Measurements of jobs on synthetic votes, as `sedml bench aggregate` makes them."""

from __future__ import annotations

from sedml.lab.bench.lab_jobs import Report, bench_lab
from sedml.lab.paper.lab_task import Dealt, LabTask, VoteForm
from sedml.lab.reproduce import published
from sedml.lab.reproduce.scale import Scale
from sedml.protocol.thresholds import threshold_count

__all__ = ["LINK", "SIGMA", "measure", "paper_tasks", "standard_task"]

SIGMA = 40.0
"""Noise of the jobs that are timed; it decides the width of the rings and little else."""

LINK = "S0 and S1 as two processes over TLS on loopback"
"""What times are measured on; tests use threads of one process."""

_MANY = 20_000


def standard_task(
    samples: int,
    classes: int = 10,
    teachers: int = published.TEACHERS,
    dealt: Dealt = "fused",
    votes: VoteForm = "counts",
) -> LabTask:
    """A job with the paper's threshold of 60 %, on dealt randomness."""
    threshold = threshold_count(published.THRESHOLD, teachers)
    return LabTask(classes, samples, teachers, threshold, SIGMA, SIGMA, dealt=dealt, votes=votes)


def paper_tasks(scale: Scale) -> tuple[LabTask, LabTask]:
    """The job of the paper's tables from single votes: its three phases, and fused."""
    three = standard_task(scale.samples, 10, scale.teachers, "paper", "onehot")
    return three, standard_task(scale.samples, 10, scale.teachers, "fused", "onehot")


def measure(scale: Scale, task: LabTask, *, latency_ms: float = 0.0) -> Report:
    """Median times of a job, its labels checked; large jobs are repeated less often."""
    size = task.samples * task.classes / 10 + (task.samples * task.teachers / 25 if task.votes != "counts" else 0)
    repeat = scale.repeat if size <= _MANY else max(1, min(3, scale.repeat))
    return bench_lab(task, transport=scale.transport, latency_ms=latency_ms, repeat=repeat)
