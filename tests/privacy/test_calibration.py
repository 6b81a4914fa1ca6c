"""The least noise for an epsilon: it is enough, and four digits less are not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import PrivacyError, TaskError
from sedml.privacy.accounting import job_report
from sedml.privacy.calibration import _sigma, _step, sigma_for
from sedml.privacy.noise import MAX_SIGMA


def epsilon_of(sigma, samples, delta):
    return job_report(samples, sigma, delta, classes=10).epsilon


@given(
    samples=st.integers(1, 2_000),
    epsilon=st.floats(2.0, 15.0),
    delta=st.sampled_from([1e-3, 1e-5, 1e-9]),
)
@settings(max_examples=8)
def test_it_is_the_smallest_that_keeps_epsilon(samples, epsilon, delta):
    sigma = sigma_for(samples, epsilon, delta, 10)
    assert float(f"{sigma:.4g}") == sigma
    assert epsilon_of(sigma, samples, delta) <= epsilon
    assert epsilon_of(_sigma(_step(sigma) - 1), samples, delta) > epsilon


def test_a_known_case():
    # By zCDP, 2 q / sigma^2 of the 0.108 that epsilon 2 at delta 1e-5 leaves, it would take 43.01.
    assert sigma_for(100, 2.0, 1e-5, 10) == 34.49


@given(st.floats(1e-3, 1e6))
def test_steps_are_the_numbers_of_four_digits(value):
    sigma = _sigma(_step(value))
    assert value * (1 - 1e-9) <= sigma <= value * 1.0011
    assert float(f"{sigma:.4g}") == sigma
    assert _step(sigma) == _step(value)


@pytest.mark.parametrize(
    ("samples", "epsilon", "delta"), [(100_000_000, 0.01, 1e-5), (1000, 2.0, 1e-30)], ids=["too small", "delta"]
)
def test_an_epsilon_that_no_noise_keeps_is_refused(samples, epsilon, delta):
    with pytest.raises(PrivacyError, match="No noise"):
        sigma_for(samples, epsilon, delta, 10)


def test_the_largest_sigma_is_not_passed():
    assert sigma_for(100_000, 0.06, 1e-5, 10) <= MAX_SIGMA


@pytest.mark.parametrize(
    "arguments",
    [(0, 1.0, 1e-5, 10), (10, 0.0, 1e-5, 10), (10, float("nan"), 1e-5, 10), (10, 1.0, 0.0, 10), (10, 1.0, 1e-5, 1)],
)
def test_arguments_that_make_no_sense_are_refused(arguments):
    with pytest.raises(TaskError):
        sigma_for(*arguments)
