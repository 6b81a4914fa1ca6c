"""Whole units, rounding, and the limits that follow from (epsilon, delta)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from sedml.errors import PrivacyError
from sedml.privacy.conversion import order_epsilon, zcdp_epsilon
from sedml.privacy.ledger.amounts import NOTHING, RHO_BITS, budget
from sedml.privacy.ledger.books import Account
from sedml.privacy.noise import noise_table

EPSILONS = st.floats(1e-4, 1000.0)
DELTAS = st.floats(1e-30, 0.999)
PROMISED = budget(2.0, 1e-5)


def cks_epsilon(rho: float, delta: float) -> float:
    """Canonne, Kamath & Steinke 2020, Cor. 13, minimised by somebody else's optimiser."""

    def at(log_x: float) -> float:
        a = 1.0 + math.exp(log_x)
        return a * rho + math.log(1.0 / (a * delta)) / (a - 1.0) + math.log1p(-1.0 / a)

    # Convex only around its minimum, so the best of a grid brackets it.
    grid = np.linspace(-20.0, min(40.0, 2.0 - math.log(delta)), 2000)
    best = int(np.argmin([at(point) for point in grid]))
    bracket = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    return float(optimize.minimize_scalar(at, bounds=bracket, method="bounded").fun)


@pytest.mark.parametrize(("epsilon", "delta"), [(2.0, 1e-5), (0.1, 1e-6), (8.0, 1e-9), (50.0, 1e-5), (1.0, 0.5)])
def test_the_limit_is_what_cks20_allows_and_no_more(epsilon, delta):
    promised = budget(epsilon, delta)
    rho, _ = promised.floats(promised.limit)
    assert cks_epsilon(rho, delta * 63 / 64) == pytest.approx(epsilon, abs=1e-6)


@given(EPSILONS, DELTAS)
def test_the_limit_is_sound_and_tight(epsilon, delta):
    promised = budget(epsilon, delta)
    rho, distance = promised.floats(promised.limit)
    at_the_order = order_epsilon(promised.order, promised.order * rho, promised.delta_mechanism)
    assert zcdp_epsilon(rho, promised.delta_mechanism) <= at_the_order + 1e-9
    assert at_the_order <= epsilon * (1 + 1e-12) + 1e-11
    assert zcdp_epsilon(rho * (1 + 1e-6) + 2.0**-37, promised.delta_mechanism) >= epsilon - 1e-11
    # Of the sampler's part the whole is used, but for rounding.
    allowed = delta / 64 / (1.0 + math.exp(min(epsilon, 709.0)))
    assert distance <= allowed * (1 + 1e-12)
    assert distance >= allowed * (1 - 1e-12) or epsilon > 600.0  # there a float has few digits left, or none
    assert promised.limit.distance == 0 or 2**59 <= promised.limit.distance < 2**60


@given(st.floats(0.0, 1e3), st.floats(0.0, 1.0))
def test_charges_are_rounded_up_by_less_than_one_unit(rho, distance):
    cost = PROMISED.charge(rho, distance * 1e-8)
    assert 0 <= cost.rho - Fraction(rho) * 2**RHO_BITS < 1
    assert 0 <= cost.distance - Fraction(distance * 1e-8) * 2**PROMISED.distance_bits < 1


@pytest.mark.parametrize("rho", [np.float64(0.1), np.float32(0.1), Fraction(1, 10), 3, np.int64(3), 2**60 + 1])
def test_other_kinds_of_numbers_are_never_rounded_down(rho):
    exact = Fraction(rho) if isinstance(rho, int | Fraction) else Fraction(float(rho))
    assert PROMISED.charge(rho, 0.0).rho >= min(2**62, exact * 2**RHO_BITS)


@pytest.mark.parametrize("rho", [math.inf, 10**400, 1e300])
def test_no_budget_meets_an_infinite_charge(rho):
    promised = budget(1000.0, 0.9)
    assert not promised.charge(rho, 0.0).within(promised.limit)
    assert not promised.charge(0.0, rho).within(promised.limit)


@pytest.mark.parametrize(("epsilon", "samples"), [(2.0, 10**8), (5.0, 10**7), (12.0, 10_000)])
def test_samplers_that_are_cut_at_nine_sigmas_fit_under_sensible_epsilons(epsilon, samples):
    promised = budget(epsilon, 1e-5)
    cost = promised.charge(0.0, samples * 10 * noise_table(28.3).distance)
    assert cost.within(promised.limit)
    assert cost.distance > 0


@given(st.lists(st.floats(0.0, 0.05), max_size=30))
def test_adding_up_never_loses_anything(rhos):
    total = NOTHING
    for rho in rhos:
        total += PROMISED.charge(rho, 0.0)
    assert Fraction(total.rho, 2**RHO_BITS) >= sum(map(Fraction, rhos))
    assert PROMISED.floats(total)[0] == Fraction(total.rho, 2**RHO_BITS)  # and is exact when shown


@pytest.mark.parametrize("value", [-1e-300, -1.0, math.nan, -math.inf, True, "1", None, 1j])
def test_bad_charges(value):
    for arguments in ((value, 0.0), (0.0, value)):
        with pytest.raises(PrivacyError):
            PROMISED.charge(*arguments)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1001.0, "2", None, True, 10**400])
def test_bad_epsilons(epsilon):
    with pytest.raises(PrivacyError, match="epsilon"):
        budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, math.nan, math.inf, "1e-5"])
def test_bad_deltas(delta):
    with pytest.raises(PrivacyError, match="delta"):
        budget(1.0, delta)


def test_a_budget_below_one_unit_is_refused():
    with pytest.raises(PrivacyError, match="too small"):
        budget(1e-9, 1e-12)


def test_the_parts_of_a_status_sum_to_the_budget():
    shown = Account(1, "c", PROMISED, PROMISED.charge(0.02, 1e-9), PROMISED.charge(0.03, 2e-9)).status()
    for part in (shown.rho, shown.distance):
        assert part.spent + part.reserved + part.left == pytest.approx(part.budget, rel=1e-12)
        assert min(part.spent, part.reserved, part.left) > 0.0
    assert shown.used == pytest.approx(0.05 / shown.rho.budget)
    assert (shown.epsilon, shown.order) == (2.0, PROMISED.order)


@given(st.floats(0.0, 1.0))
def test_an_epsilon_and_the_units_within_it_go_together(part):
    least = PROMISED.least_epsilon
    epsilon = least + part * (2.0 - least)
    units = PROMISED.rho_within(epsilon)
    assert 0 <= units <= PROMISED.limit.rho
    assert PROMISED.epsilon_of(units) <= epsilon
    assert PROMISED.epsilon_of(units + 4) >= min(2.0, epsilon) - 1e-12
    assert PROMISED.epsilon_of(0) == 0.0
