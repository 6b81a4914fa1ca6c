"""Each server knows whether the other is there: soon after it has gone, and always while it is."""

import threading

import pytest
import structlog

from sedml.service.server.http import App
from sedml.service.server.link.greeting import NO_JOB
from sedml.service.server.ops import health
from sedml.service.server.run import runner
from sedml.service.server.run.runner import Runner


def peers(deployed):
    return [health.readiness(node).checks["peer"] for node in deployed.nodes]


def seconds(deployed):
    return [health.figures(node)["peer_seen_seconds"] for node in deployed.nodes]


def test_a_healthy_pair_is_in_touch_however_long_it_is_idle(deployed):
    for _ in range(20):
        deployed.greet()
        deployed.later(seconds=10.5)
        assert peers(deployed) == ["ok", "ok"]
        assert seconds(deployed) == [10.5, 10.5]


def test_before_the_first_greeting_it_says_so(deployed):
    deployed.later(seconds=12)
    assert peers(deployed) == ["not heard of yet, since 12 s"] * 2
    assert seconds(deployed) == [12.0, 12.0]  # whoever waits for too large a figure hears of a peer that never came
    deployed.greet()
    assert (peers(deployed), seconds(deployed)) == (["ok", "ok"], [0.0, 0.0])


def test_a_peer_that_is_gone_shows_within_35_seconds_and_so_does_one_that_is_back(deployed):
    deployed.greet()
    deployed.later(seconds=35)
    assert peers(deployed) == ["ok", "ok"]
    deployed.later(seconds=1)
    assert peers(deployed) == ["silent for 36 s"] * 2
    for node in deployed.nodes:
        assert health.readiness(node).ready  # votes are taken all the same
    deployed.greet()
    assert peers(deployed) == ["ok", "ok"]


def test_a_clock_that_is_set_changes_nothing(deployed):
    deployed.greet()
    deployed.clock.jump(days=2)
    assert (peers(deployed), seconds(deployed)) == (["ok", "ok"], [0.0, 0.0])
    assert [node.peer.last_heard() for node in deployed.nodes] == [deployed.clock()] * 2


def test_the_metrics_say_the_same(deployed):
    deployed.greet()
    deployed.later(seconds=7)
    text = App(deployed.nodes[0]).web.metrics.text().decode()
    assert "\nsedml_peer_seen_seconds 7.0\n" in text


@pytest.fixture
def idle(deployed, monkeypatch):
    """Runners of both servers that were never started."""
    monkeypatch.setattr(runner, "Host", lambda *_: None)
    return [Runner(node) for node in deployed.nodes]


def test_the_log_says_once_that_the_peer_is_gone_and_once_that_it_is_back(deployed, idle):
    for one, peer in zip(idle, ("s1", "s0"), strict=True):
        deployed.greet()
        with structlog.testing.capture_logs() as entries:
            for passed in (5, 40, 40):
                deployed.later(seconds=passed)
                one._watch_peer()
            deployed.greet()
            one._watch_peer()
        assert [(entry["event"], entry["peer"]) for entry in entries] == [("peer.silent", peer), ("peer.heard", peer)]
        assert entries[0]["seconds"] == 45


def test_greetings_go_on_while_as_many_jobs_run_as_may(deployed, monkeypatch):
    """A job may run for hours; that is no reason to take the other server for dead."""
    going, greeted = threading.Event(), threading.Event()

    def call(_node, job, _meet, _opened):
        if job != NO_JOB:
            assert going.wait(60)
            return "over"
        greeted.set()
        return "wait"

    jobs = {f"{number:032x}": None for number in range(1, 9)}
    monkeypatch.setattr(runner, "call", call)
    monkeypatch.setattr(runner, "calling", lambda _: jobs)
    one = Runner(deployed.nodes[1])
    one.start()
    try:
        assert greeted.wait(60)
    finally:
        going.set()
        one.stop()
