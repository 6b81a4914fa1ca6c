"""The counts that the documentation claims, exactly: rounds and bytes do not depend on the machine."""

import numpy as np
import pytest
from sedml.mpc.correlations import corrections_size

from sedml.aggregation.both_servers import run_job
from sedml.aggregation.one_call import aggregate
from sedml.lab.bench.workload import random_counts, random_votes
from sedml.mpc.prg import Seed
from sedml.mpc.sharing import Additive, share
from sedml.protocol.block import plan_block
from sedml.protocol.task import Task


class NoNoise:
    """All samples pass and the label phase runs on every one: the most that a job can cost."""

    def threshold(self, block, samples):
        return np.zeros(samples, np.int32)

    def label(self, block, classes, samples):
        return np.zeros((classes, samples), np.int32)


def worst_case(task):
    counts = random_counts(task.samples, task.classes, task.teachers, 1)
    counts[0] = np.maximum(counts[0], task.threshold)
    shares = share(Additive(counts.shape, task.widths.counts), counts, Seed(bytes(32)), "counts")
    loaders = tuple(lambda block, half=half: half[:, block.start : block.stop] for half in shares)
    labels, stats = run_job(task, loaders, (NoNoise(), NoNoise()))
    assert (labels >= 0).all()
    return stats


def test_a_thousand_samples_of_counts():
    stats = worst_case(Task(10, 1000, 250, 150, 40.0, 40.0, votes="counts"))
    assert stats.ring_bits == {"threshold": 11, "label": 12, "counts": 12}
    assert stats.rounds == 17 <= 34
    assert stats.server_bytes == 85_426 <= 250_000
    assert stats.dealer_bytes == 134_189


def test_a_thousand_samples_of_250_index_votes():
    votes = random_votes(1000, 10, 250, 3)
    result = aggregate(votes, classes=10, threshold=0.6, sigma1=40.0, sigma2=40.0)
    count = result.stats.phases["count"]
    assert count.rounds == 3 <= 16
    assert count.bytes == 462_884 <= 1_600_000
    assert result.stats.teacher_bytes == (32, 500)


def test_the_papers_phases_cost_more():
    stats = worst_case(Task(10, 1000, 250, 150, 40.0, 40.0, protocol="paper", votes="counts"))
    assert {phase: cost.rounds for phase, cost in stats.phases.items()} == {
        "count": 0,
        "highest": 32,
        "threshold": 8,
        "label": 32,
    }
    assert stats.server_bytes < 61_121_000 / 50


@pytest.mark.parametrize("protocol", ["fused", "paper"])
def test_traffic_is_linear_in_samples_and_in_classes(protocol):
    def dealt(classes, samples):
        return corrections_size(plan_block(Task(classes, samples, 250, 150, 40.0, 40.0, protocol, "counts"), samples))

    assert dealt(10, 16_000) == pytest.approx(2 * dealt(10, 8_000), rel=0.01)
    assert dealt(64, 8_000) == pytest.approx(4 * dealt(16, 8_000), rel=0.15)


def test_a_ballot_is_small():
    assert Task(10, 1000, 250, 150, 40.0, 40.0).ballot.sizes == (32, 500)
    assert Task(10, 1000, 250, 150, 40.0, 40.0, votes="onehot").ballot.sizes == (32, 15_000)
