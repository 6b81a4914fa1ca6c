"""A server that holds back its pulse, cheats at the other's workers and hangs up is remembered as a cheat.

It could guess at a secret of the other server block after block: what a worker had found was looked at only between two
pulses, and forgotten when the link broke.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sedml.errors import CheatingError, PeerGoneError, StoreError
from sedml.protocol.task import Block
from sedml.service.server.run import blocks_on_workers, runner
from sedml.service.server.run.blocks import Attempt
from sedml.service.server.run.repetition import Row
from sedml.service.server.run.run_state import RunState

CAUGHT = CheatingError("The other server's corrections do not fit.", "Tell both operators.")


class Link:
    def exchange(self, *_):
        return [np.zeros(32, np.uint8)]


def test_what_a_worker_has_found_outlives_the_link(monkeypatch):
    def keep_in_touch(run, _):
        run.state.stop(CAUGHT)
        raise PeerGoneError("The other server hung up.", "Try again.")

    monkeypatch.setattr(blocks_on_workers, "_keep_in_touch", keep_in_touch)
    node, record = SimpleNamespace(role=1), SimpleNamespace(task=SimpleNamespace())
    with pytest.raises(CheatingError):
        blocks_on_workers.run_on_workers(node, None, record, Link(), [], 1, None)


def test_no_block_begins_once_a_cheat_is_found():
    state = RunState([Attempt(Block(0, 0, 8), Row(), 1)], 5)
    state.stop(CAUGHT)
    assert state.stopped
    assert state.take() is None
    assert state.take(0, 1) is None


def test_an_alarm_that_cannot_be_written_is_not_forgotten(monkeypatch):
    """The disk is full when the cheat is caught: the job is not met about again, and is ended once it can be."""
    node, ended, met = SimpleNamespace(condemned={}), [], []

    def cheats():
        met.append(1)
        raise CAUGHT

    def fail(node, job, error):
        node.condemned[job] = error
        if len(ended) < 2:
            ended.append("full")
            raise StoreError("The disk is full.", "Make room.")
        del node.condemned[job]

    monkeypatch.setattr(runner, "_fail", fail)
    for _ in range(2):
        with pytest.raises(StoreError):
            runner.attempt(node, "job", cheats)
    assert runner.attempt(node, "job", cheats) == "over"
    assert (len(met), node.condemned) == (1, {})
