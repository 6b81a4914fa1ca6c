"""The data-dependent analysis of PATE: what given votes cost, which is less than the worst case.

Where the teachers agree, a noisy vote gives away less than its worst case. Papernot, Song, Mironov,
Raghunathan, Talwar & Erlingsson, "Scalable Private Learning with PATE", ICLR 2018 ("P18", arXiv 1802.08908)
turn that into a smaller epsilon for a given set of votes.

**Not for a deployment.** It needs the plain votes, and on secret shares nobody has them. And the result depends on
the votes, so it is itself private: publish it only through `sedml.lab.smooth_release`. What a job claims comes from
`sedml.privacy.accounting` and never from here.

As in P18, a sample counts with its probability of being answered, so that all figures are expectations, and
the noise is continuous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sedml.errors import PredictionsError
from sedml.privacy.conversion import check_delta, log_ndtr, rdp_epsilon
from sedml.privacy.events import inverse_square

__all__ = [
    "Counts",
    "Floats",
    "VoteAnalysis",
    "analyse",
    "check_counts",
    "gnmax_rdp",
    "log1mexp",
    "log_answered",
    "log_other_class",
    "log_tail",
    "theorem6",
    "threshold_rdp",
]

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_ROWS = 1024  # bounds the memory of (samples, orders)

_ORDERS = np.array([*(1.0 + 0.1 * step for step in range(5, 300)), *(31.0 * 1.02**step for step in range(140))])


@dataclass(frozen=True)
class VoteAnalysis:
    """Expected figures for given votes. All of them are private: they depend on the votes and carry no noise."""

    queries: int
    answered: float
    """Expected number of answered samples."""
    order: float
    """The order at which `epsilon` is best."""
    epsilon: float
    """Of these votes, by the classic conversion that P18 uses."""
    epsilon_cks: float
    """Of these votes, by the tighter conversion of CKS20."""
    independent: float
    """Of the worst votes with as many answers, by the classic conversion."""
    independent_cks: float
    """The same by the conversion of CKS20."""


def analyse(votes: npt.ArrayLike, *, threshold: float, sigma1: float, sigma2: float, delta: float) -> VoteAnalysis:
    """P18's analysis of Confident-GNMax on vote counts of shape (samples, classes)."""
    check_delta(delta)
    counts = check_counts(votes)
    log_p = log_answered(counts, threshold, sigma1)
    p = np.exp(log_p)
    answered = float(p.sum())
    # P18 Sec 4.2: the check is paid for by all samples, the maximum by those that pass it.
    log_q = log_other_class(counts, sigma2)
    curve = np.zeros(_ORDERS.size)
    for part in (slice(start, start + _ROWS) for start in range(0, len(counts), _ROWS)):
        curve += threshold_rdp(log_p[part], sigma1, _ORDERS).sum(axis=0)
        curve += p[part] @ gnmax_rdp(log_q[part], sigma2, _ORDERS)
    flat = (0.5 * len(counts) * inverse_square(sigma1) + answered * inverse_square(sigma2)) * _ORDERS
    epsilon, order = rdp_epsilon(_ORDERS, curve, delta, classic=True)
    return VoteAnalysis(
        queries=len(counts),
        answered=answered,
        order=order,
        epsilon=epsilon,
        epsilon_cks=rdp_epsilon(_ORDERS, curve, delta)[0],
        independent=rdp_epsilon(_ORDERS, flat, delta, classic=True)[0],
        independent_cks=rdp_epsilon(_ORDERS, flat, delta)[0],
    )


def check_counts(votes: npt.ArrayLike) -> Counts:
    """Vote counts as int64 of shape (samples, classes); raises unless every sample has the same number of votes."""
    counts = np.asarray(votes)
    if counts.ndim != 2 or counts.shape[1] < 2 or not counts.size or counts.dtype.kind not in "iu":
        raise PredictionsError(
            f"Vote counts of shape {counts.shape} and type {counts.dtype} cannot be analysed.",
            "Pass whole numbers, one row per sample and one column per class.",
        )
    wide = counts.astype(np.int64)
    if (wide < 0).any() or np.ptp(wide.sum(axis=1)):
        raise PredictionsError(
            "Some vote counts are negative, or not every sample has the same number of votes.",
            "Pass the votes of one set of teachers, none of whom abstained.",
        )
    return wide


def log_other_class(counts: Counts, sigma: float) -> Floats:
    """log of a bound on P[the noisy maximum is not the plurality], per sample (P18 Prop 7)."""
    ordered = np.sort(counts, axis=1)[:, ::-1]
    gaps = ordered[:, :1] - ordered[:, 1:]
    table = log_tail(int(gaps.max()), sigma * math.sqrt(2.0))
    bound: Floats = np.logaddexp.reduce(table[gaps], axis=1)
    # Of N classes the plurality is the likeliest: no other outcome has more than (N-1)/N together.
    return np.minimum(bound, math.log1p(-1.0 / counts.shape[1]))


def log_answered(counts: Counts, threshold: float, sigma: float) -> Floats:
    """log of the probability that the highest count plus noise reaches the threshold, per sample."""
    inverse_square(sigma)
    highest, where = np.unique(counts.max(axis=1), return_inverse=True)
    table: Floats = np.array([log_ndtr((int(n) - threshold) / sigma) for n in highest])
    return table[where]


def gnmax_rdp(log_q: Floats, sigma: float, orders: Floats) -> Floats:
    """RDP of the noisy maximum at these votes, shape (samples, orders): P18 Theorem 6.

    `log_q` bounds the log-probability of any outcome but the likeliest. Where the theorem's conditions fail,
    or it is worse, the data-independent α/σ² of P18 Prop 8 stands.
    """
    return _data_dependent(log_q, inverse_square(sigma), orders)


def threshold_rdp(log_p: Floats, sigma: float, orders: Floats) -> Floats:
    """RDP of the threshold check at these votes, given the log-probability of passing.

    One of two outcomes is unlikely; sensitivity 1 makes it the noisy maximum of √2 sigma (P18 Sec 4.2).
    """
    log_q = np.minimum(log_p, log1mexp(log_p))
    return _data_dependent(log_q, 0.5 * inverse_square(sigma), orders)


def log1mexp(x: Floats) -> Floats:
    """log(1 - e^x) for x <= 0."""
    with np.errstate(divide="ignore"):
        result: Floats = np.where(x < -1.0, np.log1p(-np.exp(x)), np.log(-np.expm1(x)))
    return result


def theorem6(log_q: Floats, rate: float, orders: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The bound of P18 Theorem 6 for a mechanism of RDP(α) = rate·α, and where its conditions hold.

    log_q (samples,), orders (orders,), each above 1; both results (samples, orders).
    """
    lq = log_q[:, np.newaxis]
    with np.errstate(all="ignore"):  # outside the conditions anything may come out
        # P18 Prop 10: μ2 = σ√log(1/q), μ1 = μ2 + 1.
        mu2 = np.sqrt(-lq / rate)
        mu1 = mu2 + 1.0
        eps1, eps2 = rate * mu1, rate * mu2
        # λ <= μ1, μ2 > 1, q <= e^((μ2-1)ε2) / (μ1/(μ1-1) · μ2/(μ2-1))^μ2, and A must be positive.
        limit = (mu2 - 1.0) * eps2 - mu2 * (np.log(mu1 / (mu1 - 1.0)) + np.log(mu2 / (mu2 - 1.0)))
        holds = (orders <= mu1) & (mu2 > 1.0) & (lq <= limit) & (lq + eps2 < 0.0)
        log_a = log1mexp(lq) - log1mexp((lq + eps2) * (1.0 - 1.0 / mu2))
        log_b = eps1 - lq / (mu1 - 1.0)
        excess = orders - 1.0
        bound = np.logaddexp(log1mexp(lq) + excess * log_a, lq + excess * log_b) / excess
    # With q = 0 the outcome is certain and there is nothing to learn.
    certain = np.isneginf(lq)
    return np.where(certain, 0.0, bound), holds | certain


def _data_dependent(log_q: Floats, rate: float, orders: Floats) -> Floats:
    bound, holds = theorem6(log_q, rate, orders)
    return np.where(holds, np.fmin(bound, rate * orders), rate * orders)


def log_tail(most: int, scale: float) -> Floats:
    """log P[N(0, scale²) >= gap] for the gaps 0, ..., most."""
    inverse_square(scale)
    return np.array([log_ndtr(-gap / scale) for gap in range(most + 1)])
