"""What jobs are charged at the order of a budget: what the requester and one operator together can learn."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.privacy.accounting import job_report
from sedml.privacy.charging import best_order, job_charge
from sedml.privacy.exact import argmax_divergence, folded_divergence
from sedml.privacy.ledger import Ledger
from sedml.privacy.noise import noise_table, server_sigma


@settings(max_examples=25, deadline=None)
@given(sigma=st.floats(4.0, 60.0), samples=st.integers(1, 5000), epsilon=st.sampled_from([0.5, 1.0, 3.0]))
def test_a_job_is_charged_its_samples_whatever_comes_of_them(sigma, samples, epsilon):
    order, own = best_order(epsilon, 1e-5), server_sigma(sigma)
    cost = job_charge(samples, 10, sigma, order)
    assert cost.rho * order >= samples * folded_divergence(own, order)
    assert cost.rho * order >= samples * argmax_divergence(own, 2, order)  # and so for the requester alone
    assert cost.distance >= 10 * samples * noise_table(own).distance
    assert job_charge(2 * samples, 10, sigma, order).rho <= 2 * cost.rho * (1 + 1e-9)


def test_a_budget_is_used_up_by_about_the_job_that_costs_it(tmp_path):
    with Ledger.open(tmp_path / "l.db") as ledger:
        order = ledger.set_budget("c", 1.0, 1e-5).order
        samples = 1
        while job_charge(samples + 1, 10, 54.0, order).rho <= ledger.status("c").rho.left:
            samples += 1
        cost = job_charge(samples, 10, 54.0, order)
        ledger.reserve("c", "j", cost.rho, cost.distance)
        assert ledger.status("c").used > 0.98
    assert 0.98 < job_report(samples, 54.0, 1e-5, classes=10).epsilon <= 1.002


@given(st.floats(0.01, 100.0), st.floats(1e-12, 0.1))
def test_no_other_order_leaves_more_room(epsilon, delta):
    def room(order):
        x = order - 1.0
        return (epsilon - (-math.log(delta) - math.log(order)) / x - math.log(x / order)) / order

    best = best_order(epsilon, delta)
    assert all(room(1.0 + (best - 1.0) * other) <= room(best) + 1e-9 for other in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0))
