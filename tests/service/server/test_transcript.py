"""The record of a run: what it lets pass, what it stops, and what it makes of a torn or damaged file."""

import errno
import os
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import CheatingError, ReplayError, StoreError
from sedml.mpc.channel import memory_pair
from sedml.mpc.channel.frame import make_frame
from sedml.service.server.run import transcript
from sedml.service.server.run.transcript import Transcript, begin, digest_of

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
TASK = bytes(16)
ENTRY = 80


@pytest.fixture
def path(tmp_path):
    begin(tmp_path / "job.task")
    return tmp_path / "job.task"


def frame(step, value, block=0):
    return make_frame(TASK, block, step, 0, [np.array([value], np.uint32)])


def message(step, value, block=0):
    return np.frombuffer(b"".join(frame(step, value, block).pieces(1 << 20)), np.uint8)


def say(record, *rounds, block=0):
    """Rounds of (step, what is sent, what comes)."""
    for step, sent, came in rounds:
        record.sends(frame(step, sent, block))
        record.receives(frame(step, sent, block), message(step, came, block))


ROUNDS = [("one", 1, 2), ("two", 3, 4), ("three", 5, 6)]


def test_the_same_may_be_said_again_and_again(path):
    for _ in range(3):
        with Transcript(path, KEY) as record:
            say(record, *ROUNDS)
    assert path.stat().st_size == 6 * ENTRY


def test_what_came_is_on_disk_before_the_next_word(path):
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS[:2])
        assert path.stat().st_size == 3 * ENTRY
        record.sends(frame("three", 5))
        assert path.stat().st_size == 5 * ENTRY


@pytest.mark.parametrize("changed", [0, 1])
def test_another_word_of_the_other_server_is_not_heard(path, changed):
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS)
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS[:changed])
        step, sent, _ = ROUNDS[changed]
        record.sends(frame(step, sent))
        with pytest.raises(CheatingError, match=f"changed what it had said at {step} of block 0"):
            record.receives(frame(step, sent), message(step, 99))


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_another_word_of_this_server_is_not_said(path, changed):
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS)
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS[:changed])
        with pytest.raises(ReplayError, match="would change what it had said"):
            record.sends(frame(ROUNDS[changed][0], 99))


def test_another_length_or_block_is_another_word(path):
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS)
        say(record, *ROUNDS, block=1)
    with Transcript(path, KEY) as record, pytest.raises(ReplayError):
        record.sends(make_frame(TASK, 0, "one", 0, [np.array([1], np.uint64)]))


def test_a_step_comes_once_in_a_run(path):
    with Transcript(path, KEY) as record:
        say(record, ROUNDS[0])
        with pytest.raises(ReplayError, match="a second time"):
            record.sends(frame("one", 1))


def test_a_channel_shows_it_everything_and_hears_it(path):
    ends = memory_pair(TASK)
    with Transcript(path, KEY) as record, ends[0].witnessed(record):
        ends[1]._outbox.put((message("one", 2), 0))
        assert ends[0].exchange(0, "one", [np.array([1], np.uint32)])[0] == [2]
    ends = memory_pair(TASK)
    with Transcript(path, KEY) as record, ends[0].witnessed(record):
        with pytest.raises(ReplayError):
            ends[0].exchange(0, "one", [np.array([7], np.uint32)])
        assert ends[1]._inbox.get() is None  # hung up, and nothing was sent


@given(torn=st.integers(1, 2 * ENTRY - 1), garbage=st.booleans())
def test_a_torn_write_is_as_if_it_had_not_been(tmp_path_factory, torn, garbage):
    path = tmp_path_factory.mktemp("torn") / "record"
    begin(path)
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-torn] + (b"\0" * torn if garbage else b""))
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS)
    assert path.read_bytes() == whole
    # What is whole still counts.
    with Transcript(path, KEY) as record, pytest.raises(ReplayError):
        record.sends(frame("one", 99))


@given(at=st.integers(0, 3 * ENTRY - 1))
def test_damage_that_no_crash_does_ends_the_job(tmp_path_factory, at):
    path = tmp_path_factory.mktemp("damaged") / "record"
    begin(path)
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS)
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ReplayError, match="damaged, or is of another run"):
        Transcript(path, KEY)


def test_a_record_under_another_key_is_of_another_run(path):
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS)
    with pytest.raises(ReplayError):
        Transcript(path, OTHER_KEY)


def test_without_a_record_a_run_does_not_go_on(path):
    path.unlink()
    with pytest.raises(ReplayError, match="is gone"):
        Transcript(path, KEY)


def test_two_processes_do_not_run_one_job(path):
    with Transcript(path, KEY), pytest.raises(StoreError, match="Another process"):
        Transcript(path, KEY)
    Transcript(path, KEY).close()


def test_nothing_is_said_if_it_cannot_be_written(path, monkeypatch):
    def full(_file, _content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Transcript(path, KEY) as record:
        say(record, ROUNDS[0])
        with monkeypatch.context() as patch:
            patch.setattr(transcript, "append", full)
            with pytest.raises(StoreError, match="No space left"):
                record.sends(frame("two", 3))
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS)


def test_a_short_write_is_no_write(path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda _file, content: len(content) - 1)
    with Transcript(path, KEY) as record, pytest.raises(StoreError, match="the disk is full"):
        record.sends(frame("one", 1))


def test_it_tells_nothing_of_what_was_said(path, tmp_path):
    """Short messages could be guessed; under another key they are on record as something else."""
    begin(tmp_path / "other")
    for place, key in ((path, KEY), (tmp_path / "other", OTHER_KEY)):
        with Transcript(place, key) as record:
            say(record, *ROUNDS)
    one, other = path.read_bytes(), (tmp_path / "other").read_bytes()
    for start in range(0, len(one), ENTRY):
        assert one[start : start + 37] == other[start : start + 37]
        assert one[start + 37 : start + ENTRY] != other[start + 37 : start + ENTRY]
    assert path.stat().st_mode & 0o077 == 0


def test_several_blocks_write_what_is_theirs(path):
    with Transcript(path, KEY) as record:
        for block in range(3):
            say(record, ROUNDS[0], block=block)
        assert path.stat().st_size == 3 * ENTRY
        record.sends(frame("two", 3, 1))
        assert path.stat().st_size == 5 * ENTRY
        record.keep()
        assert path.stat().st_size == 7 * ENTRY
    with Transcript(path, KEY) as record:
        for block in (2, 0, 1):
            say(record, ROUNDS[0], block=block)


def many_blocks(record, blocks):
    """A job of so many blocks; how many more bytes are in use after it than after its first tenth."""
    for block in blocks:
        if block == blocks[len(blocks) // 10]:
            before = tracemalloc.get_traced_memory()[0]
        say(record, *ROUNDS, block=block)
        record.leave(block)
    return tracemalloc.get_traced_memory()[0] - before


def test_memory_does_not_grow_with_the_blocks_of_a_job(path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _file: None)
    blocks = range(2000)
    tracemalloc.start()
    try:
        with Transcript(path, KEY) as record:
            assert many_blocks(record, blocks) < 50_000
        before = tracemalloc.get_traced_memory()[0]
        with Transcript(path, KEY) as record:
            assert tracemalloc.get_traced_memory()[0] - before < 500_000  # of 12,000 entries of 80 bytes
            assert many_blocks(record, blocks) < 50_000
    finally:
        tracemalloc.stop()
    assert path.stat().st_size == 6 * len(blocks) * ENTRY


def test_a_block_that_was_left_is_over(path):
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS, block=3)
        record.leave(3)
        assert path.stat().st_size == 6 * ENTRY
        with pytest.raises(ReplayError, match="a second time"):
            record.sends(frame("four", 1, 3))


def test_a_worker_comes_back_to_a_block_that_was_left_with_the_same_words_alone(path):
    with Transcript(path, KEY) as record:
        for block in (2, 3, 4):
            say(record, *ROUNDS, block=block)
            record.leave(block)
        size, said = path.stat().st_size, set()
        for step, sent, came in ROUNDS:
            place = frame(step, sent, 3).place
            record.says(place, digest_of(frame(step, sent, 3).pieces(0)), said)
            with pytest.raises(CheatingError, match="changed what it had said"):
                record.hears(place, digest_of([message(step, came + 1, 3).data]))
            record.hears(place, digest_of([message(step, came, 3).data]))
        with pytest.raises(ReplayError, match="would change"):
            record.says(frame("one", 1, 3).place, digest_of(frame("one", 9, 3).pieces(0)), set())
        record.leave(3)
        assert path.stat().st_size == size


def test_damage_done_while_a_run_is_under_way_ends_the_job(path):
    with Transcript(path, KEY) as record:
        say(record, *ROUNDS)
    with Transcript(path, KEY) as record:
        content = path.read_bytes()
        path.write_bytes(content[:ENTRY] + bytes(ENTRY) + content[2 * ENTRY :])
        with pytest.raises(ReplayError, match="damaged"):
            record.sends(frame("one", 1))


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=12),
    st.integers(0, 4),
    st.sampled_from(range(3)),
    st.integers(1, 5),
)
def test_whatever_was_left_in_whatever_order_binds_in_the_next_run(tmp_path_factory, blocks, changed, round_, at_once):
    """Blocks in any order, some of them left, entries read a few at a time: what is on record is what was said."""
    path = tmp_path_factory.mktemp("order") / "record"
    begin(path)
    said: dict[int, int] = {}
    with Transcript(path, KEY) as record:
        for block, until in blocks:
            begun = said.get(block, 0)
            if begun == 3:
                continue
            say(record, *ROUNDS[begun : begun + until], block=block)
            said[block] = min(3, begun + until)
            if said[block] == 3:
                record.leave(block)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transcript, "_AT_ONCE", at_once)
        with Transcript(path, KEY) as record:
            assert (path.stat().st_size == 0) == (not any(said.values()))
            for block in sorted(said, reverse=True):
                if block != changed:
                    say(record, *ROUNDS, block=block)
            step, sent, _ = ROUNDS[round_]
            if round_ < said.get(changed, 0):
                with pytest.raises(ReplayError):
                    record.sends(frame(step, sent + 1, changed))
            else:
                record.sends(frame(step, sent + 1, changed))
