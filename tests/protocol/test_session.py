"""A session: fresh secrets on every connection, a block once, and nothing in common between two blocks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sedml.errors import ChannelError, CheatingError, CorrelationReusedError
from sedml.mpc.channel import memory_pair
from sedml.mpc.ot.extension import begin_extension
from sedml.mpc.steps import drive
from sedml.protocol.block import answer
from sedml.protocol.preparation import prepare
from sedml.protocol.server_session import Session, open_session
from sedml.protocol.task import Block
from support.labelling import case, run, sessions
from support.lockstep import both, play

BLOCKS = (0, 1, 7)


@pytest.mark.parametrize("blocks", [[0], [0, 1, 2], list(range(40))])
def test_it_opens_in_two_rounds_whatever_the_number_of_blocks(blocks):
    played = play(open_session(0, blocks), open_session(1, blocks))
    assert played.steps == ["ot/base", "ot/renewal"]
    assert played.sizes == [32 + 128 * 64, 6144 + 31 * (128 * len(blocks) + 128) // 8 + 48 + len(blocks)]
    assert [session.role for session in played.results] == [0, 1]


def delta_of(session: Session, block: int) -> bytes:
    return session._bases[block].choices.tobytes()


def test_every_block_of_every_connection_has_a_delta_of_its_own():
    opened = [session for _ in range(2) for session in both(open_session(0, BLOCKS), open_session(1, BLOCKS))]
    assert len({delta_of(session, block) for session in opened for block in BLOCKS}) == 12
    for session in opened:
        for block in BLOCKS:
            assert session._bases[block].choices[3] == 0  # the lowest bit of Delta is 1
            assert set(session._bases[block].choices) == {0, 1}


@pytest.mark.parametrize("sender", [0, 1])
def test_base_transfers_of_every_block_fit(sender):
    opened = both(open_session(0, BLOCKS), open_session(1, BLOCKS))
    for block in BLOCKS:
        sent, other = opened[sender]._bases[block].sent, opened[1 - sender]._bases[block]
        assert (sent[np.arange(128), other.choices] == other.received).all()
        assert (sent[:, 0] != sent[:, 1]).any(axis=1).all()


def test_nothing_is_left_of_it_when_the_connection_is_over():
    session = both(open_session(0, BLOCKS), open_session(1, BLOCKS))[0]
    kept = dict(session._bases)
    session.wipe()
    assert not any(base.sent.any() or base.choices.any() for base in kept.values())
    with pytest.raises(ChannelError, match="failed"):
        session.begin(0)


@pytest.mark.parametrize("ending", ["caught", "hung up"])
def test_with_the_first_block_that_fails_all_are_over(ending):
    """Of those that are prepared, none says another word."""
    given, ends = case(), sessions(blocks=(0, 1, 2))
    blocks = [Block(number, 0, given.task.samples) for number in range(3)]
    done = play(*(prepare(ends[i], given.task, blocks[0], given.noises[i]) for i in (0, 1))).results
    broken = prepare(ends[0], given.task, blocks[1], given.noises[0])
    next(broken)
    if ending == "hung up":
        broken.close()
    else:
        with pytest.raises(CheatingError):
            broken.send([array * 0 for array in play_one(given, ends[1], blocks[1])])
    with pytest.raises(ChannelError, match="failed"):
        next(answer(done[0], given.task, given.shares[0]))
    with pytest.raises(ChannelError, match="failed"):
        next(prepare(ends[0], given.task, blocks[2], given.noises[0]))


def play_one(given, session: Session, block: Block) -> list[np.ndarray]:
    """What a server says first."""
    return next(prepare(session, given.task, block, given.noises[session.role]))[1]


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("again", [0, 5], ids=["twice", "none of its blocks"])
def test_a_block_is_begun_once_and_whoever_tries_again_ends_the_session(again, role):
    given = case()
    session, samples = sessions()[role], given.task.samples
    first = prepare(session, given.task, Block(0, 0, samples), given.noises[role])
    next(first)
    with pytest.raises(CorrelationReusedError, match="begun before"):
        next(prepare(session, given.task, Block(again, 0, samples), given.noises[role]))
    with pytest.raises(ChannelError, match="failed"):
        next(prepare(session, given.task, Block(1, 0, samples), given.noises[role]))


def test_of_many_threads_one_begins_a_block():
    session = sessions(blocks=[7])[0]

    def begin(_) -> bool:
        try:
            session.begin(7)
        except CorrelationReusedError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(begin, range(64))) == 1


def test_different_blocks_have_nothing_in_common():
    numbers_ = (0, 1, 2, 4095)
    ends = sessions(blocks=numbers_)
    made = [both(*(begin_extension(end.begin(block), b"block", 1000) for end in ends)) for block in numbers_]
    for role in (0, 1):
        rows = np.concatenate([rows for pair in made for rows in (pair[role].received, pair[role].sent)])
        assert len(np.unique(rows, axis=0)) == len(rows)
        assert len({pair[role].choices.tobytes() for pair in made}) == 4
        assert len({pair[role].delta.tobytes() for pair in made}) == 4
        assert all(pair[role].delta[0] & np.uint64(1) for pair in made)


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
        opened = list(threads.map(lambda role: drive(links[role], 0, open_session(role, BLOCKS)), (0, 1)))
    assert all(isinstance(session, Session) for session in opened)
    assert links[0].traffic.rounds == 2


def test_it_shows_no_secret():
    assert "array" not in repr(sessions()[0])
