"""Secure result == ideal, bit for bit, for the same noise: both protocols, over both transports.

The noise is handed in, so that it can sit at the very ends of what the servers may draw.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sedml.lab.semi_honest.block import PHASES
from sedml.mpc.prg import Seed
from sedml.mpc.ring import index_width
from sedml.protocol import ideal
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.task import Task, Widths
from sedml.protocol.votes import histogram
from support.harness import bounds, loaders_of, numbers, run_whole_job, secure, tls_pair, zero_parts
from support.tiers import thorough

protocols = pytest.mark.parametrize("protocol", ["fused", "garbled"])


pytestmark = pytest.mark.usefixtures("one_set_up")
BUDGET = 60_000
"""Ballots and proofs, votes times words of a one-hot vector, and sign tests times bits, that one example may take."""


@st.composite
def jobs(draw, max_classes=300, max_teachers=5000, max_samples=2000, budget=BUDGET):
    """Sizes over the whole range, of which any two may be large together but not all three."""
    order = draw(st.permutations(["classes", "teachers", "samples"]))
    sizes = {"classes": 2, "teachers": 1, "samples": 1}
    limits = {"classes": max_classes, "teachers": max_teachers, "samples": max_samples}
    for name in order:
        low, high = sizes[name], limits[name]
        while high > low and cost(**sizes | {name: high}) > budget:
            high = (low + high) // 2
        sizes[name] = draw(st.integers(low, high))
    return sizes


def cost(classes: int, teachers: int, samples: int) -> int:
    words = max(1, (1 << index_width(classes)) // 16)
    return 120 * teachers + samples * max(teachers * words, 12 * classes)


@st.composite
def noises(draw):
    return draw(st.sampled_from(["zero", "lowest", "highest", "ends", "uniform"]))


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


def make_noise(kind: str, limits: tuple[int, int], shape: tuple[int, ...], key: int) -> list[np.ndarray]:
    """Each server's part, within what it could draw."""
    rng = numbers(key)
    if kind == "zero":
        return [np.zeros(shape, np.int64) for _ in limits]
    if kind == "uniform":
        return [rng.integers(-limit, limit, shape, endpoint=True) for limit in limits]
    signs = {
        "lowest": np.full(shape, -1),
        "highest": np.full(shape, 1),
        "ends": rng.choice([-1, 1], shape),
    }[kind]
    return [signs * limit for limit in limits]


def make_threshold(kind: str, teachers: int, key: int) -> int:
    edges = {"one": 1, "all": teachers, "one more": teachers + 1, "four times": 4 * teachers}
    return edges.get(kind) or int(numbers(key).integers(1, teachers, endpoint=True))


parameters = {
    "sizes": jobs(),
    "kind": st.sampled_from(["mixed", "mixed", "uniform", "unanimous", "ties", "abstain"]),
    "threshold": st.sampled_from(["within", "within", "one", "all", "one more", "four times"]),
    "sigmas": st.tuples(*[st.sampled_from([0.1, 0.7, 3.0, 40.0])] * 2),
    "noise1": noises(),
    "noise2": noises(),
    "key": st.integers(0, 2**32 - 1),
}


def check(protocol, sizes, kind, threshold, sigmas, noise1, noise2, key, connect=None):
    classes, teachers, samples = sizes["classes"], sizes["teachers"], sizes["samples"]
    count = make_threshold(threshold, teachers, key)
    task = Task(classes, samples, teachers, count, *sigmas, protocol)
    cast_votes = make_votes(kind, classes, teachers, samples, key)
    g = make_noise(noise1, bounds(sigmas[0]), (samples,), key + 1)
    g_i = make_noise(noise2, bounds(sigmas[1]), (classes, samples), key + 2)
    result, want = secure(task, cast_votes, tuple(zip(g, g_i, strict=True)), channels=connect and connect(task.id))
    assert result.labels.dtype == np.int64
    assert (result.labels == want).all()
    assert result.answered == int((want != -1).sum())
    return result


@given(**parameters)
@settings(max_examples=20)
def test_fused_equals_ideal(**case):
    check("fused", **case)


@given(**parameters)
@settings(max_examples=20)
def test_garbled_equals_ideal(**case):
    result = check("garbled", **case)
    assert result.stats.phases["label"].rounds == 3 * len(list(result.task.blocks))


@protocols
@given(**parameters | {"sizes": jobs(budget=BUDGET // 4)})
@settings(max_examples=10)
def test_tls_equals_ideal(credentials, protocol, **case):
    check(protocol, **case, connect=lambda task_id: tls_pair(task_id, credentials))


CORNERS = [
    (2, 1, 1),
    (2, 1000, 1),
    pytest.param((2, 5000, 1), marks=thorough),
    (2, 1, 2000),
    (300, 1, 1),
    (300, 3, 65),
    (3, 15, 63),
    (16, 16, 64),
    (255, 31, 7),
    (256, 2, 9),
]


@pytest.mark.parametrize("corner", CORNERS, ids=lambda corner: "x".join(map(str, corner)))
@protocols
def test_corners_of_the_sizes_equal_ideal(protocol, corner):
    sizes = dict(zip(("classes", "teachers", "samples"), corner, strict=True))
    check(protocol, sizes, "mixed", "within", (0.7, 0.7), "uniform", "uniform", sum(corner))


@pytest.mark.parametrize("threshold", ["one", "all", "one more", "four times"])
@pytest.mark.parametrize("noise", ["zero", "lowest", "highest", "ends"])
@protocols
def test_the_threshold_at_every_edge_equals_ideal(protocol, noise, threshold):
    sizes = {"classes": 4, "teachers": 7, "samples": 29}
    for kind in ("unanimous", "abstain", "ties"):
        check(protocol, sizes, kind, threshold, (3.0, 3.0), noise, noise, 5)


@protocols
def test_noise_that_makes_all_counts_negative_still_finds_the_highest(protocol):
    # g lifts every sample over the threshold, g_i then pulls all counts but a few far below zero.
    task = Task(5, 40, 3, 2, 40.0, 40.0, protocol)
    votes = make_votes("mixed", 5, 3, 40, 8)
    limits = bounds(40.0)
    g = [np.full(40, limit) for limit in limits]
    g_i = [np.full((5, 40), -limit) for limit in limits]
    result, want = secure(task, votes, tuple(zip(g, g_i, strict=True)))
    assert result.answered == 40
    assert (result.labels == histogram(votes, 5).argmax(axis=0)).all()
    assert (result.labels == want).all()


@protocols
def test_the_farthest_apart_that_two_noisy_counts_can_be(protocol):
    # K + 2 B2, the number that the width of the label ring is chosen for, both ways round.
    task = Task(2, 16, 9, 1, 3.0, 3.0, protocol)
    votes = np.tile(np.arange(16) % 2, (9, 1))
    (limit0, limit1) = bounds(3.0)
    toward = np.where(np.stack([votes[0] == 0, votes[0] == 1]), 1, -1)
    for sign in (1, -1):
        g = [np.full(16, limit) for limit in (limit0, limit1)]
        g_i = [sign * toward * limit for limit in (limit0, limit1)]
        result, want = secure(task, votes, tuple(zip(g, g_i, strict=True)))
        assert (result.labels == want).all()


def test_rings_one_bit_narrower_give_wrong_answers_at_the_extremes(monkeypatch):
    # The width is not merely generous: the same jobs fail without its last bit.
    right = task_module.ring_widths

    def narrower(*terms):
        widths = right(*terms)
        return Widths(widths.threshold - 1, widths.label - 1, widths.counts - 1)

    monkeypatch.setattr(task_module, "ring_widths", narrower)
    wrong = []
    for seed in range(4):
        task = Task(2, 16, 9, 1, 3.0, 3.0)
        votes = np.tile(np.arange(16) % 2, (9, 1))
        limits = bounds(3.0)
        toward = np.where(np.stack([votes[0] == 0, votes[0] == 1]), 1, -1) * (-1) ** seed
        g = [np.full(16, limit) for limit in limits] if seed < 2 else [np.full(16, -limit) for limit in limits]
        g_i = [toward * limit for limit in limits]
        try:
            result, want = secure(task, votes, tuple(zip(g, g_i, strict=True)))
            wrong.append((result.labels != want).any())
        except AssertionError:  # the servers passed another number of samples than they should have
            wrong.append(True)
    assert any(wrong)


@protocols
@given(
    samples=st.integers(1, 75),
    classes=st.integers(2, 9),
    teachers=st.integers(1, 18),
    key=st.integers(0, 2**32 - 1),
)
@example(samples=64, classes=3, teachers=4, key=0)
@settings(max_examples=10)
def test_jobs_of_many_blocks_equal_ideal(protocol, samples, classes, teachers, key):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_module, "_BLOCK_TRANSFERS", 0)
        sizes = {"classes": classes, "teachers": teachers, "samples": samples}
        result = check(protocol, sizes, "mixed", "within", (0.7, 0.7), "uniform", "ends", key)
        # However few transfers a block may take, it has eight samples.
        assert len(list(result.task.blocks)) == -(-samples // 8)


@protocols
def test_bulk_random_votes_with_drawn_noise_equal_ideal(protocol):
    classes, teachers, samples = 10, 100, 501
    task = Task(classes, samples, teachers, 60, 8.0, 8.0, protocol, nonce="bulk")
    cast_votes = make_votes("mixed", classes, teachers, samples, 99)
    counts = histogram(cast_votes, classes)
    drawn = [DrawnNoise(task, Seed(bytes([role]) * 32)) for role in (0, 1)]
    g = [noise.threshold(0, samples) for noise in drawn]
    passed = ideal.consensus(counts, 60, g[0] + g[1])
    g_i = [np.zeros((classes, samples), np.int64) for _ in drawn]
    asked = np.ones(samples, np.bool_) if protocol == "garbled" else passed
    for noise, part in zip(drawn, g_i, strict=True):
        part[:, asked] = noise.label(0, classes, int(asked.sum()))
    # Handed in, and drawn by the servers themselves.
    result, want = secure(task, cast_votes, tuple(zip(g, g_i, strict=True)))
    assert (result.labels == want).all()
    assert 0 < result.answered < samples
    again = run_whole_job(task, loaders_of(task, cast_votes), tuple(drawn))
    assert (again.labels == want).all()


@pytest.mark.parametrize(("protocol", "rounds"), [("fused", (0, 6, 16)), ("garbled", (0, 0, 3))])
def test_the_rounds_are_those_that_the_protocols_promise(protocol, rounds):
    task = Task(10, 50, 250, 150, 40.0, 40.0, protocol)
    votes = make_votes("unanimous", 10, 250, 50, 1)
    result, _ = secure(task, votes, zero_parts(10, 50))
    spent = {phase: result.stats.phases[phase].rounds for phase in PHASES}
    assert spent == dict(zip(PHASES, rounds, strict=True))


@given(classes=st.integers(2, 70), samples=st.integers(1, 12), sigma=st.sampled_from([0.1, 3.0, 40.0, 5e3]))
@settings(max_examples=8)
def test_the_rounds_of_fused_follow_the_documented_formula(classes, samples, sigma):
    task = Task(classes, samples, 3, 1, sigma, sigma)
    votes = make_votes("unanimous", classes, 3, samples, 1)
    result, _ = secure(task, votes, zero_parts(classes, samples))
    # A digit for the lowest 6 bits below the sign, and one for every 5 that follow.
    digits = {name: 1 + -(-max(0, width - 7) // 5) for name, width in result.stats.ring_bits.items()}
    log2 = {name: (count - 1).bit_length() for name, count in digits.items()}
    assert result.stats.phases["threshold"].rounds == 2 + log2["threshold"] + 3
    assert result.stats.phases["label"].rounds == (3 + log2["label"]) * (classes - 1).bit_length()
    assert result.stats.phases["count"].rounds == 0


@protocols
def test_where_nobody_agrees_no_label_round_is_run_but_those_of_the_one_circuit(protocol):
    task = Task(3, 11, 4, 4, 0.7, 0.7, protocol)
    result, want = secure(task, np.full((4, 11), -1), zero_parts(3, 11))
    assert (want == -1).all()
    assert (result.labels == -1).all()
    assert result.answered == 0
    assert result.stats.phases["label"].rounds == (3 if protocol == "garbled" else 0)


@pytest.mark.parametrize("classes", [2, 3, 255, 256, 300])
@protocols
def test_the_last_class_can_win(protocol, classes):
    task = Task(classes, 5, 2, 2, 0.1, 0.1, protocol)
    result, _ = secure(task, np.full((2, 5), classes - 1), zero_parts(classes, 5))
    assert (result.labels == classes - 1).all()
