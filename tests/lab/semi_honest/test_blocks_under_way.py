"""Blocks that run at the same time: they say what they would have said one after the other, and answer the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc.channel import memory_pair, run_in_lanes
from sedml.lab.semi_honest.branches import Branches
from sedml.mpc.ot.extension import Extension
from sedml.lab.semi_honest.recipe import make, transfers_of
from sedml.lab.semi_honest.party import Party
from sedml.protocol import task as task_module
from sedml.lab.semi_honest.block import recipes, run_block
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.labels import reveal
from sedml.lab.semi_honest.links import MOST_UNDER_WAY, blocks_under_way, cost_of
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram
from support.harness import fixed_seed, loaders_of
from support.made import shared_trees
from support.tiers import thorough

PROTOCOLS = pytest.mark.parametrize("protocol", ["fused", "garbled"])


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_module, "_BLOCK_TRANSFERS", 8)
        yield


class Heard:
    """All that a server says, by block and step, and how many messages each lane has waited for."""

    def __init__(self):
        self.said = {}

    def sends(self, frame):
        assert (frame.block, frame.step) not in self.said
        self.said[frame.block, frame.step] = b"".join(frame.pieces(1 << 30))

    def receives(self, frame, message):
        pass


def run(task, votes, under_way):
    """Labels, noise, what each server said, and the rounds of the busiest lane."""
    loaders, blocks, common = loaders_of(task, votes), list(task.blocks), fixed_seed(7)
    needs = [recipes(task, block.samples) for block in blocks]
    noises = [DrawnNoise(task, fixed_seed(10 + role)) for role in (0, 1)]
    longest = []

    def side(role, end):
        heard, ends, waits = Heard(), Branches(Extension(shared_trees()[role], b"x"), sizes, under_way), {}

        def work(lane, number, index):
            made = make(role, ends.at(number, index), lane, index, needs[index], fixed_seed(role))
            share = run_block(Party(role, lane, made), task, lambda: loaders[role](blocks[index]), noises[role], common)
            waits[number] = lane.traffic.rounds
            return share

        with end, end.witnessed(heard):
            shares = run_in_lanes(end, range(len(blocks)), under_way, work)
        longest.append(max(waits.values()))
        return shares, heard.said

    sizes = [transfers_of(one) for one in needs]
    with ThreadPoolExecutor(2) as threads:
        sides = [threads.submit(side, role, end) for role, end in enumerate(memory_pair(task.id, timeout=120.0))]
        (first, said0), (second, said1) = (one.result() for one in sides)
    labels = np.concatenate([reveal(task, *pair) for pair in zip(first, second, strict=True)])
    return labels, noises, (said0, said1), longest[0]


@PROTOCOLS
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_the_answers_are_those_of_the_ideal_and_the_words_those_of_a_run_in_turn(protocol, data):
    classes, teachers = data.draw(st.integers(2, 11)), data.draw(st.integers(1, 6))
    samples, under_way = data.draw(st.integers(1, 60)), data.draw(st.integers(2, 5))
    task = Task(classes, samples, teachers, 1 + teachers // 2, 1.5, 2.0, protocol, nonce="0" * 32)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    votes = rng.integers(-1, classes, (teachers, samples)).astype(np.int16)
    labels, noises, said, _ = run(task, votes, min(under_way, task.block_count))
    assert np.array_equal(labels, ideal_labels(task, histogram(votes, classes), noises))
    assert said == run(task, votes, 1)[2]


@pytest.mark.parametrize("protocol", ["fused", pytest.param("garbled", marks=thorough)])
def test_with_so_many_blocks_at_a_time_the_waiting_is_divided_by_as_many(protocol):
    task = Task(10, 12 * 8, 5, 1, 0.01, 0.01, protocol)
    votes = np.zeros((5, task.samples), np.int16)
    assert task.block_count == 12
    in_turn, waits = run(task, votes, 1)[3], [run(task, votes, lanes)[3] for lanes in (2, 3, 4, 6)]
    assert in_turn == cost_of(task).rounds - 2  # which are those of the set-up
    assert waits == [in_turn // lanes for lanes in (2, 3, 4, 6)]


# ---- How many ----------------------------------------------------------------------------------------------------


@pytest.fixture
def large_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 1 << 20)


LARGE = Task(10, 100_000, 250, 150, 40.0, 40.0)


@PROTOCOLS
@pytest.mark.usefixtures("large_blocks")
def test_one_on_a_near_link_and_more_the_farther_it_is(protocol):
    task = replace(LARGE, protocol=protocol)
    found = [blocks_under_way(task, delay) for delay in (0.0, 1e-4, 0.02, 0.1, 1.0)]
    assert found[:2] == [1, 1]
    assert 1 < found[2] <= found[3]
    assert found == sorted(found)
    assert found[-1] == MOST_UNDER_WAY
    assert blocks_under_way(task, 1.0, 3) == 3
    assert blocks_under_way(replace(task, samples=10), 1.0) == 1
