"""Secure result == ideal on dealt randomness, bit for bit, for the same noise: every vote form, and what it costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sedml.errors import RingError, TaskError
from sedml.lab.paper import lab_run
from sedml.lab.paper import two_noise_task as task_module
from sedml.lab.paper.check_and_label_noise import Noise
from sedml.lab.paper.lab_block import PHASES
from sedml.lab.paper.onehot_ballots import cast_onehot, counts_share
from sedml.lab.paper.two_noise_ideal import ideal_labels
from sedml.lab.paper.two_noise_task import RING_BITS, Task
from sedml.mpc.prg import SEED_BYTES
from sedml.protocol.task import Block
from sedml.protocol.votes import histogram
from support.dealt import loaders_of, secure, zero_parts
from support.harness import fixed_seed, join_ring, numbers

FORMS = ["onehot", "counts"]
TERMS = 10, 100, 20, 12, 4.0, 2.0


def mixed(classes: int, teachers: int, samples: int, key: int) -> np.ndarray:
    rng = numbers(key)
    votes = rng.integers(-1, classes, (teachers, samples))
    return np.where(rng.random(votes.shape) < 0.6, rng.integers(0, classes, samples), votes)


@given(
    classes=st.integers(2, 40),
    teachers=st.integers(1, 40),
    samples=st.integers(1, 60),
    votes=st.sampled_from(FORMS),
    sigma=st.sampled_from([0.7, 40.0]),
    size=st.sampled_from([8, 1 << 18]),
    key=st.integers(0, 2**32 - 1),
)
@example(classes=300, teachers=3, samples=20, votes="onehot", sigma=3.0, size=8, key=1)
@settings(max_examples=40)
def test_labels_are_ideal(classes, teachers, samples, votes, sigma, size, key):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_module, "_MOST_SAMPLES", size)
        task = Task(classes, samples, teachers, 1 + key % teachers, sigma, sigma, votes)
        cast = mixed(classes, teachers, samples, key)
        noises = tuple(Noise(task, fixed_seed(key + role)) for role in (0, 1))
        labels, side = lab_run.run_job(task, loaders_of(task, cast), noises)
        assert (labels == ideal_labels(task, histogram(cast, classes), noises)).all()
        assert side.deal.bytes > 2 * SEED_BYTES
        assert side.votes.rounds == sum(cost.rounds for cost in side.phases.values())


def test_the_rounds_are_those_that_the_protocol_promises():
    task = Task(10, 50, 250, 150, 40.0, 40.0)
    result, _ = secure(task, np.full((250, 50), 3), zero_parts(10, 50))
    assert tuple(result.side.phases[phase].rounds for phase in PHASES) == (0, 32, 8, 32)


def test_where_nobody_agrees_no_label_round_is_run():
    task = Task(3, 11, 4, 4, 0.7, 0.7)
    result, _ = secure(task, np.full((4, 11), -1), zero_parts(3, 11))
    assert (result.labels == -1).all()
    assert result.side.phases["label"].rounds == 0


# Terms


def test_the_paper_works_in_thirty_two_bits_and_nothing_larger():
    assert Task(*TERMS).counts_layout.width == 32
    with pytest.raises(RingError, match="more than 32"):
        Task(10, 100, 2**31, 12, 4.0, 2.0)


def test_a_form_of_votes_that_nobody_knows_is_refused():
    with pytest.raises(TaskError):
        Task(*TERMS, votes="papers")


# One-hot ballots


def test_a_onehot_ballot_is_a_ring_element_a_class_and_sample_and_can_be_stuffed():
    task = Task(*TERMS, votes="onehot")
    ballots = [cast_onehot(np.full(100, 3), task) for _ in range(2)]
    assert tuple(map(len, ballots[0])) == task.teacher_bytes
    halves = list(zip(*ballots, strict=True))
    block = Block(0, 40, 90)
    counts = join_ring(tuple(counts_share(role, halves[role], task, block) for role in (0, 1)), RING_BITS)
    assert (counts == 2 * (np.arange(10) == 3)[:, np.newaxis]).all()
    # Random bytes are as good a ballot as any, of many votes: why a deployment does not take this form.
    random = numbers(1).bytes(32), numbers(2).bytes(len(ballots[0][1]))
    counts = join_ring(tuple(counts_share(role, [random[role]], task, block) for role in (0, 1)), RING_BITS)
    assert (counts.sum(axis=0, dtype=np.int64) > 1).all()
