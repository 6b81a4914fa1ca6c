"""The smooth release against the authors' own values, published votes and exhaustive search."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sedml.errors import InputError, PredictionsError, TaskError
from sedml.lab.data_dependent import gnmax_rdp, log_answered, log_other_class, threshold_rdp
from sedml.lab.smooth_release import (
    NoisyMaximumCurve,
    conditions_hold,
    gnss_rdp,
    noisy_maximum_curve,
    noisy_maximum_sensitivities,
    smooth_release,
    smooth_sensitivity,
    threshold_sensitivities,
)


def test_a_release_on_published_votes(published_votes):
    votes = published_votes("mnist")[:640].astype(np.int64)
    answered = votes.max(axis=1) + np.random.default_rng(0).normal(0.0, 150.0, 640) >= 200
    found = smooth_release(votes, answered, threshold=200, sigma1=150.0, sigma2=40.0, delta=1e-5, order=14.0)
    order = np.array([14.0])
    rdp = threshold_rdp(log_answered(votes, 200, 150.0), 150.0, order).sum()
    rdp += gnmax_rdp(log_other_class(votes[answered], 40.0), 40.0, order).sum()
    assert found.epsilon == pytest.approx(rdp + math.log(1e5) / 13, abs=1e-6)
    assert found.cost == gnss_rdp(0.4 / 14, 6.0, 14.0)
    assert found.release(0.0) == found.epsilon + found.cost
    assert found.release(1.0) - found.release(0.0) == pytest.approx(found.std)
    assert 0.3 < found.std < 0.5
    # Published, it is still better than what is known without the votes.
    assert found.release(0.0) < found.independent == pytest.approx(3.1, abs=0.1)


# Values from the tests that the authors of P18 published with their code (tensorflow/privacy, pate_2018).


def test_conditions_of_the_published_code():
    assert conditions_hold(noisy_maximum_curve(20.0, 10, 25.0)) == (True, False)
    assert conditions_hold(noisy_maximum_curve(30.0, 10, 25.0)) == (True, True)


def test_sensitivities_of_the_published_code():
    right = noisy_maximum_sensitivities(np.array([10, 0, 0]), noisy_maximum_curve(0.5, 3, 1.5))
    expected = [3.13503646e-17, 1.60178280e-08, 5.90681786e-03] + [5.99981308e00] * 8
    np.testing.assert_allclose(right, expected, rtol=1e-8)

    left = noisy_maximum_sensitivities(np.array([1000, 500, 300, 200, 0]), noisy_maximum_curve(250.0, 5, 10.0))
    expected = [0.0] * 298 + [2.77693450548e-7, 2.10853979548e-6] + [2.73113623988e-6] * 1701
    np.testing.assert_allclose(left, expected, rtol=1e-8, atol=1e-18)


def test_threshold_sensitivities_of_the_published_code():
    low = threshold_sensitivities(20, 30, 2, 2.0, 10.0)
    expected = [
        *(1.60212079e-01, 2.07021132e-01, 2.07021132e-01, 1.93127860e-01, 1.68302106e-01, 1.42180452e-01),
        *(1.16054002e-01, 9.01543247e-02, 6.45775697e-02, 3.94153241e-02, 1.47826870e-02, 1.48454129e-04),
    ] + [0] * 19
    np.testing.assert_allclose(low, expected, rtol=1e-7)

    very_high = threshold_sensitivities(20, 30, 50, 2.0, 10.0)
    expected = [
        *(1.35750725752e-19, 1.88990500499e-17, 2.05403154065e-15, 1.74298153642e-13, 1.15489723995e-11),
        *(5.97584949325e-10, 2.41486826748e-08, 7.62150641922e-07, 1.87846248741e-05, 0.000360973025976),
        *(0.000360973025976, 2.76377015215e-50, 1.00904975276e-53, 2.87254164748e-57, 6.37583360761e-61),
    ]
    np.testing.assert_allclose(very_high[:15], expected, rtol=1e-8)


# ---- Smooth sensitivity by exhaustive search --------------------------------------------------------


def neighbours(counts: np.ndarray) -> list[np.ndarray]:
    unit = np.eye(len(counts), dtype=np.int64)
    pairs = itertools.permutations(range(len(counts)), 2)
    return [counts - unit[i] + unit[j] for i, j in pairs if counts[i] > 0]


def all_votes(teachers: int, classes: int) -> list[tuple[int, ...]]:
    return [counts for counts in itertools.product(range(teachers + 1), repeat=classes) if sum(counts) == teachers]


@pytest.fixture(scope="module")
def curve() -> NoisyMaximumCurve:
    found = noisy_maximum_curve(7.0, 3, 4.0)
    assert conditions_hold(found) == (True, True)
    return found


@pytest.mark.parametrize("start", [(40, 0, 0), (30, 7, 3), (22, 18, 0), (14, 13, 13), (34, 3, 3)], ids=str)
def test_sensitivities_cover_all_votes_at_every_distance(curve, start):
    everything = all_votes(40, 3)
    price = dict(zip(everything, curve.rdp(log_other_class(np.array(everything), curve.sigma)), strict=True))
    true = np.zeros(41)
    for counts in everything:
        local = max(abs(price[counts] - price[tuple(map(int, other))]) for other in neighbours(np.array(counts)))
        distance = sum(abs(a - b) for a, b in zip(counts, start, strict=True)) // 2
        true[distance] = max(true[distance], local)
    bounds = noisy_maximum_sensitivities(np.array(start), curve)
    assert bounds.max() > 0
    for beta in (0.0, 0.05, 0.2):
        assert smooth_sensitivity(true, beta) <= smooth_sensitivity(bounds, beta) * (1 + 1e-9)
    reach = np.maximum.accumulate(bounds)
    assert np.all(true <= reach + 1e-12)


def test_smooth_sensitivity_changes_smoothly(curve):
    # What makes the noise private: neighbours' smooth sensitivities are within a factor e^beta.
    for start in [(30, 7, 3), (33, 4, 3), (22, 18, 0)]:
        here = smooth_sensitivity(noisy_maximum_sensitivities(np.array(start), curve), 0.1)
        for other in neighbours(np.array(start)):
            there = smooth_sensitivity(noisy_maximum_sensitivities(other, curve), 0.1)
            assert there <= here * math.exp(0.1) * (1 + 1e-9)


def test_a_release_pays_only_for_answered_samples():
    votes = np.array([[200, 30, 20], [100, 80, 70]])
    terms = {"threshold": 150, "sigma1": 60.0, "sigma2": 40.0, "delta": 1e-5, "order": 10.0, "noise_factor": 5.0}
    none = smooth_release(votes, [False, False], **terms)
    both = smooth_release(votes, [True, True], **terms)
    assert none.epsilon < both.epsilon
    assert none.sensitivity <= both.sensitivity
    assert none.cost == both.cost
    assert none.independent < both.independent


def test_the_order_of_classes_and_samples_does_not_matter():
    rng = np.random.default_rng(1)
    votes = rng.multinomial(200, [0.7, 0.1, 0.1, 0.1], size=30)
    terms = {"threshold": 100, "sigma1": 60.0, "sigma2": 40.0, "delta": 1e-5, "order": 10.0}
    found = smooth_release(votes, np.ones(30, bool), **terms)
    shuffled = rng.permuted(rng.permutation(votes), axis=1)
    assert smooth_release(shuffled, np.ones(30, bool), **terms).sensitivity == pytest.approx(found.sensitivity)


# ---- Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [{"order": 1.0}, {"order": math.nan}, {"noise_factor": 0.0}, {"sigma2": 20.0, "order": 25.0}, {"answered": [True]}],
    ids=str,
)
def test_a_release_that_is_not_proven_is_refused(bad):
    votes = np.zeros((2, 10), np.int64)
    votes[:, 0] = 200
    terms = {"threshold": 100, "sigma1": 60.0, "sigma2": 40.0, "delta": 1e-5, "order": 10.0, "answered": [True, False]}
    smooth_release(votes, **terms)
    with pytest.raises(InputError):
        smooth_release(votes, **(terms | bad))


def test_more_bad_arguments_are_refused():
    with pytest.raises(TaskError):
        noisy_maximum_curve(40.0, 1, 10.0)
    with pytest.raises(PredictionsError):
        threshold_sensitivities(31, 30, 10, 2.0, 3.0)
    for beta in (0.0, 0.1):
        with pytest.raises(TaskError):
            gnss_rdp(beta, 5.0, 10.0)
