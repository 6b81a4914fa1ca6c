"""The accounts of the paper's two noises: its own figures, what the noise drawn here gives, and every sample."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sedml.errors import TaskError
from sedml.lab.paper.two_noises import classic_epsilon, joint_divergence, paper_epsilon, two_noises_report
from sedml.privacy.conversion import zcdp_epsilon


@pytest.mark.parametrize(("sigma", "published"), [(8.13, 2.04), (3.48, 5.035), (2.28, 8.03)])
def test_the_papers_formula_gives_the_papers_figures(sigma, published):
    # SEDML, section "Experiments": epsilon 2.04, 5.035 and 8.03; here sigma is rounded to two places.
    assert paper_epsilon(sigma, sigma, 1e-5) == pytest.approx(published, abs=0.01)
    literal = math.sqrt(2 * (9 / sigma**2 + 2 / sigma**2) * math.log(1e5)) + 9 / (2 * sigma**2) + 1 / sigma**2
    assert paper_epsilon(sigma, sigma, 1e-5) == pytest.approx(literal)


@pytest.mark.parametrize(
    ("job", "epsilon"),
    [((80, 120.0, 54.0), 0.744), ((640, 150.0, 40.0), 3.234), ((1000, 40.0, 40.0), 4.619), ((0, 40.0, 40.0), 0.0)],
)
def test_what_jobs_cost(job, epsilon):
    report = two_noises_report(*job, 1e-5, classes=10)
    assert report.epsilon == pytest.approx(epsilon, abs=6e-4)
    assert (report.paper_query, report.paper_job) == (
        paper_epsilon(*job[1:], 1e-5),
        paper_epsilon(*job[1:], 1e-5, job[0]),
    )


@pytest.mark.parametrize(("sigma1", "sigma2", "order"), [(2.0, 1.4, 3.0), (3.0, 2.1, 5.0)])
def test_no_sample_of_a_few_teachers_costs_more_than_its_charge(sigma1, sigma2, order):
    """Two classes and a threshold, every histogram, by the servers' own law."""

    def law(sigma: float) -> np.ndarray:
        z = np.arange(-60, 61)
        one = np.exp(-(z**2) / sigma**2)
        return np.convolve(one, one) / one.sum() ** 2

    check, label = law(sigma1), law(sigma2)
    difference = np.convolve(label, label)
    bound = joint_divergence(sigma1, sigma2, order)

    def outcomes(first: int, second: int, threshold: int) -> np.ndarray:
        yes = check[check.size // 2 + threshold - max(first, second) :].sum()
        wins = difference[difference.size // 2 + second - first :].sum()  # ties to the first
        return np.array([yes * wins, yes * (1 - wins), 1 - yes])

    worst = 0.0
    for first, second, threshold in itertools.product(range(7), range(1, 7), range(9)):
        p, q = outcomes(first, second, threshold), outcomes(first + 1, second - 1, threshold)
        for one, two in ((p, q), (q, p)):
            worst = max(worst, math.log(np.sum(one**order * two ** (1 - order))) / (order - 1))
    assert 0.5 * bound < worst <= bound


def test_the_classic_conversion_is_the_looser_one():
    for rho in (1e-3, 0.1, 10.0):
        assert zcdp_epsilon(rho, 1e-5) < classic_epsilon(rho, 1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: paper_epsilon(1.0, 1.0, 1e-5, -1),
        lambda: paper_epsilon(0.0, 1.0, 1e-5),
        lambda: two_noises_report(10, 1.0, 1.0, 0.0),
        lambda: two_noises_report(-1, 1.0, 1.0, 1e-5),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(TaskError):
        call()
