"""Ballots: two halves give the votes, one gives nothing, and no ballot is more than one vote a sample."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sedml.aggregation.both_servers import ballot_loaders
from sedml.errors import SedmlError, ShareError
from sedml.mpc.bits import pack
from sedml.mpc.gadgets.tally import plan_tally, tally
from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.protocol import ballot_shape
from sedml.protocol import ballots as ballots_module
from sedml.protocol.ballots import cast, index_shares, paged_shares
from sedml.protocol.task import Block, Task
from sedml.protocol.votes import histogram
from support.harness import fixed_noises, fixed_seed, join_ring, numbers, run_whole_job, zero_parts
from support.made import run_made

WIDTH = 12


def make_task(classes=10, samples=37, teachers=5, threshold=2):
    return Task(classes, samples, teachers, threshold, 1.0, 1.0)


def random_votes(task: Task, key: int) -> np.ndarray:
    return numbers(key).integers(-1, task.classes, (task.teachers, task.samples))


def halves(ballots) -> tuple[list[bytes], list[bytes]]:
    return [ballot[0] for ballot in ballots], [ballot[1] for ballot in ballots]


def random_ballot(task: Task, key: int) -> tuple[bytes, bytes]:
    """Both halves nothing but random bytes of the right length."""
    sizes = task.ballot.sizes
    return numbers(key).bytes(sizes[0]), numbers(key + 1).bytes(sizes[1])


def counted(task: Task, ballots) -> np.ndarray:
    """The counts that the two servers arrive at, by the gadget itself."""
    block = Block(0, 0, task.samples)
    shares = [index_shares(role, half, task, block) for role, half in enumerate(halves(ballots))]
    needs = plan_tally("count", len(ballots), task.classes, task.samples, WIDTH)
    run = run_made(needs, lambda p: tally(p, "count", shares[p.role], task.classes, WIDTH))
    return join_ring(run.shares, WIDTH).astype(np.int64)


@st.composite
def blocks_of_tasks(draw):
    samples = draw(st.integers(1, 90))
    start = draw(st.integers(0, samples - 1))
    task = make_task(draw(st.integers(2, 40)), samples, draw(st.integers(1, 4)))
    return task, Block(3, start, draw(st.integers(start + 1, samples))), draw(st.sampled_from([8, 16, 4096]))


@given(case=blocks_of_tasks(), key=st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_two_halves_of_any_block_give_the_class_indices(case, key):
    task, block, page = case
    votes = random_votes(task, key)
    with pytest.MonkeyPatch.context() as patch:
        for module in (ballots_module, ballot_shape):
            patch.setattr(module, "PAGE", page)
        ballots = halves([cast(row, task.ballot) for row in votes])
        shares = [index_shares(role, ballots[role], task, block) for role in (0, 1)]
    indices = join_ring(tuple(shares), task.index_width)
    want = votes[:, block.start : block.stop]
    assert (indices == np.where(want < 0, task.classes, want)).all()


@given(case=blocks_of_tasks(), key=st.integers(0, 2**32 - 1), together=st.integers(1, 5))
@settings(max_examples=50)
def test_pages_of_some_ballots_at_a_time_give_the_same_shares(case, key, together):
    task, block, page = case
    with pytest.MonkeyPatch.context() as patch:
        for module in (ballots_module, ballot_shape):
            patch.setattr(module, "PAGE", page)
        for role, whole in enumerate(halves([cast(row, task.ballot) for row in random_votes(task, key)])):
            size, pages = task.ballot.page_bytes(role), task.ballot.pages(role, block.start, block.stop)
            cut = [half[pages.start * size : pages.stop * size] for half in whole]
            some = [cut[at : at + together] for at in range(0, len(cut), together)]
            assert np.array_equal(paged_shares(role, some, task, block), index_shares(role, whole, task, block))


@pytest.mark.parametrize("role", [0, 1])
def test_pages_of_more_or_fewer_ballots_or_of_other_sizes_are_refused(role):
    task, block = make_task(teachers=3), Block(0, 0, 8)
    half = cast(np.zeros(task.samples, np.int64), task.ballot)[role]
    for some in ([], [[half, half]], [[half, half], [half, half]]):
        with pytest.raises(ShareError, match="ballots for a task of 3 teachers"):
            paged_shares(role, some, task, block)
    with pytest.raises(ShareError, match=f"Ballot 2 for S{role}"):
        paged_shares(role, [[half, half], [half[:-1]]], task, block)


@pytest.mark.parametrize("samples", [1, 37, 4095, 4096, 4097, 9000])
def test_a_ballot_has_the_announced_size(samples):
    task = make_task(samples=samples)
    ballot = cast(np.zeros(samples, np.int64), task.ballot)
    assert tuple(len(half) for half in ballot) == task.ballot.sizes


def test_an_index_ballot_is_a_seed_and_four_bits_a_sample_for_ten_classes():
    task = make_task(samples=1000)
    assert task.ballot.sizes == (SEED_BYTES, 500)


@pytest.mark.parametrize("vote", [-1, 0, 9])
def test_the_half_for_s1_is_uniform_whatever_the_vote(vote, monkeypatch):
    monkeypatch.setattr(Seed, "random", lambda: fixed_seed(40))
    task = make_task(samples=1 << 15)
    _, half = cast(np.full(task.samples, vote), task.ballot)
    observed = np.bincount(np.frombuffer(half, np.uint8), minlength=256)
    assert 1e-4 < stats.chisquare(observed).pvalue < 1 - 1e-4


def test_the_same_votes_cast_twice_share_nothing():
    task = make_task(samples=200)
    one, other = (cast(np.zeros(200, np.int64), task.ballot) for _ in range(2))
    assert one[0] != other[0]
    assert one[1] != other[1]


@given(key=st.integers(0, 2**32 - 1), classes=st.integers(2, 40), attackers=st.integers(1, 3))
@settings(max_examples=30)
def test_random_bytes_are_at_most_one_vote_a_sample(key, classes, attackers):
    task = make_task(classes, teachers=20)
    votes = random_votes(task, key)
    honest = [cast(row, task.ballot) for row in votes[attackers:]]
    ballots = [*honest, *(random_ballot(task, key + 2 * i) for i in range(attackers))]
    gained = counted(task, ballots) - histogram(votes[attackers:], classes)
    assert (gained >= 0).all()
    assert (gained.sum(axis=0) <= attackers).all()


def test_every_bit_string_of_an_index_is_one_class_or_an_abstention():
    # Every share of S1 against a fixed share of S0: 16 strings for 10 classes.
    task = make_task(samples=16, teachers=1)
    seed = bytes(SEED_BYTES)
    strings = pack(np.arange(16, dtype=np.uint8), 4).tobytes()
    counts = counted(task, [(seed, strings)])
    assert set(counts.sum(axis=0).tolist()) <= {0, 1}
    assert counts.max() == 1


def labels_of(task: Task, ballots, counts: np.ndarray) -> np.ndarray:
    noises, _ = fixed_noises(task, counts, zero_parts(task.classes, task.samples))
    return run_whole_job(task, ballot_loaders(task, ballots), noises).labels


@pytest.mark.parametrize("key", range(5))
def test_one_stuffer_cannot_turn_an_index_majority(key):
    task = make_task(teachers=10, threshold=6)
    votes = np.zeros((9, task.samples), np.int64)
    ballots = [*(cast(row, task.ballot) for row in votes), random_ballot(task, key)]
    assert (labels_of(task, ballots, histogram(votes, task.classes)) == 0).all()


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("change", ["empty", "truncated", "too long"])
def test_a_share_of_the_wrong_length_is_refused(role, change):
    task = make_task(teachers=3)
    ballots = [cast(row, task.ballot) for row in random_votes(task, 1)]
    half = ballots[1][role]
    wrong = {"empty": b"", "truncated": half[:-1], "too long": half + b"\0"}[change]
    mixed = list(ballots[1])
    mixed[role] = wrong
    ballots[1] = tuple(mixed)
    with pytest.raises(ShareError, match=f"Ballot 1 for S{role} has {len(wrong)} bytes, not {len(half)}"):
        index_shares(role, halves(ballots)[role], task, Block(0, 0, 8))
    # The job as a whole says the same, whichever server found out.
    noises, _ = fixed_noises(task, np.zeros((10, task.samples), int), zero_parts(10, task.samples))
    with pytest.raises(ShareError, match=f"S{role}"):
        run_whole_job(task, ballot_loaders(task, ballots), noises)


@pytest.mark.parametrize("submitted", [0, 2, 40])
def test_more_or_fewer_ballots_than_teachers_are_refused(submitted):
    task = make_task(teachers=3)
    ballots = [cast(np.full(task.samples, 3), task.ballot) for _ in range(submitted)]
    noises, _ = fixed_noises(task, np.zeros((10, task.samples), int), zero_parts(10, task.samples))
    with pytest.raises(ShareError):
        run_whole_job(task, ballot_loaders(task, ballots), noises)


@pytest.mark.parametrize("votes", [[3], [3, 3], [10] * 37, [17] * 37], ids=["one", "two", "ten", "seventeen"])
def test_votes_that_do_not_fit_the_task_are_not_cast(votes):
    with pytest.raises(SedmlError):
        cast(np.array(votes), make_task())
