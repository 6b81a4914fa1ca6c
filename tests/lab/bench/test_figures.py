"""The counts that the documentation claims, exactly: rounds and bytes do not depend on the machine."""

import numpy as np
import pytest

from sedml.lab.bench.workload import random_counts, random_votes
from sedml.lab.paper.correlations import corrections_size
from sedml.lab.paper.lab_block import plan_block
from sedml.lab.paper.lab_run import counts_loaders, run_job, run_votes
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.lone_noise import NoNoise


def worst_case(**terms):
    """All samples pass and the label phase runs on every one: the most that a job can cost."""
    task = LabTask(10, 1000, 250, 150, 40.0, 40.0, votes="counts", **terms)
    counts = random_counts(task.samples, task.classes, task.teachers, 1)
    counts[0] = np.maximum(counts[0], task.threshold)
    labels, stats = run_job(task, counts_loaders(task, counts), (NoNoise(), NoNoise()))
    assert (labels >= 0).all()
    return stats


def test_a_thousand_samples_of_counts():
    stats = worst_case(dealt="fused")
    assert stats.rounds == 17 <= 34
    assert stats.server_bytes == 85_426 <= 250_000
    assert stats.dealer_bytes == 134_189


def test_a_thousand_samples_of_250_ballots_are_counted_without_a_message():
    votes = random_votes(1000, 10, 250, 3)
    task = LabTask(10, 1000, 250, 150, 40.0, 40.0, dealt="fused", votes="onehot")
    stats = run_votes(task, votes).stats
    assert (stats.phases["count"].rounds, stats.phases["count"].bytes) == (0, 0)
    assert task.teacher_bytes == (32, 15_000)


def test_the_papers_phases_cost_more():
    stats = worst_case(dealt="paper")
    assert {phase: cost.rounds for phase, cost in stats.phases.items()} == {
        "count": 0,
        "highest": 32,
        "threshold": 8,
        "label": 32,
    }
    assert stats.server_bytes < 61_121_000 / 50


@pytest.mark.parametrize("dealt", ["fused", "paper"])
def test_traffic_is_linear_in_samples_and_in_classes(dealt):
    def sent(classes, samples):
        task = LabTask(classes, samples, 250, 150, 40.0, 40.0, dealt=dealt, votes="counts")
        return corrections_size(plan_block(task, samples))

    assert sent(10, 16_000) == pytest.approx(2 * sent(10, 8_000), rel=0.01)
    assert sent(64, 8_000) == pytest.approx(4 * sent(16, 8_000), rel=0.15)
