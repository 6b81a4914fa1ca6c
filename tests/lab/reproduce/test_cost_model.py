"""Fitted laws, and the exact ones of rounds and dealt bytes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import InputError
from sedml.lab.bench.counts import TASKS, count_costs
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.reproduce.cost_model import LINKS, Law, Link, Model, dealt_bytes, fit, rounds_of
from sedml.lab.reproduce.measuring import standard_task

SEED_BYTES = 64
positive = st.floats(1e-3, 1e3)


@given(positive, positive, st.lists(st.integers(1, 10**6), min_size=2, max_size=8, unique=True))
def test_a_straight_line_is_found_again(fixed, each, xs):
    law = fit(xs, [fixed + each * x for x in xs])
    assert law.at(5) == pytest.approx(fixed + each * 5, rel=1e-3)
    assert law.worst < 1e-3
    assert (law.points, law.lowest, law.highest) == (len(xs), min(xs), max(xs))


@pytest.mark.parametrize(("xs", "ys"), [([1], [1]), ([1, 1], [1, 2]), ([1, 2], [0, 1]), ([1, 2], [1])])
def test_points_that_tell_no_law_are_refused(xs, ys):
    with pytest.raises(InputError):
        fit(xs, ys)


@pytest.mark.parametrize("name", [name for name in TASKS if name.startswith("dealt")])
def test_rounds_and_dealt_bytes_are_those_that_are_counted(name):
    task = replace(TASKS[name], samples=min(TASKS[name].samples, 300))
    costs = count_costs(task)
    assert rounds_of(task) == costs["rounds"]["total"]
    assert dealt_bytes(task) == costs["dealer_bytes"] - SEED_BYTES


def test_a_million_teachers_are_dealt_with_without_running_anything():
    task = LabTask(10, 1000, 10**6, 600_000, 40.0, 40.0, dealt="fused")
    assert task.block_count == 1
    assert rounds_of(task) == 6 + 16
    assert 10**5 < dealt_bytes(task) < 10**6


def test_a_projection_adds_computing_waiting_and_sending():
    law = Law(0.0, 1.0, 0.0, 2, 0.0, 1.0)
    model = Model(replace(law, fixed=2.0, each=1e-3), 1e-6, replace(law, each=10.0), 0.5)
    task = standard_task(1000, 10, 250, votes="onehot")
    assert model.compute(task) == pytest.approx(2.0 + 1.0 + 0.25)
    assert model.traffic(task) == pytest.approx(10_000 + 125_000)
    far = Link("far", 0.1, 1000.0)
    assert model.seconds(task, far) == pytest.approx(3.25 + rounds_of(task) * 0.1 + 135_000 / 2 / 1000)
    assert LINKS[0].delay == 0
    assert model.compute(standard_task(1000)) == pytest.approx(3.0)
