"""What a job is charged to a budget that was fixed at one Rényi order.

Charges are in units of rho = D_α/α, so at that order they add up with those of zCDP, whose rho bounds D_α/α at every
order. There are two ways to charge a job (`sedml.privacy.exact.costs`), both proven for the requester's view and for
each server's own:

- by answer: reserved as if all samples were answered, and what unanswered ones did not cost is given back;
- joint: the same for every sample, answered or not. Less is reserved, and nothing is given back.

Which of the two must be settled before the first bit is opened. What was reserved tells it: `settled`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sedml.privacy.exact import SampleCost, ledger_costs
from sedml.privacy.noise import server_sigma, table_distance

__all__ = ["SAMPLER_SHARE", "JobCharges", "best_order", "job_charges"]

SAMPLER_SHARE = 1 / 64
"""The share of a budget's delta that is for samplers, which are not exact, unless somebody says otherwise."""
_UP = 1.0 + 1e-12  # more than a few roundings of doubles take off


@dataclass(frozen=True)
class JobCharges:
    """Both ways to charge one job at one order."""

    samples: int
    by_answer: SampleCost
    joint: SampleCost
    order: float
    distance: float
    """The sum over all draws of their distance from exact noise."""

    @property
    def rho(self) -> float:
        """What to reserve by answer."""
        dearest = max(self.by_answer.unanswered, self.by_answer.answered)
        return self._rho(self.samples * dearest)

    @property
    def joint_rho(self) -> float:
        """What to reserve where that does not fit."""
        return self._rho(self.joint.job(self.samples, self.samples))

    def settled(self, reserved: float, answered: int) -> float | None:
        """What a job with such a reservation has cost; None for all of it.

        A reservation of less than `rho` was joint, or by the rules of an earlier release: nothing is given back.
        """
        if reserved < self.rho:
            return None
        return min(reserved, self._rho(self.by_answer.job(self.samples, answered)))

    def _rho(self, divergence: float) -> float:
        return divergence / self.order * _UP


def job_charges(samples: int, classes: int, sigma1: float, sigma2: float, order: float) -> JobCharges:
    """What a job costs at an order. Takes up to seconds the first time; hold no lock meanwhile."""
    by_answer, joint = ledger_costs(sigma1, sigma2, order)
    each = max(table_distance(server_sigma(sigma)) for sigma in (sigma1, sigma2))
    return JobCharges(samples, by_answer, joint, order, 2 * samples * (1 + classes) * each)


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
