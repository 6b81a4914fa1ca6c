"""The ideal functionality against a loop that follows the definition, one sample at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sedml.protocol import ideal
from support.harness import numbers


def one_sample(counts: list[int], threshold: int, g: int, g_i: list[int]) -> int:
    if max(counts) + g < threshold:
        return -1
    noisy = [n + h for n, h in zip(counts, g_i, strict=True)]
    return noisy.index(max(noisy))


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
    g = rng.integers(-spread, spread + 1, samples)
    g_i = rng.integers(-spread, spread + 1, (classes, samples))
    want = [one_sample(counts[:, q].tolist(), threshold, int(g[q]), g_i[:, q].tolist()) for q in range(samples)]
    labels = ideal.labels(counts, threshold, g, g_i)
    assert labels.dtype == np.int64
    assert labels.tolist() == want
    assert (ideal.consensus(counts, threshold, g) == (labels != ideal.NO_CONSENSUS)).all()


def test_counts_of_a_narrow_type_do_not_wrap_around():
    counts = np.array([[250], [5]], np.uint8)
    assert ideal.labels(counts, 256, np.array([10]), np.array([[-300], [0]])).tolist() == [1]


def test_a_tie_goes_to_the_first_class_and_exactly_the_threshold_is_enough():
    counts = np.array([[2, 3], [3, 3], [3, 0]])
    none = np.zeros(2, int)
    assert ideal.labels(counts, 3, none, np.zeros((3, 2), int)).tolist() == [1, 0]
    assert ideal.labels(counts, 4, none, np.zeros((3, 2), int)).tolist() == [-1, -1]
