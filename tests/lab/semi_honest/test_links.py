"""What a job takes of a link: the rounds and bytes are those of real jobs."""

from dataclasses import replace

import numpy as np
import pytest

from sedml.protocol import task as task_module
from sedml.lab.semi_honest.links import cost_of
from sedml.protocol.task import Task
from support.harness import secure, zero_parts

TASK = Task(10, 40, 20, 10, 4.0, 2.0)
PROTOCOLS = pytest.mark.parametrize("protocol", ["fused", "garbled"])


def spent(task):
    """Rounds, and bytes of each server, of a real job in which all samples have a consensus."""
    result, _ = secure(task, np.zeros((task.teachers, task.samples), np.int64), zero_parts(task.classes, task.samples))
    assert (result.labels == 0).all()
    stats = result.stats
    return stats.rounds + stats.offline.rounds, (stats.server_bytes + stats.offline.bytes) // 2


@PROTOCOLS
@pytest.mark.parametrize(
    ("classes", "samples", "teachers", "sigma"),
    [(2, 9, 5, 0.7), (10, 40, 20, 2.0), (3, 17, 60, 40.0), (33, 8, 4, 900.0)],
)
def test_rounds_and_bytes_are_those_of_a_job(protocol, classes, samples, teachers, sigma):
    threshold = teachers // 2 + 1
    task = Task(classes, samples, teachers, threshold, sigma, sigma, protocol)
    cost = cost_of(task)
    assert (cost.rounds, cost.bytes) == spent(task)


@PROTOCOLS
def test_a_job_of_many_blocks_takes_the_rounds_of_each(protocol, monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 0)
    task = replace(TASK, protocol=protocol, samples=27)
    assert task.block_count == 4
    cost = cost_of(task)
    assert (cost.rounds, cost.bytes) == spent(task)
