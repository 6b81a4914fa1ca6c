"""Exact bounds on probabilities by counting: Clopper & Pearson (Biometrika 1934), and what they say about epsilon."""

from __future__ import annotations

import math

import numpy as np

from sedml.errors import TaskError


def epsilon_lower(hits: int, other: int, trials: int, delta: float, confidence: float) -> float:
    """The bound from the hits of one event, fixed beforehand, in so many runs of either neighbour."""
    alpha = 0.5 * (1.0 - confidence)
    excess = binomial_lower(hits, trials, alpha) - delta
    return max(0.0, math.log(excess / binomial_upper(other, trials, alpha))) if excess > 0.0 else 0.0


def binomial_upper(hits: int, trials: int, alpha: float) -> float:
    """Clopper and Pearson's upper bound on p, below p with probability alpha at most."""
    return 1.0 - binomial_lower(trials - hits, trials, alpha)


def binomial_lower(hits: int, trials: int, alpha: float) -> float:
    """Clopper and Pearson's lower bound: the p at which so many hits or more have probability alpha.

    Bisection on that tail; the lower end of the last bracket is returned. Below p = hits/trials its terms fall, and
    so do the ratios of one to the one before: the last and what is cut off are at most a geometric series. `slack`
    covers `lgamma`, which is good to a few units in the last place of log(trials!).
    """
    if not 0 <= hits <= trials or not 0.0 < alpha < 1.0 or trials < 1:
        raise TaskError(
            f"{hits} hits in {trials} trials at alpha {alpha} are impossible.", "Use 0 < alpha < 1 and hits <= trials."
        )
    j = np.arange(hits, min(trials, hits + 64 + int(12 * math.sqrt(hits))) + 1)
    steps = (trials - j) / (j + 1.0)
    ways = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
    slack = 2.0**-46 * (1.0 + math.lgamma(trials + 1))
    low, high = 0.0, hits / trials
    while low < (p := 0.5 * (low + high)) < high:
        ratios = steps * (p / (1.0 - p))
        terms = np.cumprod(ratios)
        others = terms[:-1].sum() + terms[-1] / (1.0 - ratios[-1])
        log_tail = ways + hits * math.log(p) + (trials - hits) * math.log1p(-p) + math.log1p(others)
        low, high = (p, high) if log_tail + slack <= math.log(alpha) else (low, p)
    return low
