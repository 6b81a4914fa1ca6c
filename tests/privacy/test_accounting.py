"""The accountant against numerical integration, exact sums over the discrete noise, and dp-accounting."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from sedml.errors import TaskError
from sedml.privacy.accounting import job_epsilon, job_report
from sedml.privacy.conversion import (
    epsilon_with_sampler,
    order_epsilon,
    sampler_delta,
    zcdp_epsilon,
    zcdp_order,
    zcdp_rho,
)
from sedml.privacy.noise import noise_table, server_sigma
from sedml.privacy.zcdp import CHECK, LABEL, noise_rho, tau

repeatable = settings(derandomize=True, deadline=None, max_examples=60)

# Those between take long, and are no different. Each server's half of the noise is above 200 in the second range, where
# labels are charged by zCDP: across that border more noise does cost more.
sigmas = st.one_of(st.floats(0.3, 12.0), st.floats(284.0, 500.0))
deltas = st.floats(1e-12, 0.1)
rhos = st.floats(1e-8, 1e3)


# ---- Conversions the other way, by SciPy ------------------------------------------------------------


def zcdp_delta(rho: float, epsilon: float) -> float:
    """delta at epsilon of rho-zCDP: the least over all orders of Canonne, Kamath & Steinke 2020, Cor 13."""

    def log_delta(log_x: float) -> float:
        x = math.exp(log_x)
        return x * ((1 + x) * rho - epsilon + log_x - math.log1p(x)) - math.log1p(x)

    if rho == 0.0:
        return 0.0
    return math.exp(min(0.0, optimize.minimize_scalar(log_delta, bounds=(-60, 60), method="bounded").fun))


# ---- The noise, summed up exactly -------------------------------------------------------------------


def discrete_gaussian(sigma: float) -> np.ndarray:
    """P(-n), ..., P(n), as far as a double reaches."""
    reach = np.arange(-math.ceil(38 * sigma) - 2, math.ceil(38 * sigma) + 3)
    weights = np.exp(-(reach**2) / (2 * sigma**2))
    return weights / weights.sum()


def noise_law(sigma: float, parts: int) -> np.ndarray:
    law = discrete_gaussian(sigma / math.sqrt(parts))
    return law if parts == 1 else np.convolve(law, law)


def exact_losses(sigma: float, parts: int, moves: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and privacy losses of so many counts against their shifted noise, without any bound.

    The noise on one count has weight exp(-z²/2σ²) times a factor of the parity of z, which is 1 unless z is
    the sum of two. So the loss depends on the sum and on how many are even, whose joint law is convolved here.
    """
    law = noise_law(sigma, parts)
    reach = law.size // 2
    z = np.arange(-reach, reach + 1)
    parity = math.log(law[reach] / law[reach + 1]) - 1 / (2 * sigma**2)
    table = np.zeros((1, 1))
    table[0, 0] = 1.0
    for _ in range(moves):
        even = np.array([np.convolve(row, np.where(z % 2 == 0, law, 0)) for row in table])
        odd = np.array([np.convolve(row, np.where(z % 2 == 1, law, 0)) for row in table])
        table = np.vstack([odd, np.zeros_like(odd[:1])]) + np.vstack([np.zeros_like(even[:1]), even])
    total = np.arange(table.shape[1]) - table.shape[1] // 2
    evens = np.arange(moves + 1)[:, np.newaxis]
    losses = moves / (2 * sigma**2) - total / sigma**2 + parity * (2 * evens - moves)
    keep = table > 1e-22
    return table[keep], losses[keep]


def exact_delta(samples: int, sigma: float, parts: int, epsilon: float) -> float:
    """The hockey-stick divergence of the noisy counts of a whole job, and the little that was left out."""
    chance, loss = exact_losses(sigma, parts, LABEL * samples)
    above = loss > epsilon
    return float(chance[above] @ -np.expm1(epsilon - loss[above]))


def exact_hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


@pytest.mark.parametrize("job", [(1, 0.75), (2, 0.8), (3, 1.0), (2, 1.5), (3, 2.0), (2, 9.0)], ids=str)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-9])
@pytest.mark.parametrize("parts", [1, 2])
def test_zcdp_holds_for_the_real_discrete_noise(job, delta, parts):
    samples, sigma = job
    assert exact_delta(samples, sigma, parts, zcdp_epsilon(samples * noise_rho(LABEL, sigma, parts), delta)) <= delta


@pytest.mark.parametrize("sigma", [0.75, 0.8, 1.0, 1.4, 2.0, 5.0])
@pytest.mark.parametrize("moved", [CHECK, LABEL])
@pytest.mark.parametrize("parts", [1, 2])
def test_renyi_divergence_of_the_noise_is_below_alpha_rho(moved, sigma, parts):
    law = noise_law(sigma, parts)
    p, q = np.append(law, 0.0), np.insert(law, 0, 0.0)
    both = (p > 1e-290) & (q > 1e-290)
    for alpha in (1.001, 1.5, 2.0, 3.0, 8.0):
        one = math.log(np.sum(np.exp(alpha * np.log(p[both]) + (1 - alpha) * np.log(q[both])))) / (alpha - 1)
        assert moved * one <= alpha * noise_rho(moved, sigma, parts) * (1 + 1e-9)


def test_two_servers_cost_nothing_extra_at_useful_widths_and_something_at_tiny_ones():
    assert noise_rho(CHECK, 8.0, 2) == noise_rho(CHECK, 8.0) == 1 / 128
    assert noise_rho(LABEL, 8.0, 2) == noise_rho(LABEL, 8.0) == 1 / 64
    assert noise_rho(CHECK, 1.0, 2) > noise_rho(CHECK, 1.0) == 0.5
    # Below KLS21's s >= 1/2 the bound is that of one server's noise.
    assert noise_rho(CHECK, 0.6, 2) == pytest.approx(2 * noise_rho(CHECK, 0.6))


def test_tau_is_the_sum_of_the_paper_or_just_above_it():
    def direct(s: float, n: int) -> float:
        k = np.arange(1, n)
        return 10 * float(np.exp(-2 * (math.pi * s) ** 2 * k / (k + 1)).sum())

    assert tau(0.5, 1) == 0.0
    assert tau(0.7, 2) == pytest.approx(10 * math.exp(-((math.pi * 0.7) ** 2)))
    assert tau(0.6, 900) == pytest.approx(direct(0.6, 900))


@pytest.mark.parametrize("sigma", [0.5, 0.55, 0.8, 1.2])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_sums_of_discrete_gaussians_are_within_half_tau_of_one(sigma, count):
    total = law = discrete_gaussian(sigma)
    for _ in range(count - 1):
        total = np.convolve(total, law)
    z = np.arange(total.size) - total.size // 2
    one = np.exp(-(z**2) / (2 * count * sigma**2))
    seen = total > 1e-200
    ratio = np.log(total[seen]) - np.log(one[seen] / one.sum())
    assert np.abs(ratio).max() <= 0.5 * tau(sigma, count) + 1e-12


# ---- Conversions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 1.0, 20.0, 1e4])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
def test_zcdp_conversion_is_the_best_over_all_orders(rho, delta):
    orders = 1 + np.logspace(-6, 9, 40001)
    best = max(0.0, min(rho * orders + (-math.log(delta) - np.log(orders)) / (orders - 1) + np.log1p(-1 / orders)))
    found = zcdp_epsilon(rho, delta)
    assert found <= best * (1 + 1e-9)
    assert found == pytest.approx(best, rel=1e-4, abs=1e-9)
    if found > 0:
        assert zcdp_delta(rho, found) == pytest.approx(delta, rel=1e-6)


@repeatable
@given(rho=rhos, delta=deltas)
def test_conversions_are_inverse_to_each_other(rho, delta):
    zcdp = zcdp_epsilon(rho, delta)
    assert zcdp_delta(rho, zcdp) <= delta * (1 + 1e-6)
    assert order_epsilon(zcdp_order(rho, delta), rho * zcdp_order(rho, delta), delta) == zcdp
    if zcdp > 0:
        assert zcdp_rho(zcdp, delta) == pytest.approx(rho, rel=1e-6)


def test_extremes_are_numbers_and_not_exceptions():
    assert zcdp_epsilon(0.0, 1e-5) == 0.0
    assert zcdp_epsilon(math.inf, 1e-5) == math.inf
    assert 0 <= zcdp_epsilon(1e-300, 1e-300) < 1e-100
    assert zcdp_epsilon(1e6, 5e-324) > 1e6
    assert job_report(10, 1e-3, 1e-5).epsilon > 1e6
    assert job_report(0, 40.0, 1e-5, classes=10).epsilon == 0.0


# ---- dp-accounting ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("samples", "sigma", "delta"), [(640, 40.0, 1e-5), (8500, 150.0, 1e-6), (1000, 40.0, 1e-5)])
def test_figures_agree_with_dp_accounting(samples, sigma, delta):
    dp = pytest.importorskip("dp_accounting", reason="dp-accounting is not installed")
    rdp = pytest.importorskip("dp_accounting.rdp")
    # Its noise multiplier is sigma / sensitivity: two counts, and one server's half of the variance.
    composed = dp.SelfComposedDpEvent(dp.GaussianDpEvent(sigma / 2), samples)
    ours = job_report(samples, sigma, delta)
    orders = np.linspace(1.5, 60, 2000)
    by_rdp = rdp.RdpAccountant(orders).compose(composed).get_epsilon(delta)
    assert ours.epsilon_zcdp == pytest.approx(by_rdp, rel=1e-4)
    assert ours.epsilon < 0.8 * ours.epsilon_zcdp <= by_rdp


# ---- Reports ----------------------------------------------------------------------------------------


@settings(repeatable, max_examples=30)
@given(samples=st.integers(0, 10**6), sigma=sigmas, delta=deltas, classes=st.sampled_from([None, 10]))
def test_figures_are_ordered(samples, sigma, delta, classes):
    report = job_report(samples, sigma, delta, classes=classes)
    assert 0 <= report.epsilon_apart <= report.epsilon <= report.epsilon_zcdp
    if classes is not None:
        assert job_epsilon(samples, sigma, delta, classes=classes) == report.epsilon


@settings(repeatable, max_examples=10)
@given(
    samples=st.integers(1, 10**5),
    sigma=sigmas,
    delta=deltas,
    factor=st.floats(1.01, 3.0),
    more=st.integers(1, 1000),
)
def test_more_noise_and_fewer_samples_never_cost_more(samples, sigma, delta, factor, more):
    base = job_report(samples, sigma, delta)
    cheaper = [job_report(samples, sigma * factor, delta), job_report(samples, sigma, min(0.99, delta * factor))]
    dearer = job_report(samples + more, sigma, delta)
    for name in ("epsilon", "epsilon_apart"):
        figure = getattr(base, name)
        slack = max(1e-3 * figure, 2e-3)  # the order is on a grid, which shows most where epsilon is small
        for other in cheaper:
            assert getattr(other, name) <= figure + slack
        assert getattr(dearer, name) >= figure - slack


# ---- The sampler ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "cut"), [(2.0, 9), (1.0, 5), (4.0, 22)])
def test_cut_tails_are_paid_for_by_delta(sigma, cut):
    law = discrete_gaussian(sigma)
    middle = law.size // 2
    rest = law[middle - cut : middle + cut + 1]
    distance = float(1 - rest.sum())
    cut_law = rest / rest.sum()  # its distance from the full law is exactly the mass of the tails
    p, q = np.append(cut_law, 0.0), np.insert(cut_law, 0, 0.0)
    rho, delta = 1 / (2 * sigma**2), 300 * distance
    epsilon = epsilon_with_sampler(lambda part: zcdp_epsilon(rho, part), delta, 1, distance)
    assert epsilon < math.inf
    assert exact_hockey_stick(p, q, epsilon) <= delta
    assert sampler_delta(epsilon, 1, distance) == pytest.approx((1 + math.exp(epsilon)) * distance)
    assert zcdp_delta(rho, epsilon) + sampler_delta(epsilon, 1, distance) <= delta * (1 + 1e-9)
    # At most what was left of delta would do without the cut: the tails are really in it.
    assert epsilon > zcdp_epsilon(rho, delta)


def test_a_sampler_too_coarse_for_delta_leaves_no_claim():
    report = job_report(1000, 4.0, 1e-5, classes=10)
    assert report.epsilon == report.delta_sampler == math.inf  # (1 + e^120) times what was cut is above delta
    assert job_report(1000, 4.0, 1e-5).epsilon < 200


def test_draws_are_those_of_the_one_honest_server():
    report, exact = job_report(640, 40.0, 1e-5, classes=10), job_report(640, 40.0, 1e-5)
    distance = 6400 * noise_table(server_sigma(40.0)).distance
    assert distance * (1 + math.exp(report.epsilon)) <= report.delta_sampler < 1e-12
    assert exact.epsilon <= report.epsilon < exact.epsilon * 1.0001


# ---- Bad input --------------------------------------------------------------------------------------

GOOD = {"samples": 100, "sigma": 40.0, "delta": 1e-5}


@pytest.mark.parametrize(
    "bad",
    [
        *({"sigma": value} for value in (0.0, -1.0, math.nan, math.inf)),
        *({"delta": value} for value in (0.0, 1.0, 1.5, -1e-5, math.nan)),
        *({"samples": value} for value in (-1, 10.5, math.nan, 2**60)),
        {"classes": 0},
    ],
    ids=str,
)
def test_bad_terms_are_refused_with_what_and_do(bad):
    with pytest.raises(TaskError) as caught:
        job_report(**(GOOD | bad))
    assert caught.value.what
    assert caught.value.do


@pytest.mark.parametrize(
    "call",
    [
        lambda: noise_rho(CHECK, 0.0),
        lambda: noise_rho(LABEL, -1.0),
        lambda: noise_rho(LABEL, 1.0, 0),
        lambda: zcdp_epsilon(-1.0, 1e-5),
        lambda: order_epsilon(2.0, math.nan, 1e-5),
        lambda: sampler_delta(1.0, -1, 0.1),
        lambda: sampler_delta(1.0, 1, -1e-18),
        lambda: sampler_delta(1.0, 1, math.nan),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(TaskError):
        call()


def test_numpy_numbers_are_welcome_and_reports_frozen():
    report = job_report(np.int64(100), np.float64(40.0), 1e-5)
    assert type(report.samples) is int
    assert report == job_report(100, 40.0, 1e-5)
    with pytest.raises(FrozenInstanceError):
        report.epsilon = 0.0  # type: ignore[misc]
    cost = "epsilon 1.7 for each organisation at delta 1e-05"
    assert repr(report) == f"<PrivacyReport: 100 samples, {cost}; 1.16 if neither operator colludes>"


@pytest.mark.parametrize("sigma", [5e-324, 1e-160, 2.5e-154, 1e-100, 1e-10, 1e-5])
@pytest.mark.parametrize("delta", [5e-324, 1e-5, 1 - 2**-53])
def test_costs_beyond_all_measure_are_numbers_still(sigma, delta):
    report = job_report(10**8, sigma, delta)
    assert min(report.epsilon, report.epsilon_apart, report.epsilon_zcdp) > 1e6
