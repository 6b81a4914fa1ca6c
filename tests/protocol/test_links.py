"""The model of a link: its rounds and bytes are those of real jobs, and its choice is the faster protocol."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.protocol import task as task_module
from sedml.protocol.links import Link, choose, cost_of, seconds
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
    [(2, 9, 5, 0.7), (10, 40, 20, 2.0), (3, 17, 300, 40.0), (33, 8, 4, 900.0)],
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


@PROTOCOLS
def test_a_round_costs_a_delay_and_a_byte_its_bits(protocol):
    task = replace(TASK, protocol=protocol)
    cost, near = cost_of(task), Link(0.0, 1e9)
    # One for what both agree on, and one for the only block.
    assert seconds(task, replace(near, delay=0.5)) - seconds(task, near) == pytest.approx(0.5 * (cost.rounds + 2))
    assert seconds(task, replace(near, bandwidth=1e6)) - seconds(task, near) == pytest.approx(
        8 * cost.bytes * (1e-6 - 1e-9)
    )


def test_few_rounds_for_servers_that_are_far_and_few_bytes_for_those_that_are_near():
    task = replace(TASK, samples=1000, teachers=250, threshold=150, sigma1=40.0, sigma2=40.0)
    assert choose(task, Link(0.0002, 1e9)).protocol == "fused"
    assert choose(task, Link(0.1, 1e9)).protocol == "garbled"
    assert choose(task, Link(0.1, 1e7)).protocol == "fused"


@given(
    delay=st.floats(0, 2),
    megabits=st.floats(0.1, 1e4),
    classes=st.integers(2, 50),
    samples=st.integers(1, 10**6),
    teachers=st.integers(1, 1000),
)
@settings(max_examples=40)
def test_the_choice_is_the_faster_one_whatever_protocol_the_task_names(delay, megabits, classes, samples, teachers):
    task = Task(classes, samples, teachers, 1, 3.0, 3.0)
    link = Link(delay, 1e6 * megabits)
    choice = choose(task, link)
    assert choice == choose(replace(task, protocol="garbled"), link)
    assert getattr(choice, choice.protocol) == min(choice.fused, choice.garbled)
    # A longer delay never speaks for more rounds in a job of one block.
    if task.block_count == 1 and choice.protocol == "garbled":
        assert choose(task, replace(link, delay=2 * delay)).protocol == "garbled"
