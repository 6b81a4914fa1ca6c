"""A session: fresh secrets on every connection, a block once, and nothing in common between two blocks but the Delta."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sedml.errors import CorrelationReusedError
from sedml.mpc.steps import drive
from sedml.mpc.channel import memory_pair
from sedml.protocol.block import prepare
from sedml.protocol.session import Session, open_session
from sedml.protocol.shape import Shape
from sedml.protocol.task import Block, Task
from support.labelling import case, run, sessions
from support.lockstep import both, play


def test_it_opens_in_two_rounds_of_14_kilobytes():
    played = play(open_session(0), open_session(1))
    assert played.steps == ["ot/base", "ot/trees"]
    assert played.sizes == [32 + 128 * 64, 6144]
    assert [session.role for session in played.results] == [0, 1]


def test_every_connection_has_a_delta_and_seeds_of_its_own():
    opened = [session._trees for _ in range(2) for session in both(open_session(0), open_session(1))]
    assert len({trees.delta.tobytes() for trees in opened}) == 4
    assert len({trees.own.tobytes() for trees in opened}) == 4


def test_nothing_is_left_of_it_when_the_connection_is_over():
    session = both(open_session(0), open_session(1))[0]
    assert session._trees.delta.any()
    session.wipe()
    assert not any(part.any() for part in (session._trees.own, session._trees.delta, session._trees.known))


@pytest.mark.parametrize("role", [0, 1])
def test_a_block_is_begun_once(role):
    given = case()
    session, block = sessions()[role], Block(0, 0, given.task.samples)
    next(prepare(session, given.task, block, given.noises[role]))
    with pytest.raises(CorrelationReusedError, match="Block 0 was begun before"):
        next(prepare(session, given.task, block, given.noises[role]))
    next(prepare(session, given.task, Block(1, 0, given.task.samples), given.noises[role]))


def test_of_many_threads_one_begins_a_block():
    session = sessions()[0]

    def begin(_) -> bool:
        try:
            session.begin(7)
        except CorrelationReusedError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(begin, range(64))) == 1


def test_different_blocks_have_different_streams_and_tweaks():
    ends = sessions()
    made = [both(*(end.begin(block).extend(1000) for end in ends)) for block in (0, 1, 2, 4095)]
    for role in (0, 1):
        rows = np.concatenate([rows for pair in made for rows in (pair[role].received, pair[role].sent)])
        assert len(np.unique(rows, axis=0)) == len(rows)
        assert len({pair[role].choices.tobytes() for pair in made}) == 4
        assert len({pair[role].delta.tobytes() for pair in made}) == 1
        starts = [pair[role].first for pair in made]
        assert starts == sorted(starts)
        assert all(later - earlier >= 1 << 40 for earlier, later in zip(starts, starts[1:], strict=False))


def test_no_block_has_more_transfers_than_are_kept_for_it():
    largest = Task(2, 4096, 2**22, 1, 2.0**17)
    for task in (largest, Task(300, 4096, 250, 100, 40.0), Task(10, 4096, 250, 100, 40.0)):
        assert sum(Shape(task, next(task.blocks)).sections) < 1 << 40


def test_two_blocks_of_one_session_give_their_labels_and_send_nothing_twice():
    given, ends = case(classes=2, samples=2, teachers=3, threshold=2), sessions()
    outcomes = [run(given, ends=ends, number=number) for number in (0, 1)]
    for outcome in outcomes:
        assert (outcome.labels == given.labels).all()
    for role in (0, 1):
        one, other = (
            {array.tobytes() for step, arrays in outcome.said[role] for array in arrays if array.nbytes >= 8}
            for outcome in outcomes
        )
        assert not one & other


def test_several_blocks_may_be_under_way_at_once():
    given, ends = case(classes=2, samples=3, teachers=3, threshold=2), sessions()
    blocks = [Block(number, 0, 3) for number in range(2)]
    parts = [[prepare(ends[role], given.task, block, given.noises[role]) for block in blocks] for role in (0, 1)]
    said = [[next(part) for part in mine] for mine in parts]
    done = 0
    while done < 4:
        came = [[[array.copy() for array in arrays] for _, arrays in mine] for mine in said]
        done = 0
        for role in (0, 1):
            for number in (1, 0):  # in another order at the two servers
                try:
                    said[role][number] = parts[role][number].send(came[1 - role][number])
                except StopIteration:
                    done += 1


def test_it_is_driven_over_a_channel():
    with ThreadPoolExecutor(2) as threads:
        links = memory_pair(bytes(16))
        opened = list(threads.map(lambda role: drive(links[role], 0, open_session(role)), (0, 1)))
    assert all(isinstance(session, Session) for session in opened)
    assert links[0].traffic.rounds == 2


def test_it_shows_no_secret():
    assert "array" not in repr(sessions()[0])
