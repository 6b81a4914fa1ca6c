"""Several blocks on one link at once: each gets its own answers, waiting is shared, and a peer that mixes them up is
caught."""

from __future__ import annotations

import queue
import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import ChannelError, CheatingError, FrameMismatchError, PeerGoneError, PeerTimeoutError
from sedml.mpc.channel import MemoryChannel, run_in_lanes
from sedml.mpc.channel.frame import HEADER_SIZE, block_of, make_frame

transports = pytest.mark.parametrize("kind", ["memory", "tls"])
plans = st.lists(st.lists(st.integers(0, 3000), max_size=5), min_size=1, max_size=12)


def content(role, block, step, size):
    return np.random.default_rng([role, block, step]).integers(0, 256, size, np.uint8)


def talk(role, link, plan, window, between=lambda: None):
    """A server: so many rounds for each block, with messages of these sizes; what came of each."""

    def work(channel, _lane, block):
        came = []
        for step, size in enumerate(plan[block]):
            between()
            came += channel.exchange(block, f"step/{step}", [content(role, block, step, size)])
        return came

    return run_in_lanes(link, range(len(plan)), window, work)


def expect(found, role, plan):
    assert len(found) == len(plan)
    for block, came in enumerate(found):
        for step, one in enumerate(came):
            assert np.array_equal(one, content(1 - role, block, step, plan[block][step]))


@transports
@settings(max_examples=25, deadline=None)
@given(plan=plans, window=st.integers(1, 5), seed=st.integers(0, 1000))
def test_every_block_gets_its_own_answers(servers, both, kind, plan, window, seed):
    def dawdle():
        for _ in range(rng.randrange(300)):
            pass

    rng = random.Random(seed)
    with servers.link(kind) as (a, b):
        found = both(lambda: talk(0, a, plan, window, dawdle), lambda: talk(1, b, plan, window, dawdle))
        expect(found[0], 0, plan)
        expect(found[1], 1, plan)
        # All is counted, and the link goes on.
        assert a.traffic.rounds == b.traffic.rounds == sum(map(len, plan))
        assert a.traffic.bytes_sent == sum(size + HEADER_SIZE for sizes in plan for size in sizes)
        last = both(*(lambda end=end: end.exchange(0, "after", [np.arange(3)]) for end in (a, b)))
        assert last[0][0].tolist() == [0, 1, 2]


@transports
def test_large_messages_both_ways_at_once_do_not_wait_for_each_other(servers, both, kind):
    plan = [[3_000_000] * 2] * 5
    with servers.link(kind) as (a, b):
        found = both(lambda: talk(0, a, plan, 3), lambda: talk(1, b, plan, 3))
        expect(found[0], 0, plan)


@transports
def test_delays_are_those_of_each_message(servers, both, kind):
    plan = [[10] * 3] * 6
    with servers.link(kind, delays=(0.002, 0.002)) as (a, b):
        found = both(lambda: talk(0, a, plan, 3), lambda: talk(1, b, plan, 3))
        expect(found[1], 1, plan)


class FarPeer:
    """The other end of a link in memory, played by hand: what it is asked comes to it, and it answers when told."""

    def __init__(self, task):
        self.inbox, self.outbox = queue.SimpleQueue(), queue.SimpleQueue()
        self.near = MemoryChannel(task, self.outbox, self.inbox)
        self.task = task

    def hears(self):
        message, _ = self.inbox.get(timeout=120)
        return message

    def says(self, message):
        self.outbox.put((message.copy(), 0))

    def says_at(self, block, step, size=1):
        frame = make_frame(self.task, block, step, 0, [np.zeros(size, np.uint8)])
        self.says(np.frombuffer(b"".join(frame.pieces(1 << 20)), np.uint8))


@pytest.mark.parametrize(("blocks", "window"), [(1, 4), (6, 3), (12, 4), (8, 8), (220, 8)])
def test_the_waiting_is_that_of_one_lane_not_of_all_blocks(task, blocks, window):
    """The peer is so far away that nothing comes back before all that can be said is said: each time is one wait."""
    rounds, far, waits = 3, FarPeer(task), 0
    plan = [[1] * rounds] * blocks
    thread = threading.Thread(target=talk, args=(0, far.near, plan, window))
    thread.start()
    left = [rounds * len(range(lane, blocks, window)) for lane in range(window)]
    while under_way := [far.hears() for words in left if words > waits]:
        assert len({block_of(message[:HEADER_SIZE].tobytes()) for message in under_way}) == len(under_way)
        waits += 1
        for message in under_way:
            far.says(message)
    thread.join()
    assert waits == rounds * -(-blocks // min(window, blocks))
    assert far.near.traffic.rounds == rounds * blocks


def answers(task, play):
    """What a server with three lanes makes of a peer, which hears the first word of each first."""
    far, found = FarPeer(task), []

    def near():
        try:
            talk(0, far.near, [[1, 1]] * 9, 3)
        except ChannelError as error:
            found.append(error)

    thread = threading.Thread(target=near)
    thread.start()
    heard = sorted((far.hears() for _ in range(3)), key=lambda message: block_of(message[:HEADER_SIZE].tobytes()))
    play(far, heard)
    thread.join()
    assert far.near._closed
    return found[0]


@pytest.mark.parametrize(
    ("block", "step"),
    [(7, "step/0"), (4_000_000_000, "step/0"), (3, "step/0"), (0, "step/1")],
    ids=["far ahead", "no block", "the lane's next", "another step"],
)
def test_a_frame_of_another_block_or_step_ends_the_connection(task, block, step):
    error = answers(task, lambda far, _: far.says_at(block, step))
    assert isinstance(error, FrameMismatchError)
    assert f"block {block}" in error.what or step in error.what


def test_a_block_that_is_done_cannot_be_answered_again(task):
    def play(far, heard):
        far.says(heard[0])
        far.says(far.hears())
        far.hears()  # the lane has gone on to block 3
        far.says_at(0, "step/1")

    assert "block 0, which cannot be under way" in answers(task, play).what


def test_a_peer_that_goes_on_to_the_next_block_too_early_is_caught(task):
    """The lane is not waiting when the frame comes, so that it is found when the lane says its own."""

    def play(far, heard):
        far.says(heard[1])
        far.says_at(3, "step/0")

    assert "block 3" in answers(task, play).what


def test_two_answers_that_are_swapped_are_told_by_their_blocks(task):
    """They may come in any order; each goes where it belongs."""
    far, found = FarPeer(task), []
    plan = [[1]] * 3

    def near():
        found.append(talk(0, far.near, plan, 3))

    thread = threading.Thread(target=near)
    thread.start()
    heard = [far.hears() for _ in range(3)]
    for message in reversed(heard):
        far.says(message)
    thread.join()
    assert [one[0].tolist() for one in found[0]] == [content(0, block, 0, 1).tolist() for block in range(3)]


def test_a_peer_that_is_silent_or_gone_ends_all_lanes(task):
    def play(far, heard):
        far.near._timeout = 0.05
        far.says(heard[0])

    assert isinstance(answers(task, play), PeerTimeoutError)
    assert isinstance(answers(task, lambda far, _: far.outbox.put(None)), PeerGoneError)


@transports
def test_what_goes_wrong_in_one_block_ends_the_others(servers, both, kind):
    def work(channel, _lane, block):
        channel.exchange(block, "first", [np.zeros(4)])
        if block == 1 and channel.link is a:
            raise CheatingError("found out", "")
        channel.exchange(block, "second", [np.zeros(4)])

    with servers.link(kind) as (a, b):
        found = both(lambda: run_in_lanes(a, range(6), 3, work), lambda: run_in_lanes(b, range(6), 3, work))
        assert isinstance(found[0], CheatingError)
        assert isinstance(found[1], PeerGoneError)
        for end in (a, b):
            with pytest.raises(ChannelError):
                end.exchange(0, "after", [])


def test_a_link_that_is_cut_from_outside_ends_all_lanes(servers, both):
    def work(channel, _lane, block):
        channel.exchange(block, "first", [np.zeros(4)])
        if block == 0 and channel.link is a:
            a.abort()
        channel.exchange(block, "second", [np.zeros(4)])

    with servers.link("tls") as (a, b):
        found = both(lambda: run_in_lanes(a, range(6), 3, work), lambda: run_in_lanes(b, range(6), 3, work))
        assert all(isinstance(one, PeerGoneError) for one in found)
