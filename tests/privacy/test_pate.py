"""The data-dependent analysis against published figures, numerical integration and exhaustive search."""

from __future__ import annotations

import itertools
import math
import os
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, special, stats

from sedml.errors import InputError, PredictionsError, TaskError
from sedml.privacy import pate, smooth
from sedml.privacy.pate import analyse, gnmax_rdp, log_answered, log_other_class, threshold_rdp
from sedml.privacy.smooth import (
    NoisyMaximumCurve,
    conditions_hold,
    gnss_rdp,
    noisy_maximum_curve,
    noisy_maximum_sensitivities,
    smooth_release,
    smooth_sensitivity,
    threshold_sensitivities,
)

ROOT = Path(__file__).resolve().parents[2]


def published_votes(name: str) -> np.ndarray:
    """Vote counts of 250 teachers, published with P18."""
    data = Path(os.environ.get("SEDML_DATA_DIR", ROOT.parent / "shared" / "data"))
    path = data / "pate2018_votes" / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"pate2018_votes/{name}.npz is not at hand; set SEDML_DATA_DIR")
    with np.load(path) as file:
        return file["votes"]


# ---- Published figures ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "threshold", "sigma1", "queries", "delta", "dependent", "within", "independent", "answered"),
    [
        # P18 Table 1, MNIST: Confident-GNMax T=200, sigma1=150, sigma2=40, 286 of 640 answered, epsilon 1.97.
        ("mnist", 200, 150.0, 640, 1e-5, 2.00, 0.06, 3.16, 286),
        # P18 Table 1, SVHN: T=300, sigma1=200, sigma2=40, 3,098 of 8,500 answered, epsilon 4.96.
        ("svhn", 300, 200.0, 8500, 1e-6, 4.92, 0.10, 12.4, 3098),
    ],
)
def test_published_figures(name, threshold, sigma1, queries, delta, dependent, within, independent, answered):
    votes = published_votes(name)[:queries]
    found = analyse(votes, threshold=threshold, sigma1=sigma1, sigma2=40.0, delta=delta)
    assert found.queries == queries
    assert found.epsilon == pytest.approx(dependent, abs=within)
    assert found.independent == pytest.approx(independent, rel=0.003)
    assert found.answered == pytest.approx(answered, rel=0.05)
    assert found.epsilon_cks < found.epsilon < found.independent
    assert found.epsilon_cks < found.independent_cks < found.independent


def test_smooth_release_on_published_votes():
    votes = published_votes("mnist")[:640]
    terms = {"threshold": 200, "sigma1": 150.0, "sigma2": 40.0, "delta": 1e-5}
    plain = analyse(votes, **terms, orders=[14.0])
    found = smooth_release(votes, **terms, order=14.0, beta=0.4 / 14, sigma=6.0)
    assert found.epsilon == pytest.approx(plain.epsilon, abs=1e-6)
    assert found.cost == gnss_rdp(0.4 / 14, 6.0, 14.0)
    assert found.release(0.0) == found.epsilon + found.cost
    assert found.release(1.0) - found.release(0.0) == pytest.approx(found.std)
    assert 0.3 < found.std < 0.5
    # Published, it is still better than the data-independent figure.
    assert found.release(0.0) < plain.independent


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


# ---- Numerical integration --------------------------------------------------------------------------


def winner_law(counts: np.ndarray, sigma: float) -> np.ndarray:
    """P[class i has the highest noisy count], by integration."""

    def density(x: float, i: int) -> float:
        others = np.prod(special.ndtr((x - np.delete(counts, i)) / sigma))
        own = math.exp(-0.5 * ((x - counts[i]) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
        return own * float(others)

    spans = [(float(n) - 10 * sigma, float(n) + 10 * sigma) for n in counts]
    return np.array([integrate.quad(density, *spans[i], args=(i,), epsabs=1e-14)[0] for i in range(len(counts))])


def neighbours(counts: np.ndarray) -> list[np.ndarray]:
    unit = np.eye(len(counts), dtype=np.int64)
    pairs = itertools.permutations(range(len(counts)), 2)
    return [counts - unit[i] + unit[j] for i, j in pairs if counts[i] > 0]


@pytest.mark.parametrize("counts", [[30, 5, 1], [24, 9, 3], [14, 12, 10], [36, 0, 0]], ids=str)
def test_theorem_6_bounds_the_true_divergence(counts):
    sigma, orders = 5.0, np.array([1.5, 2.0, 3.0, 6.0])
    votes = np.array(counts)
    law = winner_law(votes, sigma)
    log_q = log_other_class(votes[np.newaxis], sigma)
    assert 1 - law[0] <= math.exp(log_q[0]) + 1e-12
    bound = gnmax_rdp(log_q, sigma, orders)[0]
    assert np.all(bound <= orders / sigma**2 * (1 + 1e-12))
    assert (bound[0] < 0.5 * orders[0] / sigma**2) == (counts[0] >= 30)  # else the theorem does not help
    for other in neighbours(votes):
        changed = winner_law(other, sigma)
        true = [math.log(np.sum(law**a * changed ** (1 - a))) / (a - 1) for a in orders]
        assert np.all(true <= bound + 1e-9)


@pytest.mark.parametrize("highest", [0, 8, 15, 20, 28, 40])
def test_theorem_6_bounds_the_true_divergence_of_the_check(highest):
    sigma, orders = 4.0, np.array([1.5, 2.0, 3.0, 6.0])

    def law(count: int) -> np.ndarray:
        return np.array([stats.norm.sf(18 - count, scale=sigma), stats.norm.cdf(18 - count, scale=sigma)])

    log_p = log_answered(np.array([[highest, 0]]), 18, sigma)
    assert math.exp(log_p[0]) == pytest.approx(law(highest)[0])
    bound = threshold_rdp(log_p, sigma, orders)[0]
    assert np.all(bound <= orders / (2 * sigma**2) * (1 + 1e-12))
    for other in (highest - 1, highest + 1):
        true = [math.log(np.sum(law(highest) ** a * law(other) ** (1 - a))) / (a - 1) for a in orders]
        assert np.all(true <= bound + 1e-12)


def test_certain_outcomes_cost_nothing_and_even_ones_the_full_price():
    orders = np.array([2.0, 10.0])
    assert np.array_equal(gnmax_rdp(np.array([-np.inf]), 3.0, orders), [[0.0, 0.0]])
    assert gnmax_rdp(np.array([math.log(0.5)]), 3.0, orders) == pytest.approx(orders[np.newaxis] / 9)
    assert float(gnmax_rdp(np.array([-1e4]), 3.0, orders).max()) < 1e-300


# ---- Smooth sensitivity by exhaustive search --------------------------------------------------------


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


def test_release_pays_only_for_answered_samples():
    votes = np.array([[200, 30, 20], [100, 80, 70]])
    terms = {"threshold": 150, "sigma1": 60.0, "sigma2": 40.0, "delta": 1e-5}
    chosen = {"order": 10.0, "beta": 0.03, "sigma": 5.0}
    none = smooth_release(votes, **terms, **chosen, answered=[False, False])
    both = smooth_release(votes, **terms, **chosen, answered=[True, True])
    assert none.epsilon < both.epsilon
    assert none.sensitivity <= both.sensitivity
    assert none.cost == both.cost


# ---- Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "votes", [[1, 2, 3], [[1.5, 2.5]], [[3, -1], [1, 1]], [[3, 1], [1, 1]], [[5]], np.zeros((0, 3), int)], ids=str
)
def test_bad_votes_are_refused(votes):
    with pytest.raises(PredictionsError):
        analyse(votes, threshold=1, sigma1=1.0, sigma2=1.0, delta=1e-5)


@pytest.mark.parametrize(
    "bad", [{"sigma1": 0.0}, {"sigma2": math.nan}, {"delta": 0.0}, {"delta": 1.0}, {"orders": [1.0]}], ids=str
)
def test_bad_terms_are_refused(bad):
    terms = {"threshold": 1, "sigma1": 1.0, "sigma2": 1.0, "delta": 1e-5}
    with pytest.raises(TaskError):
        analyse([[3, 1], [2, 2]], **(terms | bad))


@pytest.mark.parametrize(
    "bad",
    [
        {"beta": 0.0},
        {"beta": 0.1},
        {"order": 1.0},
        {"sigma": 0.0},
        {"sigma2": 20.0, "order": 25.0},
        {"answered": [True]},
    ],
    ids=str,
)
def test_a_release_that_is_not_proven_is_refused(bad):
    terms = {"threshold": 100, "sigma1": 60.0, "sigma2": 40.0, "delta": 1e-5}
    chosen = {"order": 10.0, "beta": 0.019, "sigma": 5.0}
    votes = np.zeros((2, 10), np.int64)
    votes[:, 0] = 200
    smooth_release(votes, **terms, **chosen)
    with pytest.raises(InputError):
        smooth_release(votes, **(terms | chosen | bad))


def test_more_bad_arguments_are_refused():
    with pytest.raises(TaskError):
        noisy_maximum_curve(40.0, 1, 10.0)
    with pytest.raises(PredictionsError):
        threshold_sensitivities(31, 30, 10, 2.0, 3.0)


@pytest.mark.parametrize("module", [pate, smooth])
def test_public_names_exist(module):
    assert all(hasattr(module, name) for name in module.__all__)
