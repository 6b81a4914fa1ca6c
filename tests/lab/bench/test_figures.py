"""The counts that the documentation claims, exactly: rounds and bytes do not depend on the machine."""

import json
from pathlib import Path

import pytest

from sedml.lab.paper import three_phases
from sedml.lab.paper.correlations import corrections_size
from sedml.lab.paper.two_noise_task import Task

COUNTS = json.loads((Path(__file__).parents[3] / "benchmarks" / "counts.json").read_text())


def test_the_papers_phases_cost_less_than_in_the_paper():
    paper = COUNTS["paper, 1,000 x 10 counts"]
    rounds = {phase: paper["rounds"][phase] for phase in ("highest", "threshold", "label")}
    assert rounds == {"highest": 32, "threshold": 8, "label": 32}
    assert paper["bytes"]["total"] < 61_121_000 / 50


def test_ballots_are_counted_without_a_message():
    ballots, counts = (COUNTS[f"paper, 1,000 x 10 {what}"] for what in ("one-hot votes of 250 teachers", "counts"))
    assert ballots["bytes"] == counts["bytes"]
    assert ballots["teacher_bytes"] == {"s0": 32, "s1": 40_000}


def test_what_is_dealt_is_linear_in_samples_and_in_classes():
    def sent(classes, samples):
        return corrections_size(three_phases.plan(Task(classes, samples, 250, 150, 40.0, 40.0), samples))

    assert sent(10, 16_000) == pytest.approx(2 * sent(10, 8_000), rel=0.01)
    assert sent(64, 8_000) == pytest.approx(4 * sent(16, 8_000), rel=0.15)
