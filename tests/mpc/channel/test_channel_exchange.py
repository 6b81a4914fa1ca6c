"""What a round does, on both transports: contents, counts, mismatches, errors."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sedml.errors import ChannelError, FrameMismatchError, InputError, PeerGoneError, PeerTimeoutError
from sedml.mpc.channel import Traffic, base, memory_pair
from sedml.mpc.channel.frame import HEADER_SIZE

transports = pytest.mark.parametrize("kind", ["memory", "tls"])
dtypes = st.sampled_from(["u1", "u2", "u4", "u8", "i8", "?", "f4", ">u4"])
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=70)


@st.composite
def pairs_of_arrays(draw):
    """Lists of arrays of the same layout for the two ends, some of them views with gaps."""
    ours, theirs = [], []
    for _ in range(draw(st.integers(0, 4))):
        dtype, shape = np.dtype(draw(dtypes)), draw(shapes)
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        view = draw(st.sampled_from(["plain", "transposed", "stepped", "reversed", "read-only"]))
        for arrays in (ours, theirs):
            array = rng.integers(0, 2, (*shape, 2)).astype(dtype)[..., 0]
            if view == "plain":
                array = np.array(array, order="C")
            elif view == "transposed":
                array = np.asfortranarray(array).T
            elif view == "stepped" and array.ndim:
                array = array[::3]
            elif view == "reversed" and array.ndim:
                array = array[::-1]
            elif view == "read-only":
                array.flags.writeable = False
            arrays.append(array)
    return ours, theirs


@transports
@settings(max_examples=40, deadline=None)
@given(arrays=pairs_of_arrays())
def test_each_end_gets_the_others_arrays(servers, both, kind, arrays):
    ours, theirs = arrays
    with servers.link(kind) as (a, b):
        got = both(lambda: a.exchange(7, "step", ours), lambda: b.exchange(7, "step", theirs))
        for received, sent in zip(got, (theirs, ours), strict=True):
            assert len(received) == len(sent)
            for found, expected in zip(received, sent, strict=True):
                assert found.dtype == expected.dtype
                assert found.shape == expected.shape
                assert found.flags.writeable
                assert found.flags.aligned
                np.testing.assert_array_equal(found, expected)
        size = HEADER_SIZE + sum(array.nbytes for array in ours)
        assert a.traffic == b.traffic == Traffic(1, size, size)


@transports
def test_32_megabytes_each_way_at_once(servers, both, kind):
    with servers.link(kind) as (a, b):
        ones = np.full(1 << 22, 2**64 - 1, np.uint64)
        zeros = np.zeros(1 << 22, np.uint64)
        from_b, from_a = both(lambda: a.exchange(0, "big", [ones]), lambda: b.exchange(0, "big", [zeros]))
        np.testing.assert_array_equal(from_b[0], zeros)
        np.testing.assert_array_equal(from_a[0], ones)


@transports
def test_many_rounds_of_all_sizes_stay_in_step(servers, both, kind):
    sizes = [0, 1, 8191, 8192, 2, 100_000, 0, 1_000_000, 3] * 5

    def play(channel, me):
        for block, size in enumerate(sizes):
            sent = [np.full(3, me, np.uint8), np.full(size, me + block, np.uint64)]
            small, large = channel.exchange(block, "step", sent)
            assert (small == 1 - me).all()
            assert (large == 1 - me + block).all()

    with servers.link(kind) as (a, b):
        assert both(lambda: play(a, 0), lambda: play(b, 1)) == [None, None]
        total = sum(HEADER_SIZE + 3 + 8 * size for size in sizes)
        assert a.traffic == b.traffic == Traffic(len(sizes), total, total)


@transports
def test_what_was_sent_and_received_share_no_memory(servers, both, kind):
    with servers.link(kind) as (a, b):
        sent = [np.zeros(8, np.uint8), np.zeros(8, np.uint8)]
        from_b, _ = both(lambda: a.exchange(0, "x", sent), lambda: b.exchange(0, "x", sent))
        from_b[0][:] = 1
        assert not sent[0].any()
        assert not from_b[1].any()


def test_traffic_adds_and_subtracts():
    assert Traffic(3, 30, 31) - Traffic(1, 10, 10) == Traffic(2, 20, 21)
    assert Traffic(3, 30, 31) + Traffic(1, 10, 10) == Traffic(4, 40, 41)


@transports
@pytest.mark.parametrize("size", [0, 100, 8_000_000])
@pytest.mark.parametrize(
    ("block", "step", "extra", "words"),
    [
        (2, "step", 0, ["block 1", "block 2"]),
        (1, "other", 0, ["step 'step'", "step 'other'"]),
        (1, "step", 8, ["length", "bytes"]),
        (2, "other", 8_000_000, ["block 1", "step 'other'", "length"]),
    ],
)
def test_both_ends_notice_a_mismatch(servers, both, kind, size, block, step, extra, words):
    with servers.link(kind) as (a, b):
        errors = both(
            lambda: a.exchange(1, "step", [np.full(size, 65, np.uint8)]),
            lambda: b.exchange(block, step, [np.full(size + extra, 66, np.uint8)]),
        )
        for error in errors:
            assert type(error) is FrameMismatchError
            assert "AAA" not in str(error)
            assert "BBB" not in str(error)
        for word in words:
            assert word in str(errors[0])
            assert word in str(errors[1])
        assert a.traffic == b.traffic == Traffic()
        for end in (a, b):
            with pytest.raises(ChannelError, match="closed"):
                end.exchange(1, "step", [])


@transports
def test_both_ends_notice_another_task(servers, both, kind, task):
    with servers.link(kind, tasks=(task, task[::-1])) as (a, b):
        errors = both(lambda: a.exchange(0, "x", []), lambda: b.exchange(0, "x", []))
        assert [type(error) for error in errors] == [FrameMismatchError] * 2
        assert task.hex() in str(errors[0])
        assert task[::-1].hex() in str(errors[0])


@transports
def test_both_ends_notice_another_delay(servers, both, kind):
    with servers.link(kind, delays=(0.0, 0.001)) as (a, b):
        data = [np.zeros(1000)]
        errors = both(lambda: a.exchange(0, "x", data), lambda: b.exchange(0, "x", data))
        assert [type(error) for error in errors] == [FrameMismatchError] * 2
        assert "delay 1000 us" in str(errors[0])


@transports
def test_a_closed_peer_is_noticed_at_once(servers, kind):
    with servers.link(kind) as (a, b):
        b.close()
        b.close()
        with pytest.raises(PeerGoneError):
            a.exchange(0, "x", [np.zeros(10)])
        with pytest.raises(ChannelError, match="closed"):
            a.exchange(0, "x", [])


@transports
def test_a_peer_that_leaves_after_its_last_round_takes_nothing_with_it(servers, both, kind):
    data = [np.arange(200_000)]

    def last(channel):
        with channel:
            return channel.exchange(0, "last", data)

    with servers.link(kind) as (a, b):
        for (received,) in both(lambda: last(a), lambda: last(b)):
            np.testing.assert_array_equal(received, data[0])


@transports
@pytest.mark.parametrize("size", [10, 4_000_000])
def test_a_silent_peer_times_out(servers, kind, size):
    with servers.link(kind, timeout=0.2) as (a, _), pytest.raises(PeerTimeoutError, match=r"0\.2 s"):
        a.exchange(0, "x", [np.zeros(size)])


@transports
@pytest.mark.parametrize("size", [1, 300_000])
def test_delay_is_one_way_latency(servers, both, kind, size, monkeypatch):
    """So long that what is left of it when a message comes says nothing of how busy the machine is."""
    rounds, delay, held = 6, 3600.0, []
    monkeypatch.setattr(base, "time", SimpleNamespace(monotonic_ns=time.monotonic_ns, sleep=held.append))

    def play(channel):
        for block in range(rounds):
            channel.exchange(block, "x", [np.full(size, block, np.uint8)])

    with servers.link(kind, delays=(delay, delay)) as (a, b):
        assert both(lambda: play(a), lambda: play(b)) == [None, None]
        assert len(held) == 2 * rounds
        assert all(delay / 2 < seconds <= delay for seconds in held)
        assert a.traffic == Traffic(rounds, rounds * (HEADER_SIZE + size), rounds * (HEADER_SIZE + size))


@transports
@pytest.mark.parametrize(
    ("block", "step", "arrays"),
    [
        (0, "", []),
        (0, "x" * 33, []),
        (0, "käse", []),
        (0, "a\nb", []),
        (-1, "x", []),
        (2**32, "x", []),
        (0, "x", [np.array([None])]),
    ],
)
def test_what_cannot_be_sent_is_refused(servers, kind, block, step, arrays):
    with servers.link(kind) as (a, b):
        with pytest.raises(InputError):
            a.exchange(block, step, arrays)
        with pytest.raises(PeerGoneError):
            b.exchange(0, "x", [])


@transports
def test_the_largest_block_and_longest_step_go_through(servers, both, kind):
    with servers.link(kind) as (a, b):
        ends = [lambda end=end: end.exchange(2**32 - 1, "x" * 32, []) for end in (a, b)]
        assert both(*ends) == [[], []]


@pytest.mark.parametrize("bad", [b"", bytes(15), bytes(17)])
def test_a_task_id_has_16_bytes(bad):
    with pytest.raises(InputError, match="16 bytes"):
        memory_pair(bad)


@pytest.mark.parametrize("bad", [0, -1, float("inf"), float("nan")])
def test_a_timeout_is_positive(task, bad):
    with pytest.raises(InputError, match="time-out"):
        memory_pair(task, timeout=bad)


@pytest.mark.parametrize("bad", [-1e-3, 1e9, float("nan")])
def test_a_delay_is_not_negative(task, bad):
    with pytest.raises(InputError, match="delay"):
        memory_pair(task, delay=bad)
