"""The data-dependent analysis against published figures and numerical integration."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, special, stats

from sedml.errors import PredictionsError, TaskError
from sedml.lab.data_dependent import analyse, gnmax_rdp, log_answered, log_other_class, threshold_rdp


@dataclass(frozen=True)
class Published:
    """A line of P18's Table 1: its terms, and what came out."""

    data: str
    threshold: int
    sigma1: float
    queries: int
    delta: float
    epsilon: float
    within: float
    independent: float
    answered: int


TABLE1 = [
    # MNIST: Confident-GNMax T=200, sigma1=150, sigma2=40, 286 of 640 answered, epsilon 1.97.
    Published("mnist", 200, 150.0, 640, 1e-5, 2.00, 0.06, 3.16, 286),
    # SVHN: T=300, sigma1=200, sigma2=40, 3,098 of 8,500 answered, epsilon 4.96.
    Published("svhn", 300, 200.0, 8500, 1e-6, 4.92, 0.10, 12.4, 3098),
]


@pytest.mark.parametrize("line", TABLE1, ids=lambda line: line.data)
def test_published_figures(published_votes, line):
    votes = published_votes(line.data)[: line.queries]
    found = analyse(votes, threshold=line.threshold, sigma1=line.sigma1, sigma2=40.0, delta=line.delta)
    assert found.queries == line.queries
    assert found.epsilon == pytest.approx(line.epsilon, abs=line.within)
    assert found.independent == pytest.approx(line.independent, rel=0.003)
    assert found.answered == pytest.approx(line.answered, rel=0.05)
    assert found.epsilon_cks < found.epsilon < found.independent
    assert found.epsilon_cks < found.independent_cks < found.independent


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


# ---- Bad input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "votes", [[1, 2, 3], [[1.5, 2.5]], [[3, -1], [1, 1]], [[3, 1], [1, 1]], [[5]], np.zeros((0, 3), int)], ids=str
)
def test_bad_votes_are_refused(votes):
    with pytest.raises(PredictionsError):
        analyse(votes, threshold=1, sigma1=1.0, sigma2=1.0, delta=1e-5)


@pytest.mark.parametrize("bad", [{"sigma1": 0.0}, {"sigma2": math.nan}, {"delta": 0.0}, {"delta": 1.0}], ids=str)
def test_bad_terms_are_refused(bad):
    terms = {"threshold": 1, "sigma1": 1.0, "sigma2": 1.0, "delta": 1e-5}
    with pytest.raises(TaskError):
        analyse([[3, 1], [2, 2]], **(terms | bad))
