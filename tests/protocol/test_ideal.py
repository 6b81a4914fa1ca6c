"""The ideal functionality against a loop that follows the definition, one sample at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sedml.protocol import ideal
from sedml.protocol.task import Task
from support.harness import numbers


def one_sample(counts: list[int], threshold: int, noise: list[int]) -> int:
    noisy = [n + g for n, g in zip(counts, noise, strict=True)]
    return noisy.index(max(noisy)) if max(noisy) >= threshold else -1


@given(
    classes=st.integers(2, 12),
    samples=st.integers(1, 20),
    threshold=st.integers(1, 40),
    spread=st.integers(0, 30),
    key=st.integers(0, 2**32 - 1),
)
def test_ideal_is_its_definition(classes, samples, threshold, spread, key):
    rng = numbers(key)
    counts = rng.integers(0, 12, (classes, samples))
    noises = rng.integers(-spread, spread + 1, (2, classes, samples))
    noise = noises.sum(axis=0)
    want = [one_sample(counts[:, q].tolist(), threshold, noise[:, q].tolist()) for q in range(samples)]
    labels = ideal.labels(counts, threshold, noise)
    assert labels.dtype == np.int64
    assert labels.tolist() == want
    task = Task(classes, samples, 12, threshold, 1.0)
    assert ideal.ideal_labels(task, counts, tuple(noises)).tolist() == want


def test_counts_of_a_narrow_type_do_not_wrap_around():
    assert ideal.labels(np.array([[250], [5]], np.uint8), 256, np.array([[10], [-300]])).tolist() == [0]
    task = Task(2, 1, 250, 256, 1.0)
    parts = np.array([[100], [0]], np.int8), np.array([[100], [0]], np.int8)
    assert ideal.ideal_labels(task, np.array([[250], [5]], np.uint8), parts).tolist() == [0]


def test_a_tie_goes_to_the_first_class_and_exactly_the_threshold_is_enough():
    counts, none = np.array([[2, 3], [3, 3], [3, 0]]), np.zeros((3, 2), int)
    assert ideal.labels(counts, 3, none).tolist() == [1, 0]
    assert ideal.labels(counts, 4, none).tolist() == [-1, -1]
