"""Secure result == plain function, bit for bit, whatever the servers put in; == ideal, for votes, over both transports.

The noise is handed in, so that it can sit at the very ends of what the servers may put in.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sedml.aggregation.both_servers import PHASES, ballot_loaders, cast_all, run_job, run_votes
from sedml.protocol import label_circuit
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram
from support.harness import fixed_seed, numbers, tls_pair
from support.labelling import Case, edges_of_noise, quick, quick_patches, run
from support.tiers import thorough

pytestmark = pytest.mark.usefixtures("one_set_up")

SIGMAS = [0.1, 0.7, 3.0, 40.0, 300.0]
THRESHOLDS = ["within", "within", "one", "all", "one more", "four times", "out of reach"]
NOISES = ["zero", "lowest", "highest", "ends", "uniform"]


def make_threshold(kind: str, teachers: int, key: int) -> int:
    edges = {"one": 1, "all": teachers, "one more": teachers + 1, "four times": 4 * teachers, "out of reach": 2**40}
    return edges.get(kind) or int(numbers(key).integers(1, teachers, endpoint=True))


def make_noise(kind: str, task: Task, shape: tuple[int, ...], key: int) -> tuple[np.ndarray, np.ndarray]:
    """Each server's part, of all that its bits hold."""
    (low, high), rng = edges_of_noise(task), numbers(key)
    one, other = {
        "zero": lambda: np.zeros((2, *shape), np.int64),
        "lowest": lambda: np.full((2, *shape), low),
        "highest": lambda: np.full((2, *shape), high),
        "ends": lambda: rng.choice([low, high], (2, *shape)),
        "uniform": lambda: rng.integers(low, high, (2, *shape), endpoint=True),
    }[kind]()
    return one, other


def make_shares(kind: str, task: Task, shape: tuple[int, ...], key: int) -> tuple[np.ndarray, np.ndarray]:
    """Any numbers of the ring, or shares of counts, or of sums around the edges of the ring and the fold."""
    rng, size = numbers(key), 1 << task.widths.counts
    one = rng.integers(0, size, shape)
    total = {
        "any": lambda: rng.integers(0, size, shape),
        "counts": lambda: rng.integers(-1, task.teachers, shape, endpoint=True),
        "edges": lambda: rng.choice([0, 1, size // 2 - 1, size // 2, size - 2, size - 1], shape),
        "same": lambda: np.full(shape, int(rng.integers(0, size))),
    }[kind]()
    return one, (total - one) % size


case_of = {
    "classes": st.integers(2, 20),
    "samples": st.integers(1, 9),
    "teachers": st.one_of(st.integers(1, 9), st.integers(1, 5000)),
    "threshold": st.sampled_from(THRESHOLDS),
    "sigma": st.sampled_from(SIGMAS),
    "shares": st.sampled_from(["any", "counts", "counts", "edges", "same"]),
    "noise": st.sampled_from(NOISES),
    "key": st.integers(0, 2**32 - 1),
}


def drawn(classes, samples, teachers, threshold, sigma, shares, noise, key) -> Case:
    task = Task(classes, samples, teachers, make_threshold(threshold, teachers, key), sigma)
    shape = (classes, samples)
    return Case(task, make_shares(shares, task, shape, key + 1), make_noise(noise, task, shape, key + 2))


@given(**case_of)
@example(classes=2, samples=1, teachers=1, threshold="one", sigma=0.1, shares="edges", noise="ends", key=0)
@example(classes=3, samples=2, teachers=1, threshold="all", sigma=3.0, shares="any", noise="uniform", key=0)
@settings(max_examples=40)
def test_a_block_is_the_plain_function_whatever_the_servers_put_in(**case):
    given_ = drawn(**case)
    outcome = run(given_, ends=quick(), number=1, patches=quick_patches(1))
    assert (outcome.labels == given_.labels).all()


@given(**case_of)
@settings(max_examples=8)
def test_and_so_it_is_on_transfers_that_the_servers_make(**case):
    given_ = drawn(**case)
    assert (run(given_).labels == given_.labels).all()


@thorough
@given(**case_of | {"classes": st.integers(2, 60), "samples": st.integers(1, 40)})
@settings(max_examples=40)
def test_a_larger_block_is_the_plain_function_whatever_the_servers_put_in(**case):
    given_ = drawn(**case)
    assert (run(given_).labels == given_.labels).all()


def make_votes(kind: str, classes: int, teachers: int, samples: int, key: int) -> np.ndarray:
    rng = numbers(key)
    if kind == "abstain":
        return np.full((teachers, samples), -1)
    favourite = rng.integers(0, classes, samples)
    if kind == "unanimous":
        return np.repeat(favourite[np.newaxis], teachers, axis=0)
    if kind == "ties":
        # Two classes, half of the teachers each; an odd one abstains.
        other = (favourite + rng.integers(1, classes, samples)) % classes
        votes = np.where(np.arange(teachers)[:, np.newaxis] % 2, favourite, other)
        return np.where(np.arange(teachers)[:, np.newaxis] < teachers // 2 * 2, votes, -1)
    votes = rng.integers(-1, classes, (teachers, samples))
    return np.where(rng.random((teachers, samples)) < 0.6, favourite, votes) if kind == "mixed" else votes


jobs = {
    "sizes": st.tuples(st.integers(2, 12), st.integers(1, 12), st.integers(1, 30)),
    "kind": st.sampled_from(["mixed", "mixed", "uniform", "unanimous", "ties", "abstain"]),
    "threshold": st.sampled_from(THRESHOLDS),
    "sigma": st.sampled_from(SIGMAS),
    "noise": st.sampled_from(NOISES),
    "key": st.integers(0, 2**32 - 1),
}


def check(sizes, kind, threshold, sigma, noise, key, connect=None):
    """A whole job, from votes to labels; what it cost."""
    classes, teachers, samples = sizes
    task = Task(classes, samples, teachers, make_threshold(threshold, teachers, key), sigma)
    votes = make_votes(kind, classes, teachers, samples, key)
    noises = make_noise(noise, task, (classes, samples), key + 1)
    loaders = ballot_loaders(task, cast_all(task, votes))
    labels, stats = run_job(task, loaders, noises, channels=connect and connect(task.id))
    assert labels.dtype == np.int64
    assert (labels == ideal_labels(task, histogram(votes, classes), noises)).all()
    blocks = task.block_count
    assert [stats.phases[phase].rounds for phase in PHASES] == [2, 7 * blocks, 4 * blocks]
    return task, labels


@given(**jobs)
@settings(max_examples=10)
def test_a_job_equals_ideal(**job):
    check(**job)


@given(**jobs)
@settings(max_examples=5)
def test_a_job_over_tls_equals_ideal(credentials, **job):
    check(**job, connect=lambda task_id: tls_pair(task_id, credentials))


@given(samples=st.integers(1, 30), classes=st.integers(2, 6), teachers=st.integers(1, 9), key=st.integers(0, 2**32 - 1))
@example(samples=24, classes=3, teachers=4, key=0)
@settings(max_examples=5)
def test_jobs_of_many_blocks_equal_ideal(samples, classes, teachers, key):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_module, "_BLOCK_ANDS", 0)
        task, _ = check((classes, teachers, samples), "mixed", "within", 0.7, "ends", key)
        # However few gates a block may have, it has eight samples.
        assert task.block_count == -(-samples // 8)


@pytest.mark.parametrize("threshold", ["one", "all", "one more", "four times", "out of reach"])
@pytest.mark.parametrize("noise", ["zero", "lowest", "highest", "ends"])
def test_the_threshold_at_every_edge_equals_the_plain_function(noise, threshold):
    for shares in ("counts", "edges", "same"):
        given_ = drawn(4, 8, 7, threshold, 3.0, shares, noise, 5)
        outcome = run(given_, ends=quick(), number=1, patches=quick_patches(1))
        assert (outcome.labels == given_.labels).all()


def test_a_threshold_out_of_reach_is_never_reached():
    """Not by one teacher either, whose highest noisy count would be the highest number of as many bits as it takes."""
    task = Task(2, 1, 1, 2**40, 3.0)
    top = np.full((2, 1), edges_of_noise(task)[1])
    given_ = Case(task, (np.array([[0], [1]]), np.array([[0], [0]])), (top, top))
    assert (run(given_, ends=quick(), number=1, patches=quick_patches(1)).labels == -1).all()


CORNERS = [
    (2, 1, 1),
    (2, 1000, 1),
    (2, 1, 200),
    (16, 16, 64),
    pytest.param((300, 1, 1), marks=thorough),
    pytest.param((255, 31, 7), marks=thorough),
]


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: "x".join(map(str, corner)))
def test_corners_of_the_sizes_equal_ideal(corner):
    check(corner, "mixed", "within", 0.7, "uniform", sum(corner))


@pytest.mark.parametrize("classes", [2, 3, 17, pytest.param(256, marks=thorough)])
def test_the_last_class_can_win(classes):
    task = Task(classes, 3, 2, 2, 0.1)
    votes = np.full((2, 3), classes - 1)
    assert (run_votes(task, votes, noises=(np.zeros((classes, 3), int),) * 2).labels == classes - 1).all()


def test_random_votes_with_drawn_noise_equal_ideal():
    task = Task(10, 120, 60, 36, 8.0, nonce="bulk")
    votes = make_votes("mixed", 10, 60, 120, 99)
    noises = draw_noise(task, 120, fixed_seed(1)), draw_noise(task, 120, fixed_seed(2))
    found = run_votes(task, votes, noises=noises)
    assert found.is_ideal(histogram(votes, 10))
    assert 0 < (found.labels >= 0).sum() < 120
    again = run_votes(task, votes)
    assert again.is_ideal(histogram(votes, 10))
    assert not (again.noises[0] == noises[0]).all()


@pytest.mark.parametrize("kind", ["unanimous", "abstain"])
def test_the_cost_of_a_job_does_not_depend_on_its_answers(kind):
    task = Task(4, 11, 5, 3, 0.5, nonce="same")
    costs = set()
    for votes in (make_votes(kind, 4, 5, 11, 1), make_votes("mixed", 4, 5, 11, 2)):
        stats = run_votes(task, votes).stats
        costs.add(tuple((stats.phases[phase].rounds, stats.phases[phase].bytes) for phase in PHASES))
    assert len(costs) == 1


def test_a_circuit_one_bit_too_narrow_would_be_found(monkeypatch):
    """The planted fault: noisy counts lose their highest bit, and noise at its upper end wraps."""
    right = label_circuit.value_bits
    wrong = drawn(3, 8, 7, "one", 3.0, "edges", "highest", 1)
    label_circuit.circuit_of.cache_clear()
    monkeypatch.setattr(label_circuit, "value_bits", lambda counts, noise: right(counts, noise) - 1)
    monkeypatch.setattr(task_module, "value_bits", lambda counts, noise: right(counts, noise) - 1)
    planted = Case(Task(3, 8, 7, 1, 3.0), wrong.shares, wrong.noises)
    outcome = run(planted, ends=quick(), number=1, patches=quick_patches(1))
    label_circuit.circuit_of.cache_clear()
    assert (outcome.labels != wrong.labels).any()
