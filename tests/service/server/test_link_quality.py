"""What two servers find out about the link between them, in time that a test makes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import Queue

import numpy as np
import pytest

from sedml.protocol.task import Task
from sedml.service.server.access import Caller
from sedml.service.server.http import make_app
from sedml.service.server.link import link_quality
from sedml.service.server.link.greeting import greet
from sedml.service.server.node import LinkFigures
from sedml.service.server.ops import health


@dataclass
class FarEnd:
    """One end of a link on which a message takes its delay and its size over the bandwidth, by this end's clock."""

    delay: float
    bandwidth: float
    inbox: Queue
    outbox: Queue
    time: float = 0.0
    steps: list = field(default_factory=list)
    lie: object = None

    def exchange(self, _block, step, arrays):
        self.steps.append(step)
        if step == "link/took" and self.lie is not None:
            arrays = [np.array([self.lie, arrays[0][1]])]
        sent = self.time + 8 * sum(array.nbytes for array in arrays) / self.bandwidth
        self.outbox.put((sent + self.delay, arrays))
        came, content = self.inbox.get(timeout=10)
        self.time = max(sent, came)
        return content

    def turn_to(self, _task):
        pass


def after_an_exchange(node, end):
    end.exchange(0, "jobs", [])
    link_quality.measure(node, end)


def measured(deployed, *, delay, bandwidth, ahead=0.0, times=1, lie=None, end=after_an_exchange):
    """Both servers after so many measurements; S1 begins each `ahead` seconds before S0."""
    queues = Queue(), Queue()
    ends = [FarEnd(delay, bandwidth, queues[role], queues[1 - role]) for role in (0, 1)]
    ends[1].lie = lie
    nodes = [
        replace(node, steady=lambda one=one: one.time, link_figures=LinkFigures())
        for node, one in zip(deployed.nodes, ends, strict=True)
    ]
    with ThreadPoolExecutor(2) as threads:
        for _ in range(times):
            ends[0].time = max(one.time for one in ends) + 10.0
            ends[1].time = ends[0].time - ahead
            for done in [threads.submit(end, node, one) for node, one in zip(nodes, ends, strict=True)]:
                done.result()
    return nodes, ends


@pytest.mark.parametrize("ahead", [0.0, 0.004, -0.03, 0.5])
@pytest.mark.parametrize(("delay", "bandwidth"), [(0.0002, 1e9), (0.04, 1e8), (0.15, 5e6)])
def test_delay_and_bandwidth_are_found_whoever_is_ahead(deployed, delay, bandwidth, ahead):
    nodes, _ = measured(deployed, delay=delay, bandwidth=bandwidth, ahead=ahead)
    for node in nodes:
        found = link_quality.quality(node)
        # Of what `link/took` itself and the frames take, nothing is known.
        assert found.delay_ms == pytest.approx(1e3 * delay, rel=0.01, abs=0.1)
        assert found.mbit == pytest.approx(bandwidth / 1e6, rel=0.05)


def test_nothing_is_known_at_first(deployed):
    deployed.nodes[0].link_figures.delays, deployed.nodes[0].link_figures.bits = (), None
    info = health.info(deployed.nodes[0], Caller("teacher-001", "teacher"))
    assert (info.link_delay_ms, info.link_mbit) == (None, None)
    assert "link_delay_seconds" not in health.figures(deployed.nodes[0])


def test_half_a_megabyte_is_sent_at_the_first_greeting_and_ten_minutes_later(deployed):
    _, ends = measured(deployed, delay=0.01, bandwidth=1e8, times=62)
    for end in ends:
        assert end.steps.count("link/ping") == 62
        assert end.steps.count("link/load") == end.steps.count("link/open") == 2


def test_either_server_may_want_to_know(deployed):
    nodes, ends = measured(deployed, delay=0.01, bandwidth=1e8)
    nodes[0].link_figures.measured = None  # it was started anew
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(after_an_exchange, *pair) for pair in zip(nodes, ends, strict=True)]:
            done.result()
    assert [end.steps.count("link/load") for end in ends] == [2, 2]


def test_the_shortest_delay_of_the_last_minute_counts(deployed):
    [node, _], _ = measured(deployed, delay=0.02, bandwidth=1e8)
    node.link_figures.delays = (0.5, 0.3, 0.02, 0.4, 0.9, 0.8)
    assert link_quality.quality(node).delay_ms == 20


@pytest.mark.parametrize("lie", [float("nan"), float("inf"), -1.0, 1e9])
def test_a_time_that_cannot_be_is_not_believed(deployed, lie):
    [s0, s1], _ = measured(deployed, delay=0.02, bandwidth=1e8, lie=lie)
    assert link_quality.quality(s0) == link_quality.LinkQuality(None, None)
    assert link_quality.quality(s1).delay_ms == pytest.approx(20, rel=0.01)


def test_a_greeting_measures_and_everybody_may_know(deployed):
    nodes, _ = measured(deployed, delay=0.03, bandwidth=2e7, end=greet)
    for node in nodes:
        info = health.info(node, Caller("teacher-001", "teacher"))
        assert info.link_delay_ms == pytest.approx(30, rel=0.01)
        assert info.link_mbit == pytest.approx(20, rel=0.05)
        text = make_app(node).web.metrics.text().decode()
        assert "\nsedml_link_delay_seconds 0.03" in text or "\nsedml_link_delay_seconds 0.02999" in text
        assert "\nsedml_link_bits_per_second 1.9" in text or "\nsedml_link_bits_per_second 2" in text


def test_a_server_works_on_one_block_at_a_time_until_it_knows_that_the_link_is_long(deployed):
    node = deployed.nodes[0]
    task = Task(10, 100_000, 250, 150, 40.0, 40.0)
    assert link_quality.under_way(node, task) == 1
    for delays, expected in (((1e-4,), 1), ((5.0, 0.2), node.settings.max_blocks_under_way)):
        far = replace(node, link_figures=LinkFigures(delays))
        assert link_quality.under_way(far, task) == expected
