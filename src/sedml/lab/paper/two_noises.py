"""What a job of the paper's Algorithm 1 costs: a noise for the check and another one for the label.

What is released, a bit and an argmax, is charged as that, check and label of a sample together (`joint_divergence`),
for the requester, with every sample answered and the noise of both servers, who follow the protocol. The package's own
protocol has one noise, and its own figures (`sedml.privacy.accounting`).

A check says yes with the term t1(k) of M = t1 + t0, at the worst k; a label that costs at most L multiplies t1 by
exp((α-1) L). Where the check is costly the sample is answered half of the time only, so check and label together cost
little more than the label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sedml.privacy.accounting import RELEASED, good_order
from sedml.privacy.conversion import check_delta, epsilon_with_sampler, order_epsilon, zcdp_epsilon
from sedml.privacy.exact import argmax_divergence, check_divergence
from sedml.privacy.exact.check import window
from sedml.privacy.noise import server_sigma, table_distance
from sedml.privacy.zcdp import CHECK, LABEL, inverse_square, noise_rho, whole

__all__ = [
    "TwoNoises",
    "classic_epsilon",
    "joint_divergence",
    "paper_epsilon",
    "two_noises_epsilon",
    "two_noises_report",
]

_SERVERS = 2
_MOST = 500.0
"""exp of this is still far from the largest double."""


@dataclass(frozen=True)
class TwoNoises:
    """What a job costs by three accounts."""

    samples: int
    sigma1: float
    sigma2: float
    delta: float
    epsilon: float
    """As the noise is drawn here, for the requester."""
    paper_query: float
    """The paper's formula, for one query."""
    paper_job: float
    """The paper's formula, composed over all samples."""


def two_noises_report(
    samples: int, sigma1: float, sigma2: float, delta: float, *, classes: int | None = None
) -> TwoNoises:
    """All accounts of a job; without classes, as if noise were exact."""
    epsilon = two_noises_epsilon(samples, sigma1, sigma2, delta, classes=classes)
    query, job = (paper_epsilon(sigma1, sigma2, delta, queries) for queries in (1, samples))
    return TwoNoises(samples, sigma1, sigma2, delta, epsilon, query, job)


def classic_epsilon(rho: float, delta: float) -> float:
    """rho + 2 sqrt(rho log(1/delta)): Bun & Steinke 2016, Prop 1.3, and the paper's way from zCDP to epsilon."""
    check_delta(delta)
    return rho + 2.0 * math.sqrt(rho * -math.log(delta))


def paper_epsilon(sigma1: float, sigma2: float, delta: float, queries: int = 1) -> float:
    """The paper's theorem, √(2(9/σ1² + 2/σ2²) log(1/δ)) + (9/(2σ1²) + 1/σ2²), over a number of queries.

    The theorem is for one query, of RDP α(9/(2σ1²) + 1/σ2²). RDP adds up: k queries have k times that.
    """
    rho = 4.5 * inverse_square(sigma1) + inverse_square(sigma2)
    return classic_epsilon(rho * times if (times := whole(queries)) else 0.0, delta)


def joint_divergence(sigma1: float, sigma2: float, order: float, label: float | None = None) -> float:
    """At least D_α of a check and, where it says yes, a label; a guess of what a `label` costs saves time."""
    one, two = sigma1 / math.sqrt(_SERVERS), sigma2 / math.sqrt(_SERVERS)
    if label is None:
        label = argmax_divergence(two, _SERVERS, order)
    apart, found = check_divergence(one, _SERVERS, order) + label, window(one, _SERVERS, order)
    if found is None or (order - 1) * label > _MOST:
        return apart
    weight = math.exp((order - 1) * label)
    with np.errstate(over="ignore"):  # beyond all numbers it is the other bound that counts
        inside = max(float((no + weight * yes).max()) for no, yes in zip(found.no, found.yes, strict=True))
    outside = max(weight * found.likely + found.unlikely, found.likely + weight * found.unlikely)
    return min(apart, math.log(max(inside, outside)) / (order - 1) + found.error)


def two_noises_epsilon(
    samples: int, sigma1: float, sigma2: float, delta: float, *, classes: int | None = None
) -> float:
    """What a job costs the teachers, as the requester sees it; without classes, as if noise were exact."""
    check_delta(delta)
    draws = _SERVERS * whole(samples) * (1 + (classes or 0))
    distance = 0.0 if classes is None else max(table_distance(server_sigma(sigma)) for sigma in (sigma1, sigma2))
    rho = samples * (noise_rho(CHECK, sigma1, _SERVERS) + noise_rho(LABEL, sigma2, _SERVERS)) if samples else 0.0
    epsilon = epsilon_with_sampler(lambda part: zcdp_epsilon(rho, part), delta, draws, distance)
    first = good_order(RELEASED * rho, delta)
    if not 1.0 < first < math.inf:
        return epsilon
    guess = samples * joint_divergence(sigma1, sigma2, first, RELEASED * first * inverse_square(sigma2))
    order = good_order(guess / first, delta)
    if order > 1.0:
        divergence = samples * joint_divergence(sigma1, sigma2, order)
        exact = epsilon_with_sampler(lambda part: order_epsilon(order, divergence, part), delta, draws, distance)
        epsilon = min(epsilon, exact)
    return epsilon
