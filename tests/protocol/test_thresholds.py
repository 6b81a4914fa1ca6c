"""Thresholds as people write them: which number of votes they mean, and how terms write them."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import TaskError
from sedml.protocol.thresholds import MAX_THRESHOLD_FACTOR, threshold_count, threshold_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.6, "0.6"),
        ("0.6", "0.6"),
        (".6", "0.6"),
        (1.0, "1.0"),
        ("1.0", "1.0"),
        (1, "1"),
        ("1", "1"),
        (150, "150"),
        (150.0, "150"),
        ("150", "150"),
        (1e-05, "0.00001"),
        (0.5500, "0.55"),
    ],
)
def test_a_threshold_is_written_as_a_fraction_or_a_count(value, text):
    assert threshold_text(value) == text


@pytest.mark.parametrize(
    ("threshold", "participants", "count"),
    [
        (0.6, 250, 150),
        (0.55, 100, 55),
        (0.07, 100, 7),
        (0.1, 3, 1),
        (1e-9, 250, 1),
        (1.0, 250, 250),
        (1, 250, 1),
        (150, 250, 150),
        (200.0, 250, 200),
        (300, 250, 300),
        (MAX_THRESHOLD_FACTOR * 250, 250, MAX_THRESHOLD_FACTOR * 250),
        (np.float32(0.6), 250, 150),
        (np.float16(0.6), 250_000, 150_000),
        (np.float64(0.6), np.int64(250), 150),
        (np.int16(150), 250, 150),
        ("0.6", 250, 150),
        ("1", 250, 1),
        ("1.0", 250, 250),
    ],
)
def test_threshold_count(threshold, participants, count):
    result = threshold_count(threshold, participants)
    assert result == count
    assert type(result) is int


@given(st.integers(1, 999), st.integers(1, 10_000))
def test_decimal_fractions_are_exact(thousandths, participants):
    exact = Fraction(thousandths, 1000) * participants
    assert threshold_count(thousandths / 1000, participants) == -(-exact.numerator // exact.denominator)


@pytest.mark.parametrize(
    "threshold",
    [
        *(0, 0.0, -0.0, -1, -0.5, math.nan, math.inf, -math.inf),
        *(1.5, 150.5, 1001, 1001.0, 1e300, pytest.param(10**5000, id="huge")),
        *(True, np.True_, "most", "", "nan", None, 1j, [0.6], Fraction(3, 5)),
    ],
)
def test_thresholds_that_make_no_sense(threshold):
    with pytest.raises(TaskError):
        threshold_count(threshold, 250)


@pytest.mark.parametrize("participants", [0, -1, True, 2.0, "250", None])
def test_participants_must_be_a_positive_int(participants):
    with pytest.raises(TaskError):
        threshold_count(0.5, participants)


def test_a_count_that_is_out_of_reach_is_one_of_votes():
    with pytest.raises(TaskError, match="out of reach of 31 votes"):
        threshold_count(125, 31)
