"""What jobs are charged at the order of a budget: at least what each covered view costs, whatever the answers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.privacy.charging import best_order, job_charges
from sedml.privacy.exact import argmax_divergence, check_divergence
from sedml.privacy.ledger import Ledger
from sedml.privacy.ledger.amounts import budget

ORDER = budget(1.0, 1e-5).order


def test_the_server_is_covered_where_few_are_answered():
    """Charged by what the requester learns, 100 answers of 1,000 cost less than the bits that a server sees."""
    cost = job_charges(1000, 10, 40.0, 40.0, ORDER)
    server = 1000 * check_divergence(40.0 / math.sqrt(2), 1, ORDER) / ORDER
    by_requester = 1000 * (1 / (2 * 40.0**2)) + 100 / 40.0**2  # zCDP
    assert by_requester == pytest.approx(0.375)
    assert by_requester < server < 0.625  # of zCDP
    assert cost.settled(cost.rho, 100) >= server
    assert cost.joint_rho >= server


@settings(max_examples=25, deadline=None)
@given(
    sigma1=st.floats(4.0, 60.0),
    sigma2=st.floats(4.0, 30.0),
    samples=st.integers(1, 5000),
    part=st.floats(0.0, 1.0),
    epsilon=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_every_number_of_answers_is_charged_at_least_what_each_view_costs(sigma1, sigma2, samples, part, epsilon):
    order = best_order(epsilon, 1e-5)
    cost, answered = job_charges(samples, 10, sigma1, sigma2, order), round(part * samples)
    server = samples * check_divergence(sigma1 / math.sqrt(2), 1, order) / order
    label = argmax_divergence(sigma2 / math.sqrt(2), 2, order) / order
    charged = cost.settled(cost.rho, answered)
    assert max(server, answered * label) <= charged <= cost.rho
    assert max(server, samples * label) <= cost.joint_rho <= cost.rho
    if cost.joint_rho < cost.rho:
        assert cost.settled(cost.joint_rho, answered) is None


@pytest.mark.parametrize("fits", [138])
def test_138_samples_fit_where_80_did(tmp_path, fits):
    with Ledger.open(tmp_path / "l.db") as ledger:
        order = ledger.set_budget("c", 1.0, 1e-5).order
        cost = job_charges(fits, 10, 120.0, 54.0, order)
        taken = ledger.reserve("c", "j", cost.rho, cost.distance, otherwise=cost.joint_rho)
        assert taken.rho < cost.rho
        assert cost.settled(taken.rho, 0) is None
        assert ledger.status("c").used > 0.99
    zcdp = 1 / (2 * 120.0**2) + 1 / 54.0**2
    assert int(budget(1.0, 1e-5).limit.rho * 2.0**-40 / zcdp) == 80


def test_what_was_reserved_by_an_earlier_release_is_not_given_back_where_it_covers_too_little():
    cost = job_charges(100, 10, 20.0, 40.0, ORDER)
    zcdp = 100 * (1 / (2 * 20.0**2) + 1 / 40.0**2)
    assert (cost.settled(zcdp, 0) is None) == (zcdp < cost.rho)
    assert cost.settled(cost.rho * 0.999, 0) is None


@given(st.floats(0.01, 100.0), st.floats(1e-12, 0.1))
def test_no_other_order_leaves_more_room(epsilon, delta):
    def room(order):
        x = order - 1.0
        return (epsilon - (-math.log(delta) - math.log(order)) / x - math.log(x / order)) / order

    best = best_order(epsilon, delta)
    assert all(room(1.0 + (best - 1.0) * other) <= room(best) + 1e-9 for other in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0))
