"""Real votes of real ensembles: plurality without noise, and what the paper's fixed-point encoding does to them."""

from __future__ import annotations

import numpy as np
import pytest

from sedml.lab.paper.gadgets.tournament import tournament
from sedml.lab.paper.lab_run import run_job
from sedml.lab.paper.two_noise_task import Task
from sedml.mpc.ring import Ring
from sedml.protocol.votes import histogram
from support.dealt import counts_loaders, fixed_noises, loaders_of, zero_parts
from support.harness import signed

TEACHERS, CLASSES = 250, 10
SCALE = 10**7
"""The paper multiplies votes by this to keep seven digits of its real-valued noise, in a ring of 32 bits."""


@pytest.fixture(params=["mnist", "svhn"])
def real_counts(request, data_dir):
    return load_counts(data_dir, request.param)


def load_counts(data_dir, name: str) -> np.ndarray:
    """Counts int64[N, Q] of 250 teachers."""
    path = data_dir / "pate2018_votes" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} of pate2018_votes is not in the data folder")
    with np.load(path) as archive:
        counts = archive["votes"].T.astype(np.int64)
    assert counts.shape[0] == CLASSES
    assert (counts.sum(axis=0) == TEACHERS).all()
    return counts


def test_without_noise_the_labels_are_exactly_the_plurality(real_counts):
    counts = real_counts[:, ::5]
    task = Task(CLASSES, counts.shape[1], TEACHERS, 1, 40.0, 40.0)
    noises, _ = fixed_noises(task, counts, zero_parts(*counts.shape))
    labels, _ = run_job(task, counts_loaders(task, counts), noises)
    assert (labels == counts.argmax(axis=0)).all()


def test_a_threshold_of_sixty_percent_keeps_the_samples_that_have_it(real_counts):
    task = Task(CLASSES, real_counts.shape[1], TEACHERS, 150, 40.0, 40.0)
    noises, want = fixed_noises(task, real_counts, zero_parts(*real_counts.shape))
    labels, _ = run_job(task, counts_loaders(task, real_counts), noises)
    assert (labels == want).all()
    assert ((labels >= 0) == (real_counts.max(axis=0) >= 150)).all()
    assert 0.7 < (labels >= 0).mean() < 1


def wrapped_labels(counts: np.ndarray, scale: int, width: int) -> np.ndarray:
    """The label phase in plain NumPy with every difference read modulo 2^width."""
    ring = Ring(width)
    scaled = ring.reduce(counts * scale)
    indices = np.repeat(np.arange(CLASSES)[:, np.newaxis], counts.shape[1], axis=1)

    def duel(_level, a, b, ia, ib):
        less = signed(ring, (a - b) & ring.mask) < 0
        return np.where(less, b, a), np.where(less, ib, ia)

    return tournament(scaled, indices, duel)[1]


def wrapped_labels_in_turn(counts: np.ndarray, scale: int, width: int) -> np.ndarray:
    """The same as the loop of Algorithm 1, which compares the best so far with one class after the other."""
    ring = Ring(width)
    scaled = ring.reduce(counts * scale)
    best, label = scaled[0], np.zeros(counts.shape[1], np.int64)
    for i in range(1, CLASSES):
        less = signed(ring, (best - scaled[i]) & ring.mask) < 0
        best, label = np.where(less, scaled[i], best), np.where(less, i, label)
    return label


def test_the_paper_s_encoding_mislabels_most_of_svhn_and_ours_none(data_dir):
    counts = load_counts(data_dir, "svhn")
    plurality = counts.argmax(axis=0)
    wrong = wrapped_labels(counts, SCALE, 32) != plurality
    assert wrong.mean() == pytest.approx(0.729, abs=5e-4)
    assert (wrapped_labels_in_turn(counts, SCALE, 32) != plurality).mean() == pytest.approx(0.726, abs=5e-4)
    # It is the near-unanimous rows that go wrong: 215 votes are more than half of the ring.
    lead = np.sort(counts, axis=0)[-1] - np.sort(counts, axis=0)[-2]
    assert wrong[lead * SCALE >= 2**31].mean() > 0.95
    assert not wrong[counts.max(axis=0) * SCALE < 2**31].any()
    width = Task(CLASSES, 1, TEACHERS, 150, 40.0, 40.0).width
    assert width < 16
    assert (wrapped_labels(counts, 1, width) == plurality).all()
    assert (wrapped_labels_in_turn(counts, 1, width) == plurality).all()


def test_real_predictions_through_the_vote_path_give_their_consensus(data_dir):
    samples = 250
    path = data_dir / "mnist_predictions" / "predictions.npz"
    if not path.is_file():
        pytest.skip("mnist_predictions is not in the data folder")
    with np.load(path) as archive:
        predictions, truth = archive["predictions"][:, :samples].astype(np.int64), archive["labels"][:samples]
    counts = histogram(predictions, CLASSES)
    task = Task(CLASSES, samples, len(predictions), 200, 40.0, 40.0, "onehot")
    noises, want = fixed_noises(task, counts, zero_parts(CLASSES, samples))
    labels, _ = run_job(task, loaders_of(task, predictions), noises)
    assert (labels == want).all()
    passed = labels >= 0
    assert passed.mean() > 0.85
    assert (labels[passed] == counts.argmax(axis=0)[passed]).all()
    assert (labels[passed] == truth[passed]).mean() > 0.97
