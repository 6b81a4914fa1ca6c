"""How far apart two servers find that they are, in time that a test makes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import Queue

import numpy as np
import pytest

from sedml.protocol.task import Task
from sedml.service.server.access import Caller
from sedml.service.server.http import App
from sedml.service.server.link.greeting import greet
from sedml.service.server.live.link_delay import LinkDelay
from sedml.service.server.ops import health
from sedml.service.server.run import meeting
from sedml.service.server.run.pacing import blocks_under_way
from sedml.service.server.run.repetition import MANY_EXTRA


@dataclass
class FarEnd:
    """One end of a link on which a message takes its delay, by this end's clock."""

    delay: float
    inbox: Queue
    outbox: Queue
    time: float = 0.0
    lie: object = None

    def exchange(self, _block, step, arrays):
        if step == "link/took" and self.lie is not None:
            arrays = [np.array([self.lie])]
        self.outbox.put((self.time + self.delay, arrays))
        came, content = self.inbox.get(timeout=120)
        self.time = max(self.time, came)
        return content

    def turn_to(self, _task):
        pass


def greeted(deployed, *, delay, ahead=0.0, lie=None):
    """Both servers after a greeting that S1 begins `ahead` seconds before S0."""
    queues = Queue(), Queue()
    ends = [FarEnd(delay, queues[role], queues[1 - role], 10.0 - role * ahead) for role in (0, 1)]
    ends[1].lie = lie
    nodes = [
        replace(node, steady=lambda one=one: one.time, link_delay=LinkDelay())
        for node, one in zip(deployed.nodes, ends, strict=True)
    ]
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(greet, node, one) for node, one in zip(nodes, ends, strict=True)]:
            done.result()
    return nodes


@pytest.mark.parametrize("ahead", [0.0, 0.004, -0.03, 0.5])
@pytest.mark.parametrize("delay", [0.0002, 0.04, 0.15])
def test_a_greeting_finds_the_delay_whoever_is_ahead_and_everybody_may_know(deployed, delay, ahead):
    for node in greeted(deployed, delay=delay, ahead=ahead):
        assert node.link_delay.seconds == pytest.approx(delay)
        info = health.info(node, Caller("teacher-001", "teacher"))
        assert info.link_delay_ms == pytest.approx(1e3 * delay)
        assert f"\nsedml_link_delay_seconds {node.link_delay.seconds}" in App(node).web.metrics.text().decode()


def test_nothing_is_known_at_first(deployed):
    assert health.info(deployed.nodes[0], Caller("teacher-001", "teacher")).link_delay_ms is None
    assert "link_delay_seconds" not in health.figures(deployed.nodes[0])


def test_the_shortest_delay_of_the_last_six_greetings_counts():
    found = LinkDelay()
    for delay in (0.001, 0.5, 0.3, 0.02, 0.4, 0.9, 0.8):
        found.note(delay, delay)
    assert found.seconds == 0.02


@pytest.mark.parametrize("lie", [float("nan"), float("inf"), -1.0, 1e9])
def test_a_time_that_cannot_be_is_not_believed(deployed, lie):
    s0, s1 = greeted(deployed, delay=0.02, lie=lie)
    assert s0.link_delay.seconds is None
    assert s1.link_delay.seconds == pytest.approx(0.02)


def test_a_server_works_on_one_block_at_a_time_until_it_knows_that_the_link_is_long(deployed):
    node, task = replace(deployed.nodes[0], link_delay=LinkDelay()), Task(10, 100_000, 250, 150, 40.0)
    side = meeting._Side(node, None, task, None, None)
    assert meeting._pace(side, 100, 0).lanes == 1
    node.link_delay.note(1.0, 1.0)
    assert meeting._pace(side, 100, 0).lanes == node.settings.max_blocks_under_way
    assert meeting._pace(side, 100, MANY_EXTRA).lanes == 1, "nor when blocks broke off often"
    node.link_delay.note(1e-4, 1e-4)
    assert meeting._pace(side, 100, 0).lanes == 1


def test_a_link_is_long_by_what_a_block_takes():
    task = Task(10, 100_000, 250, 150, 40.0)
    found = [blocks_under_way(task, delay, 3) for delay in (0.0, 0.001, 0.02, 0.05, 0.1, 5.0)]
    assert (found[0], found[1], found[-1]) == (1, 1, 3)
    assert found == sorted(found)
    assert blocks_under_way(task, 5.0, 1) == 1
    assert blocks_under_way(Task(10, 8, 250, 150, 40.0), 5.0, 3) == 1, "a single block"
