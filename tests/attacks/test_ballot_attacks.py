"""Attacks on ballots: each succeeds on a design that is a little weaker, and gets nothing from the one there is."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pytest

from sedml.errors import BallotError
from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.protocol.ballots import PAGE, BallotShape, add_up, cast, casting, counting, examine, page, to_ring
from sedml.protocol.ballots.casting import page_context, share
from sedml.protocol.ballots.field import P, draw
from sedml.protocol.ballots.page import digest, votes_of
from sedml.protocol.ballots.shape import HASH_BYTES, MASKS
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.votes import histogram
from sedml.service.server.access import Caller
from sedml.service.server.run import meeting
from sedml.service.terms import task_of
from support.ballot_guess import other_masks
from support.deployment import accept_ballot, closed_job, fetch_labels, make_ballot, open_job, recorded_noise, status
from support.harness import fixed_seed, numbers
from support.rogue import cheat
from support.tiers import ROLES

JOB, TEACHER = b"job of sixteen b", "hospital"
SMALL = BallotShape(1, 3)
GUESSES = range(-1, 3)


def row_of(vote: int, classes: int = 3) -> np.ndarray:
    return (np.arange(classes) == vote).astype(np.uint32)


def cast_one(vote: int, key: int = 1, job: bytes = JOB, teacher: str = TEACHER):
    return cast(np.array([[vote]]), SMALL, job, teacher, fixed_seed(key))


# ---- Guess a vote, shift the share, and watch ---------------------------------------------------------------------


def sketch_passes(vote: int, guess: int, rng: np.random.Generator) -> bool:
    """The weaker design: the servers open <r, x>^2 - <r r, x> of their shares, while S1 moves a vote in its share."""
    r, first = ([int(value) for value in rng.integers(0, P, 3)] for _ in range(2))
    second = [(int(one) - other) % P for one, other in zip(row_of(vote), first, strict=True)]
    second[guess] -= 1
    second[(guess + 1) % 3] += 1
    x = [one + other for one, other in zip(first, second, strict=True)]
    inner = sum(a * b for a, b in zip(r, x, strict=True))
    return (inner * inner - sum(a * a * b for a, b in zip(r, x, strict=True))) % P == 0


@pytest.mark.parametrize("vote", range(3))
@pytest.mark.parametrize("guess", range(3))
def test_a_guessed_vote_that_is_moved_tells_nothing(vote, guess):
    assert sketch_passes(vote, guess, numbers(5)) == (vote == guess)
    ballot = cast_one(vote)
    moved = np.frombuffer(ballot.halves[1][-12:], "<u4").astype(np.int64)
    moved[guess] -= 1
    moved[(guess + 1) % 3] += 1
    shifted = ballot.halves[1][:-12] + (moved % P).astype("<u4").tobytes()
    # The other server computes what it computes from its own half, and the cheat knows that beforehand. Its shifted
    # half has another name, also where the guess is right.
    assert examine(0, ballot.halves[0], SMALL, JOB, TEACHER).name == ballot.name
    assert examine(1, shifted, SMALL, JOB, TEACHER).name != ballot.name


# ---- Steer the other server's sum to the edge of the field --------------------------------------------------------


def moved_by_a_vote(p: int, width: int) -> int:
    """The weaker design: any prime p. S0 knows its share a of a vote v; its friend gives S1 a share of a - 1."""
    a = 123_456_789
    rings = [((vote - a) % p + (a - 1) % p) % p % (1 << width) for vote in (0, 1)]
    return (rings[1] - rings[0]) % (1 << width)


@pytest.mark.parametrize("cheat_role", ROLES)
@pytest.mark.parametrize("width", [8, 12, 24])
def test_a_vote_at_the_edge_of_the_field_counts_once_or_not_at_all(cheat_role, width):
    assert moved_by_a_vote(2**31 - 1, width) == 2
    assert moved_by_a_vote(2_147_450_861, 16) > 30_000
    honest, shape = 1 - cheat_role, SMALL.page(0)
    for place in (-2, -1, 0, 1, 2):
        found = []
        for vote in (-1, 0):
            victim = cast_one(vote)
            kept = [examine(role, victim.halves[role], SMALL, JOB, TEACHER).pages[0] for role in (0, 1)]
            # The cheat knows its own share of the victim's votes, and so what the honest server has of an abstention.
            known = add_up(cheat_role, [kept[cheat_role]], shape)[0].astype(np.int64)
            aimed = (known + place) % P
            # The cheat says yes to whatever name this has: its friend may send the honest server any share at all.
            if honest == 1:
                x = ((aimed + votes_of(fixed_seed(7), shape)) % P).astype(np.uint32)
                _, *friend = share(x, shape, b"friend", fixed_seed(7), fixed_seed(8))
                more = friend[1][-4 * shape.entries :]
                sums = add_up(1, [kept[1], more], shape)
            else:  # S0's share comes from a seed; what a seed cannot be steered to is put in here all the same
                sums = ((add_up(0, [kept[0]], shape) + aimed) % P).astype(np.uint32)
            found.append(int(to_ring(honest, sums, width)[0, 0]))
        assert (found[1] - found[0]) % (1 << width) in (0, 1)


# ---- The same randomness twice ------------------------------------------------------------------------------------


def masks_of_the_secret_alone(secret: Seed, challenge) -> np.ndarray:
    """The weaker design: masks that do not differ with the challenge."""
    return draw(secret, "masks", MASKS * challenge.shape.wires).reshape(MASKS, -1)


def votes_that_fit(role: int, vote: int) -> list[int]:
    """Two uploads of one vote from the same seeds, for two jobs: guesses for which both show the same masks."""
    shape, uploads = SMALL.page(0), []
    for job in (JOB, bytes(16)):
        context = page_context(SMALL, job, TEACHER, 0)
        part = share(row_of(vote), shape, context, fixed_seed(1), fixed_seed(2))[1 + role]
        uploads.append([other_masks(role, part, shape, context, row_of(guess)) for guess in GUESSES])
    return [guess for guess, one, other in zip(GUESSES, *uploads, strict=True) if np.array_equal(one, other)]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("vote", GUESSES)
def test_two_uploads_from_one_secret_show_no_vote(role, vote, monkeypatch):
    with monkeypatch.context() as patch:
        for module in (casting, page):
            patch.setattr(module, "masks_of", masks_of_the_secret_alone)
        assert votes_that_fit(role, vote) == [vote]
    # Masks differ with the challenge, even if a teacher's seeds were the same.
    assert votes_that_fit(role, vote) == []


def test_a_teacher_has_no_seed_in_common_for_two_purposes():
    """The weaker design has one seed for a job: S1 then sees which votes were changed, and to what."""
    shape = SMALL.page(0)
    for one, other in ((0, 1), (0, -1)):
        x1 = [(row_of(vote).astype(np.int64) - votes_of(fixed_seed(1), shape)) % P for vote in (one, other)]
        difference = (x1[1] - x1[0]) % P
        assert np.array_equal(difference, (row_of(other).astype(np.int64) - row_of(one)) % P)
    ballots = [cast_one(0), cast_one(1), cast_one(0, job=bytes(16)), cast_one(0, teacher="other")]
    for role in (0, 1):
        secrets = {ballot.halves[role][:SEED_BYTES] for ballot in ballots}
        assert len(secrets) == len(ballots)
    shares = [np.frombuffer(ballot.halves[1][-12:], "<u4").astype(np.int64) for ballot in ballots]
    assert all(((one - shares[0]) % P > 1).all() for one in shares[1:])


# ---- Votes tried against a commitment -----------------------------------------------------------------------------


@pytest.mark.parametrize("vote", GUESSES)
def test_a_commitment_does_not_tell_which_votes_it_is_for(vote):
    half0, half1 = cast_one(vote).halves
    shape, committed = SMALL.page(0), half0[SEED_BYTES : SEED_BYTES + HASH_BYTES]
    mine = votes_of(Seed(half0[:SEED_BYTES]), shape)
    tried = {guess: ((row_of(guess).astype(np.int64) - mine) % P).astype(np.uint32) for guess in GUESSES}
    without_blind = hashlib.sha256(half1[-12:]).digest()
    assert [guess for guess, x1 in tried.items() if hashlib.sha256(x1.tobytes()).digest() == without_blind] == [vote]
    # With the blind, S0 would have to know 32 more bytes, of which it has nothing.
    assert digest("c1", half1[:SEED_BYTES], tried[vote]) == committed
    for known in (bytes(32), half0[:SEED_BYTES], digest("c0", half0[:SEED_BYTES])):
        assert all(digest("c1", known, x1) != committed for x1 in tried.values())


# ---- A half in another's place ------------------------------------------------------------------------------------


def taken(halves, shape: BallotShape, job: bytes, teacher: str) -> bool:
    """Whether both servers come to one name."""
    one, other = (examine(role, halves[role], shape, job, teacher).name for role in (0, 1))
    return one == other


def swapped_pages(ballot, shape: BallotShape) -> tuple[bytes, bytes]:
    parts = []
    for role, half in enumerate(ballot.halves):
        size = shape.page(0).sizes[role]
        parts.append(half[size:] + half[:size])
    return parts[0], parts[1]


def swapped_samples(ballot, shape: BallotShape) -> tuple[bytes, bytes]:
    """S0's share comes from a seed, so this can only be tried at S1."""
    half, size = ballot.halves[1], 4 * shape.classes
    head, rows = half[: -2 * size], half[-2 * size :]
    return ballot.halves[0], head + rows[size:] + rows[:size]


def test_a_ballot_counts_for_its_job_teacher_and_page_alone(monkeypatch):
    two, pages = BallotShape(2, 3), BallotShape(2 * PAGE, 2)
    ballot = cast(np.array([[0, 1]]), two, JOB, TEACHER, fixed_seed(1))
    long = cast(np.arange(2 * PAGE)[np.newaxis] % 2, pages, JOB, TEACHER, fixed_seed(1))
    tries = {
        "as it is": (ballot.halves, two, JOB, TEACHER),
        "another job": (ballot.halves, two, bytes(16), TEACHER),
        "another teacher": (ballot.halves, two, JOB, "copycat"),
        "another page": (swapped_pages(long, pages), pages, JOB, TEACHER),
        "another sample": (swapped_samples(ballot, two), two, JOB, TEACHER),
    }
    assert [what for what, given in tries.items() if taken(*given)] == ["as it is"]

    def nothing(*_):
        return bytes(32)

    for module in (casting, counting):  # the weaker design: the challenge does not say what the ballot is for
        monkeypatch.setattr(module, "page_context", nothing)
    ballot = cast(np.array([[0, 1]]), two, JOB, TEACHER, fixed_seed(1))
    long = cast(np.arange(2 * PAGE)[np.newaxis] % 2, pages, JOB, TEACHER, fixed_seed(1))
    assert taken(ballot.halves, two, bytes(16), "copycat")
    assert taken(swapped_pages(long, pages), pages, JOB, TEACHER)


def test_a_server_takes_no_half_that_is_for_another(deployed):
    terms, other = open_job(deployed), open_job(deployed)
    ballot = make_ballot("victim", np.zeros(terms.samples, np.int16), terms, random.Random(1))
    for node in deployed.nodes:
        half = ballot.halves[node.role]
        for caller, job in (("copycat", terms.id), ("victim", other.id)):
            with pytest.raises(BallotError, match="cast for something else"):
                accept_ballot(node, Caller(caller, "teacher"), job, ballot.name, half)
        assert ballot.send(node, terms.id)[1]


# ---- A roster that names a ballot twice ---------------------------------------------------------------------------


def twice(place, arrays):
    """The first ballot again in the place of the last one."""
    if place == (0, "entries"):
        arrays[0][-1] = arrays[0][0]
    return arrays


@pytest.mark.parametrize("role", ROLES)
def test_a_ballot_that_is_named_twice_counts_once(deployed, role):
    votes = {f"t{number}": np.full(8, number % 3) for number in range(4)}
    terms = closed_job(deployed, votes)
    cheat(deployed, terms.id, role, change=twice)
    with deployed.nodes[1 - role].store.read() as connection:
        query = f"SELECT seat FROM sedml_store_ballots WHERE job = '{terms.id}' AND seat IS NOT NULL"
        seats = connection.exec_driver_sql(query).scalars().all()
    # The cheat has withheld one ballot and gained none; if it goes on with its own list, the two do not agree at all.
    assert sorted(seats) in ([], [0, 1, 2])
    # A weaker design counts what the list says: the same vote twice, at both servers.
    shape, first, second = SMALL.page(0), cast_one(0, key=1), cast_one(1, key=2)
    sums = np.zeros((1, 3), np.int64)
    for server in (0, 1):
        listed = [examine(server, one.halves[server], SMALL, JOB, TEACHER).pages[0] for one in (first, second, first)]
        sums += add_up(server, listed, shape)
    assert (sums % P).tolist() == [[2, 1, 0]]


# ---- A server's own share ---------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_a_wrong_share_of_its_own_moves_counts_by_a_constant_whatever_the_votes(deployed, role, monkeypatch):
    honest_counter, shift = meeting.counter, numbers(3).integers(-2, 3, (3, 8))
    rng = numbers(4)

    def shifted(node, record, task):
        counts = honest_counter(node, record, task)
        if node.role != role:
            return counts
        ring = np.uint64((1 << task.widths.counts) - 1)
        return lambda block: (
            (counts(block).astype(np.int64) + shift[:, block.start : block.stop]).astype(np.uint64) & ring
        ).astype(counts(block).dtype)

    monkeypatch.setattr(meeting, "counter", shifted)
    for _ in range(2):
        votes = {f"t{number}": rng.integers(-1, 3, 8) for number in range(4)}
        terms = closed_job(deployed, votes)
        assert deployed.meet(terms.id) == ["done", "done"]
        found = status(deployed, 0, terms.id).roster
        task = task_of(terms, found.teachers, found.digest)
        moved = histogram(np.stack(list(votes.values())), 3) + shift
        counts = np.where(moved < 0, -1 - moved, moved)  # folded
        noises = recorded_noise(deployed, task)
        assert np.array_equal(fetch_labels(deployed, terms.id, task), ideal_labels(task, counts, noises))
