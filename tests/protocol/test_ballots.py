"""Ballots: both servers come to one name for a right one, to two for a wrong one, and count what was voted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import BallotError, PredictionsError, RingError, ShareError, TaskError
from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.privacy.unit import MAX_VOTES
from sedml.protocol.ballots import PAGE, BallotShape, add_up, cast, examine, kept_bytes, to_ring
from sedml.protocol.ballots import casting as casting_module
from sedml.protocol.ballots.casting import share
from sedml.protocol.ballots.field import P
from sedml.protocol.ballots.shape import MAX_CLASSES, MAX_RING_WIDTH, PageShape
from support.harness import fixed_seed, numbers

JOB, TEACHER = b"job of sixteen b", "hospital"
VECTORS = Path(__file__).parent / "vectors" / "ballots.json"


def some_votes(shape: BallotShape, key: int) -> np.ndarray:
    return numbers(key).integers(-1, shape.classes, (shape.votes, shape.samples))


def cast_here(votes, shape, key=1, job=JOB, teacher=TEACHER):
    return cast(votes, shape, job, teacher, fixed_seed(key))


def names(halves, shape, job=JOB, teacher=TEACHER) -> list[bytes]:
    return [examine(role, halves[role], shape, job, teacher).name for role in (0, 1)]


def agree(halves, shape, **context) -> bool:
    one, other = names(halves, shape, **context)
    return one == other


def counted(shape: BallotShape, ballots, width: int) -> np.ndarray:
    """What both servers together have after adding up: int[N, Q]."""
    shares = []
    for role in (0, 1):
        kept = [examine(role, ballot.halves[role], shape, JOB, TEACHER).pages for ballot in ballots]
        sums = [add_up(role, [pages[i] for pages in kept], shape.page(i)) for i in range(shape.page_count)]
        shares.append(np.concatenate([to_ring(role, one, width) for one in sums], axis=1).astype(np.int64))
    return (shares[0] + shares[1]) % (1 << width)


def count_of(votes, classes) -> np.ndarray:
    return (votes[:, np.newaxis] == np.arange(classes)[:, np.newaxis]).sum(axis=0)


# What is right


@settings(max_examples=60)
@given(st.integers(1, 80), st.integers(2, 100), st.integers(1, 6), st.integers(0, 2**32))
def test_both_servers_come_to_the_name_and_the_count(samples, classes, votes, key):
    shape = BallotShape(samples, classes, votes)
    cast_votes = [some_votes(shape, key + k) for k in range(3)]
    ballots = [cast_here(one, shape, key % 1000 + k) for k, one in enumerate(cast_votes)]
    for ballot in ballots:
        assert tuple(map(len, ballot.halves)) == shape.sizes
        assert names(ballot.halves, shape) == [ballot.name] * 2
    found = counted(shape, ballots, 12)
    assert (found == sum(count_of(one, classes) for one in cast_votes)).all()


@pytest.mark.parametrize("samples", [PAGE - 1, PAGE, PAGE + 1, 5000])
def test_pages_are_proved_each_and_counted_together(samples):
    shape = BallotShape(samples, 3)
    votes = [some_votes(shape, k) for k in range(2)]
    ballots = [cast_here(one, shape) for one in votes]
    assert shape.page_count == -(-samples // PAGE)
    assert (counted(shape, ballots, 16) == sum(count_of(one, 3) for one in votes)).all()
    assert agree(ballots[0].halves, shape)


def test_a_lost_answer_is_repeated_with_the_same_bytes_and_other_votes_get_other_randomness():
    shape = BallotShape(20, 4)
    votes = some_votes(shape, 1)
    assert cast_here(votes, shape) == cast_here(votes, shape)
    changed = votes.copy()
    changed[0, 3] = (changed[0, 3] + 1) % 4
    one = cast_here(votes, shape)
    others = [
        cast_here(changed, shape),
        cast_here(votes, shape, key=2),
        cast_here(votes, shape, job=b"another job"),
        cast_here(votes, shape, teacher="clinic"),
        cast_here(votes[:, :19], BallotShape(19, 4)),
        cast_here(votes, BallotShape(20, 5)),
    ]
    seeds = {ballot.halves[role][:SEED_BYTES] for ballot in (one, *others) for role in (0, 1)}
    assert len(seeds) == 2 * (1 + len(others))


def test_another_release_gets_other_randomness(monkeypatch):
    shape = BallotShape(5, 3)
    before = cast_here(some_votes(shape, 1), shape)
    monkeypatch.setattr(casting_module, "RELEASE", 2)
    assert cast_here(some_votes(shape, 1), shape).halves[0][:SEED_BYTES] != before.halves[0][:SEED_BYTES]


def test_no_repr_shows_a_half():
    ballot = cast_here(some_votes(BallotShape(3, 2), 1), BallotShape(3, 2))
    examined = examine(0, ballot.halves[0], BallotShape(3, 2), JOB, TEACHER)
    for secret in (ballot.halves[0][:32], ballot.halves[1][:32]):
        assert repr(secret)[2:20] not in repr(ballot) + repr(examined)


@pytest.mark.parametrize(
    "votes",
    [
        np.zeros((1, 4), int),
        np.zeros(5, int),
        np.full((1, 5), 3),
        np.full((1, 5), -2),
        np.zeros((2, 5), int),
        # These would be shared as other votes than those that their randomness is drawn for.
        np.array([[0, -0.5, 1, 0.5, np.nan]]),
        np.ma.masked_array(np.zeros((1, 5), int), [[0, 1, 0, 0, 0]]),
        np.zeros((1, 5), bool),
    ],
)
def test_votes_that_are_none_are_not_cast(votes):
    with pytest.raises(PredictionsError, match="A ballot needs 1 x 5 votes"):
        cast_here(votes, BallotShape(5, 3))


@pytest.mark.parametrize(
    "wrong",
    [(0, 2, 1), (5, 1, 1), (5, 2, 0), (5, 2, MAX_VOTES + 1), (5, MAX_CLASSES + 1, 1), (True, 2, 1), (5.0, 2, 1)],
)
def test_shapes_that_are_none_are_refused(wrong):
    with pytest.raises(TaskError, match="A ballot cannot have"):
        BallotShape(*wrong)


def test_no_row_of_votes_can_wrap_and_numbers_of_numpy_are_numbers():
    assert MAX_CLASSES * MAX_VOTES < P
    assert BallotShape(np.int64(6), np.int32(3)) == BallotShape(6, 3)


def test_names_of_teachers_that_look_alike_in_another_spelling_are_two():
    shape = BallotShape(3, 2)
    with pytest.raises(UnicodeEncodeError):
        cast_here(some_votes(shape, 1), shape, teacher="\ud83d\ude00")


# What is wrong


def wrong_halves(shape: BallotShape, rows: np.ndarray, key: int = 1) -> tuple[bytes, bytes]:
    """What a teacher sends that shares other numbers than votes, with the best proof that there is of them."""
    context = casting_module.page_context(shape, JOB, TEACHER, 0)
    x = np.ascontiguousarray(rows % P, np.uint32).reshape(-1)
    return share(x, shape.page(0), context, fixed_seed(key), fixed_seed(key + 1))[1:]


@pytest.mark.parametrize("value", [2, -1, (P + 1) // 2, 1000])
def test_wrong_votes_get_two_names(value):
    shape, rows = BallotShape(12, 5), np.eye(5, dtype=np.int64)[np.arange(12) % 5]
    assert agree(wrong_halves(shape, rows), shape)
    rows[3, 3] = value
    assert not agree(wrong_halves(shape, rows), shape)


def test_every_bit_counts():
    shape = BallotShape(3, 2)
    ballot = cast_here(some_votes(shape, 1), shape)
    for role in (0, 1):
        for place in range(len(ballot.halves[role])):
            changed = bytearray(ballot.halves[role])
            changed[place] ^= 1 << place % 7
            try:
                found = examine(role, bytes(changed), shape, JOB, TEACHER).name
            except BallotError:
                continue
            assert found != ballot.name


def test_a_half_for_another_job_teacher_shape_or_page_has_another_name():
    shape = BallotShape(12, 5)
    ballot = cast_here(some_votes(shape, 1), shape)
    for context in ({"job": b"another job"}, {"teacher": "clinic"}):
        assert ballot.name not in names(ballot.halves, shape, **context)
        assert not agree(ballot.halves, shape, **context)
    same = PageShape(20, 3, 1), PageShape(12, 5, 1)
    assert same[0].entries == same[1].entries
    two = BallotShape(2 * PAGE, 2)
    ballot = cast_here(some_votes(two, 1), two)
    turned = [half[len(half) // 2 :] + half[: len(half) // 2] for half in ballot.halves]
    assert ballot.name not in names(turned, two)
    assert not agree(turned, two)


def test_halves_and_proofs_of_two_ballots_do_not_fit():
    shape = BallotShape(12, 5)
    votes = some_votes(shape, 1)
    one, other = (cast_here(votes, shape, key).halves for key in (1, 2))
    cut = len(one[1]) - 4 * shape.page(0).entries
    moved = np.frombuffer(one[1][cut:], np.uint32).reshape(12, 5)[np.r_[1, 0, 2:12]].tobytes()
    for halves in (
        (one[0], other[1]),
        (one[0], other[1][:cut] + one[1][cut:]),
        (one[0], one[1][:cut] + other[1][cut:]),
        (one[0], one[1][:cut] + moved),
    ):
        assert not agree(halves, shape)


@pytest.mark.parametrize("role", [0, 1])
def test_sizes_and_numbers_are_checked(role):
    shape = BallotShape(12, 5)
    half = cast_here(some_votes(shape, 1), shape).halves[role]
    for wrong in (half[:-1], half + b"\0", b""):
        with pytest.raises(BallotError, match="size"):
            examine(role, wrong, shape, JOB, TEACHER)
    same = int.from_bytes(half[-4:], "little") + P  # the same number, written in another way
    for last in (b"\xff" * 4, (P).to_bytes(4, "little"), same.to_bytes(4, "little")):
        with pytest.raises(BallotError, match="not in its field"):
            examine(role, half[:-4] + last, shape, JOB, TEACHER)


def test_a_point_without_masks_is_refused(monkeypatch):
    """Where z lies in the smaller field, what a teacher tells would show votes: it must not be told, nor taken."""
    from sedml.protocol.ballots import page

    real = page.draw
    inside = np.array([5, 0, 7, 0], np.uint32)
    monkeypatch.setattr(page, "draw", lambda seed, label, count: inside if label == "z" else real(seed, label, count))
    with pytest.raises(BallotError, match="masks do not hide"):
        cast_here(some_votes(BallotShape(3, 2), 1), BallotShape(3, 2))


# Into the ring


@pytest.mark.parametrize("width", [1, 8, 12, 16, MAX_RING_WIDTH])
def test_one_vote_moves_a_count_by_one_or_by_none(width):
    """Wherever the sum of all other shares is, and whoever chose it."""
    edges = np.r_[0:300, P - 300 : P, numbers(1).integers(0, P, 1000)].astype(np.uint32)[:, np.newaxis]
    for role in (0, 1):
        before, after = to_ring(role, edges, width), to_ring(role, (edges + np.uint32(1)) % np.uint32(P), width)
        moved = (after.astype(np.int64) - before) % (1 << width)
        assert set(moved.reshape(-1).tolist()) <= {0, 1}


def test_a_count_is_right_or_one_short_as_often_as_it_is_said():
    counts, short = np.arange(251), 0
    for share0 in np.r_[0:400, P - 400 : P]:
        shares = np.full(251, share0), (counts - share0) % P
        ring = sum(
            to_ring(role, one.astype(np.uint32)[:, np.newaxis], 16)[0].astype(int) for role, one in enumerate(shares)
        )
        wrong = (ring % 65536 != counts).nonzero()[0]
        assert (ring[wrong] % 65536 == (counts[wrong] - 1) % 65536).all()
        short += len(wrong)
    assert short == 251 * 252 // 2  # n + 1 of all p places of a share, for each n


@pytest.mark.parametrize("width", [0, MAX_RING_WIDTH + 1])
def test_rings_that_do_not_fit_the_field_are_refused(width):
    with pytest.raises(RingError):
        to_ring(0, np.zeros((1, 2), np.uint32), width)


@pytest.mark.parametrize("role", [0, 1])
def test_a_page_that_lost_bytes_in_the_store_is_not_added(role):
    page = PageShape(3, 2, 1)
    for size in (0, kept_bytes(role, page) - 1, kept_bytes(role, page) + 1):
        with pytest.raises(ShareError):
            add_up(role, [bytes(size)], page)


# Vectors


def vector(samples: int, classes: int, votes: int, key: int) -> dict:
    shape = BallotShape(samples, classes, votes)
    given_votes = some_votes(shape, key)
    ballot = cast(given_votes, shape, JOB, TEACHER, Seed(bytes([key]) * 32))
    return {
        "samples": samples,
        "classes": classes,
        "votes_of_a_teacher": votes,
        "secret": (bytes([key]) * 32).hex(),
        "job": JOB.hex(),
        "teacher": TEACHER,
        "votes": given_votes.tolist(),
        "name": ballot.name.hex(),
        "halves": [half.hex() for half in ballot.halves],
    }


def named_or_refused(shape: BallotShape, halves) -> list[str]:
    found = []
    for role in (0, 1):
        try:
            found.append(examine(role, halves[role], shape, JOB, TEACHER).name.hex())
        except BallotError:
            found.append("refused")
    return found


def test_vectors():
    """Whoever writes another client finds here what it must send, and what a server must not take."""
    document = json.loads(VECTORS.read_text())
    for good in document["good"]:
        shape = BallotShape(good["samples"], good["classes"], good["votes_of_a_teacher"])
        context = bytes.fromhex(good["job"]), good["teacher"]
        ballot = cast(np.array(good["votes"]), shape, *context, Seed(bytes.fromhex(good["secret"])))
        assert ballot.name.hex() == good["name"]
        assert [half.hex() for half in ballot.halves] == good["halves"]
        for role in (0, 1):
            assert examine(role, ballot.halves[role], shape, *context).name == ballot.name
    for bad in document["bad"]:
        shape = BallotShape(bad["samples"], bad["classes"], bad["votes_of_a_teacher"])
        found = named_or_refused(shape, [bytes.fromhex(half) for half in bad["halves"]])
        assert found == bad["names"], bad["why"]
        assert found[0] != found[1] or "refused" in found, bad["why"]
