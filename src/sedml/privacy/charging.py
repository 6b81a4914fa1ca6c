"""What a job is charged to a budget that was fixed at one Rényi order.

Every sample is charged what it costs the requester and one operator together, with a label or without: so nothing that
is charged depends on votes, and nothing is given back. Charges are in units of rho = D_α/α, so at that order they add
up with those of zCDP, whose rho bounds D_α/α at every order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sedml.privacy.accounting import sample_divergence
from sedml.privacy.noise import server_sigma, table_distance

SAMPLER_SHARE = 1 / 64
"""The share of a budget's delta that is for samplers, which are not exact, unless somebody says otherwise."""
MOST_EPSILON = 1000.0
"""Of a budget: it keeps every rho below 2^10, exact in a float and in 64 bits."""
_UP = 1.0 + 1e-12  # more than a few roundings of doubles take off


@dataclass(frozen=True)
class JobCharge:
    """What one job costs at one order."""

    rho: float
    distance: float
    """The sum over all draws of one server of their distance from exact noise."""


def job_charge(samples: int, classes: int, sigma: float, order: float, moves: int = 1) -> JobCharge:
    """What a job costs, at an order, a unit that moves so many votes on a sample.

    Takes up to seconds the first time; hold no lock meanwhile.
    """
    own = server_sigma(sigma)
    rho = samples * sample_divergence(own, order, moves) / order * _UP
    return JobCharge(rho, samples * classes * table_distance(own))


def best_order(epsilon: float, delta: float, sampler_share: float = 0.0) -> float:
    """The order at which (epsilon, delta) leaves room for the most rho, less a share of delta for the samplers.

    At order α = 1 + x, CKS20 Prop 12 allows rho = (epsilon - (log(1/δ) - log α)/x - log(x/α))/α. Any order gives a
    sound limit, so this one is searched for in floats: {x: rho at x >= any number} is an interval, as log δ is convex
    in α, and a search that drops thirds finds the highest.
    """
    log_inverse = -math.log(delta) - math.log1p(-sampler_share)

    def at(log_x: float) -> float:
        x = math.exp(log_x)
        log_alpha = math.log1p(x)
        return (epsilon - (log_inverse - log_alpha) / x - log_x + log_alpha) / (1.0 + x)

    low, high = -36.0, min(log_inverse, 690.0) + 1.0
    for _ in range(200):
        third = (high - low) / 3.0
        if at(low + third) < at(high - third):
            low += third
        else:
            high -= third
    return 1.0 + math.exp(low)
