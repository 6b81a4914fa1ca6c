"""Secure result == ideal on dealt randomness, bit for bit, for the same noise: every vote form, and what it costs."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sedml.errors import CorrelationError, RingError, TaskError
from sedml.lab.paper import lab_run
from sedml.lab.paper import lab_task as task_module
from sedml.lab.paper.dealing import Seeds
from sedml.lab.paper.lab_block import PHASES
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.lone_noise import NoNoise, lab_noise
from sedml.lab.paper.onehot_ballots import cast_onehot, counts_share
from sedml.lab.semi_honest.two_noise_ideal import ideal_labels
from sedml.lab.semi_honest.two_noise_task import Widths
from sedml.mpc.prg import SEED_BYTES
from sedml.protocol.task import Block
from sedml.protocol.votes import histogram
from support.dealt import loaders_of, secure
from support.harness import fixed_seed, join_ring, numbers
from support.semi_honest import zero_parts

FORMS = ["onehot", "counts"]
both = pytest.mark.parametrize("dealt", ["fused", "paper"])
TERMS = 10, 100, 20, 12, 4.0, 2.0


def mixed(classes: int, teachers: int, samples: int, key: int) -> np.ndarray:
    rng = numbers(key)
    votes = rng.integers(-1, classes, (teachers, samples))
    return np.where(rng.random(votes.shape) < 0.6, rng.integers(0, classes, samples), votes)


@both
@given(
    classes=st.integers(2, 40),
    teachers=st.integers(1, 40),
    samples=st.integers(1, 60),
    votes=st.sampled_from(FORMS),
    noise=st.sampled_from(["both", "s0"]),
    sigma=st.sampled_from([0.7, 40.0]),
    size=st.sampled_from([8, 1 << 18]),
    key=st.integers(0, 2**32 - 1),
)
@example(classes=300, teachers=3, samples=20, votes="onehot", noise="both", sigma=3.0, size=8, key=1)
@settings(max_examples=40)
def test_labels_are_ideal(dealt, classes, teachers, samples, votes, noise, sigma, size, key):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task_module, "_BLOCK_SAMPLES", size)
        threshold = 1 + key % teachers
        task = LabTask(classes, samples, teachers, threshold, sigma, sigma, dealt=dealt, votes=votes, noise=noise)
        cast = mixed(classes, teachers, samples, key)
        noises = tuple(lab_noise(task, role, fixed_seed(key + role)) for role in (0, 1))
        labels, stats = lab_run.run_job(task, loaders_of(task, cast), noises)
        assert (labels == ideal_labels(task, histogram(cast, classes), noises)).all()
        assert stats.dealer_bytes > 2 * SEED_BYTES
        assert stats.offline.rounds == 0


@pytest.mark.parametrize("votes", FORMS)
@pytest.mark.parametrize("protocol", ["fused", "garbled"])
def test_what_a_deployment_runs_is_ideal_from_any_form_of_votes(protocol, votes):
    task = LabTask(*TERMS, protocol=protocol, votes=votes)
    cast = mixed(10, 20, 100, 3)
    run = lab_run.run_counts(task, histogram(cast, 10)) if votes == "counts" else lab_run.run_votes(task, cast)
    assert run.is_ideal(histogram(cast, 10))
    assert run.stats.dealer_bytes == 0
    assert run.stats.offline.rounds > 0


@pytest.mark.parametrize(("dealt", "rounds"), [("fused", (0, 0, 5, 12)), ("paper", (0, 32, 8, 32))])
def test_the_rounds_are_those_that_the_protocols_promise(dealt, rounds):
    task = LabTask(10, 50, 250, 150, 40.0, 40.0, dealt=dealt)
    result, _ = secure(task, np.full((250, 50), 3), zero_parts(10, 50))
    assert tuple(result.stats.phases[phase].rounds for phase in PHASES) == rounds


@given(classes=st.integers(2, 70), samples=st.integers(1, 30))
@settings(max_examples=20)
def test_the_rounds_of_fused_follow_the_documented_formula(classes, samples):
    task = LabTask(classes, samples, 3, 1, 0.7, 0.7, dealt="fused", votes="counts")
    result, _ = secure(task, np.zeros((3, samples), int), zero_parts(classes, samples))
    log4 = next(k for k in range(9) if 4**k >= classes)
    digits = {name: -(-(width - 1) // 4) for name, width in asdict(result.task.widths).items()}
    carry = {name: next(k for k in range(4) if 4**k >= count) for name, count in digits.items()}
    assert result.stats.phases["threshold"].rounds == 1 + carry["threshold"] + log4 + 1
    assert result.stats.phases["label"].rounds == (2 + carry["label"]) * (classes - 1).bit_length()


@both
def test_where_nobody_agrees_no_label_round_is_run(dealt):
    task = LabTask(3, 11, 4, 4, 0.7, 0.7, dealt=dealt)
    result, _ = secure(task, np.full((4, 11), -1), zero_parts(3, 11))
    assert (result.labels == -1).all()
    assert result.stats.phases["label"].rounds == 0


@pytest.mark.parametrize("change", [-1, 1])
def test_corrections_of_the_wrong_size_stop_the_job(monkeypatch, change):
    task, honest = LabTask(*TERMS, dealt="fused", votes="counts"), lab_run.deal_block
    monkeypatch.setattr(lab_run, "deal_block", lambda *args: np.resize(honest(*args), honest(*args).size + change))
    with pytest.raises(CorrelationError, match="bytes, not"):
        secure(task, np.zeros((20, 100), int), zero_parts(10, 100))


def test_the_servers_never_get_the_same_seed():
    with pytest.raises(CorrelationError, match="same seed"):
        Seeds(fixed_seed(1), fixed_seed(1))


# Terms


def test_the_paper_works_in_thirty_two_bits_unless_told_otherwise():
    assert LabTask(*TERMS, dealt="paper", votes="onehot").widths == Widths(32, 32, 32)
    assert LabTask(*TERMS, dealt="paper", ring_bits=17).widths == Widths(17, 17, 17)


@pytest.mark.parametrize("bits", [-1, 0, 65, LabTask(*TERMS).widths.counts - 1])
def test_a_paper_ring_that_cannot_hold_the_task_is_refused(bits):
    with pytest.raises(RingError, match="at least"):
        LabTask(*TERMS, dealt="paper", ring_bits=bits)


@pytest.mark.parametrize("classes", [16, 40, 200, 300])
def test_a_narrow_paper_ring_is_refused_or_holds_the_class_index(classes):
    try:
        task = LabTask(classes, 5, 3, 2, 0.1, 0.1, dealt="paper", votes="counts", ring_bits=4)
    except RingError:
        return
    result, _ = secure(task, np.full((3, 5), classes - 1), zero_parts(classes, 5))
    assert (result.labels == classes - 1).all()


@pytest.mark.parametrize(
    "terms",
    [{"ring_bits": 32}, {"dealt": "fused", "protocol": "garbled"}, {"votes": "papers"}, {"noise": "s1"}],
    ids=str,
)
def test_terms_that_make_no_sense_are_refused(terms):
    with pytest.raises(TaskError):
        LabTask(*TERMS, **terms)


# One-hot ballots and lone noise


def test_a_onehot_ballot_is_a_ring_element_a_class_and_sample_and_can_be_stuffed():
    task = LabTask(*TERMS, dealt="fused", votes="onehot")
    ballots = [cast_onehot(np.full(100, 3), task) for _ in range(2)]
    assert tuple(map(len, ballots[0])) == task.teacher_bytes
    halves = list(zip(*ballots, strict=True))
    block = Block(0, 40, 90)
    counts = join_ring(tuple(counts_share(role, halves[role], task, block) for role in (0, 1)), task.widths.counts)
    assert (counts == 2 * (np.arange(10) == 3)[:, np.newaxis]).all()
    # Random bytes are as good a ballot as any, of many votes: why a deployment does not take this form.
    random = numbers(1).bytes(32), numbers(2).bytes(len(ballots[0][1]))
    counts = join_ring(tuple(counts_share(role, [random[role]], task, block) for role in (0, 1)), task.widths.counts)
    assert (counts.sum(axis=0, dtype=np.int64) > 1).all()


def test_s0_alone_adds_all_of_the_noise_in_the_papers_model():
    task = LabTask(10, 100_000, 20, 12, 4.0, 2.0, noise="s0")
    s0, s1 = (lab_noise(task, role, fixed_seed(role)) for role in (0, 1))
    assert isinstance(s1, NoNoise)
    assert s0.threshold(0, 100_000).std() == pytest.approx(4.0, rel=0.02)
    assert s0.label(0, 10, 10_000).std() == pytest.approx(2.0, rel=0.02)
    shared = lab_noise(LabTask(10, 100_000, 20, 12, 4.0, 2.0), 0, fixed_seed(1))
    assert shared.threshold(0, 100_000).std() == pytest.approx(4.0 / 2**0.5, rel=0.02)
