"""Publishing a data-dependent epsilon, with noise by its smooth sensitivity.

The epsilon of `sedml.lab.data_dependent` depends on the votes. P18's appendix releases it with Gaussian noise
scaled to its β-smooth sensitivity (Nissim, Raskhodnikova & Smith, "Smooth Sensitivity and Sampling in Private
Data Analysis", STOC 2007), and adds what that release costs. Like the analysis itself, it needs the plain votes.

The order and the noise factor must not be chosen by looking at the votes: that would be one more release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sedml.errors import PredictionsError, TaskError
from sedml.lab.data_dependent import (
    Counts,
    Floats,
    check_counts,
    log_answered,
    log_other_class,
    log_tail,
    theorem6,
    threshold_rdp,
)
from sedml.privacy.conversion import check_delta, classic_epsilon, log_ndtr, log_ndtr_inverse
from sedml.privacy.events import inverse_square, job, job_rho

__all__ = [
    "NOISE_FACTOR",
    "NoisyMaximumCurve",
    "SmoothRelease",
    "conditions_hold",
    "gnss_rdp",
    "noisy_maximum_curve",
    "noisy_maximum_sensitivities",
    "smooth_release",
    "smooth_sensitivity",
    "threshold_sensitivities",
]

NOISE_FACTOR = 6.0
"""How many smooth sensitivities the noise is wide, unless somebody knows better."""

_BETA_TIMES_ORDER = 0.4  # below 1/2, where Theorem 23 ends; P18's choice
_GRID = 2000  # points of log q at which the conditions are checked


@dataclass(frozen=True)
class NoisyMaximumCurve:
    """RDP of the noisy maximum at one order, a function of log q: P18 Theorem 6 below q0, flat above."""

    sigma: float
    classes: int
    order: float
    log_q0: float
    """Above it the data-independent bound is used."""
    log_q1: float
    """B_L(q0): from here to q0 the local sensitivity is at its bound."""

    def rdp(self, log_q: Floats) -> Floats:
        """β(q)."""
        rate = inverse_square(self.sigma)
        bound, _ = theorem6(log_q, rate, np.array([self.order]))
        return np.where(log_q < self.log_q0, bound[:, 0], rate * self.order)

    def shifted(self, log_q: Floats, step: int) -> Floats:
        """The bound B_U (step 1) or B_L (step -1) on log q after one teacher changed its vote (P18 App B)."""
        others = math.log(self.classes - 1)
        shift = step * math.sqrt(2.0) / self.sigma
        moved = [log_ndtr(log_ndtr_inverse(float(x) - others) + shift) + others for x in log_q]
        return np.minimum(np.array(moved, np.float64), 0.0)

    def sensitivity(self, log_q: Floats) -> Floats:
        """A bound on the local sensitivity of β at q (P18 Algorithm 3)."""
        plateau = (self.log_q1 <= log_q) & (log_q <= self.log_q0)
        at = np.where(plateau, self.log_q1, log_q)
        here = self.rdp(at)
        # B_U(q1) = q0, where β may jump: no rounding may keep it below.
        flat = self.order * inverse_square(self.sigma)
        above = np.where(at >= self.log_q1, flat, self.rdp(self.shifted(at, 1)))
        return np.maximum(above - here, here - self.rdp(self.shifted(at, -1)))


def noisy_maximum_curve(sigma: float, classes: int, order: float) -> NoisyMaximumCurve:
    """Find q0, where Theorem 6 starts to beat the data-independent bound, and q1 = B_L(q0)."""
    rate = inverse_square(sigma)
    if classes < 2 or not 1.0 < order < math.inf:
        raise TaskError(
            f"{classes} classes at order {order} cannot be analysed.", "Use 2 classes or more and an order above 1."
        )

    def better(log_q: float) -> bool:
        bound, holds = theorem6(np.array([log_q]), rate, np.array([order]))
        return bool(holds[0, 0] and bound[0, 0] < rate * order)

    # P18's upper bounds on q0: below them the theorem's conditions hold.
    high = -max((1.0 + 1.0 / sigma) ** 2, ((order - 0.99) / sigma) ** 2, rate)
    low = high
    while not better(low):
        low *= 1.5
        if low < -1e6:
            raise TaskError(
                f"At order {order} and sigma {sigma} no votes cost less than the worst case.", "Use a lower order."
            )
    if low < high:
        high = low / 1.5
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (middle, high) if better(middle) else (low, middle)
    curve = NoisyMaximumCurve(sigma, classes, order, low, low)
    return NoisyMaximumCurve(sigma, classes, order, low, float(curve.shifted(np.array([low]), -1)[0]))


def conditions_hold(curve: NoisyMaximumCurve) -> tuple[bool, bool]:
    """P18's conditions C5 and C6, on a grid of log q: β rises up to q0, and β(B_U(q)) - β(q) up to q1.

    Without them the bounds of `noisy_maximum_sensitivities` are not proven.
    """

    def rises(values: Floats) -> bool:
        return bool(np.all(np.diff(values) >= -1e-12 * np.abs(values[1:]) - 1e-300))

    lowest = max(30.0 * curve.log_q0, curve.log_q0 - 600.0)
    beta = curve.rdp(np.linspace(lowest, curve.log_q0, _GRID, endpoint=False))
    below = np.linspace(min(lowest, 2.0 * curve.log_q1), curve.log_q1, _GRID, endpoint=False)
    return rises(beta), rises(curve.rdp(curve.shifted(below, 1)) - curve.rdp(below))


def noisy_maximum_sensitivities(row: Counts, curve: NoisyMaximumCurve) -> Floats:
    """Bounds on the local sensitivity at distance 0, ..., K from a sample's counts (P18 Algorithms 4, 5)."""
    teachers = int(row.sum())
    bounds = np.full(teachers + 1, curve.sensitivity(np.array([curve.log_q1]))[0])
    table = log_tail(teachers, curve.sigma * math.sqrt(2.0))
    counts = np.sort(row)[::-1].copy()

    def log_q() -> float:
        union = float(np.logaddexp.reduce(table[counts[0] - counts[1:]]))
        return min(union, math.log1p(-1.0 / counts.size))

    path = [log_q()]
    if curve.log_q1 <= path[0] <= curve.log_q0:
        return bounds
    # The fastest way to the plateau: votes move to the winner if q > q0, and from it to the second if q < q1.
    step = 1 if path[0] > curve.log_q0 else -1
    while (path[-1] > curve.log_q0 and counts[1] > 0) if step == 1 else path[-1] < curve.log_q1:
        counts[0] += step
        counts[1] -= step
        counts[1:] = np.sort(counts[1:])[::-1]
        path.append(log_q())
    bounds[: len(path)] = curve.sensitivity(np.array(path))
    return bounds


def threshold_sensitivities(highest: int, teachers: int, threshold: float, sigma: float, order: float) -> Floats:
    """The local sensitivity of the check's RDP where the highest count is 0, ..., K votes away."""
    if not 0 <= highest <= teachers:
        raise PredictionsError(
            f"The highest count is {highest}, of {teachers} teachers.", "Use a count from 0 to the number of teachers."
        )
    rdp = _threshold_curve(teachers, threshold, sigma, order)
    steps = np.abs(np.diff(rdp))
    local = np.maximum(np.append(steps, 0.0), np.insert(steps, 0, 0.0))
    distance = np.abs(np.arange(teachers + 1) - highest)
    bounds = np.zeros(teachers + 1)
    np.maximum.at(bounds, distance, local)
    return bounds


def smooth_sensitivity(bounds: Floats, beta: float) -> float:
    """max_d e^(-βd) LS(d), from the local sensitivities at distances 0, 1, ..."""
    return float(np.max(bounds * np.exp(-beta * np.arange(bounds.size))))


def gnss_rdp(beta: float, sigma: float, order: float) -> float:
    """RDP of releasing f + SS_β(f) · N(0, sigma²) (P18 Theorem 23), for 1 < order < 1/(2β)."""
    rate = inverse_square(sigma)
    if not (beta > 0.0 and 1.0 < order < 0.5 / beta):
        raise TaskError(
            f"A beta of {beta} cannot be used at order {order}.", "Use an order above 1 and a beta below 1/(2 order)."
        )
    tail = beta * order - 0.5 * math.log1p(-2.0 * order * beta)
    return order * math.exp(2.0 * beta) * rate + tail / (order - 1.0)


@dataclass(frozen=True)
class SmoothRelease:
    """A data-dependent epsilon and what publishing it takes.

    `epsilon`, `sensitivity` and `std` are private. What `release` returns, `cost` and `independent` may be published.
    """

    epsilon: float
    """Of the votes, at `delta` and this order, by the classic conversion."""
    sensitivity: float
    """β-smooth sensitivity of `epsilon`."""
    std: float
    """Standard deviation of the noise on the published figure."""
    cost: float
    """What publishing adds to epsilon."""
    independent: float
    """What anybody knows without the votes: epsilon of the worst votes with as many answers."""

    def release(self, normal: float) -> float:
        """The figure to publish, given one secret draw from the standard normal distribution."""
        return self.epsilon + self.std * normal + self.cost


def smooth_release(
    votes: npt.ArrayLike,
    answered: npt.ArrayLike,
    *,
    threshold: float,
    sigma1: float,
    sigma2: float,
    delta: float,
    order: float,
    noise_factor: float = NOISE_FACTOR,
) -> SmoothRelease:
    """P18's release of Confident-GNMax's epsilon at one order, with noise of `noise_factor` smooth sensitivities.

    `votes` are counts (samples, classes); `answered` (samples,) says which samples got a label, which is public.
    """
    check_delta(delta)
    counts, given = check_counts(votes), np.asarray(answered, np.bool_)
    if given.shape != counts.shape[:1]:
        raise PredictionsError("The labels do not fit the votes.", "Pass the labels that were given for these samples.")
    if not order > 1.0:
        raise TaskError(f"The order is {order}.", "Use a number above 1, such as 14.")
    beta = _BETA_TIMES_ORDER / order
    cost = gnss_rdp(beta, noise_factor, order)
    curve = noisy_maximum_curve(sigma2, counts.shape[1], order)
    if not all(conditions_hold(curve)):
        raise TaskError(
            f"Nothing is proven at order {order} and sigma2 {sigma2}.", "Use a lower order, or a larger sigma2."
        )

    teachers = int(counts[0].sum())
    log_p = log_answered(counts, threshold, sigma1)
    rdp = float(threshold_rdp(log_p, sigma1, np.array([order])).sum())
    rdp += float(given @ curve.rdp(log_other_class(counts, sigma2)))
    # One teacher changes its votes on all samples, so the sensitivities at each distance add up.
    bounds = np.zeros(teachers + 1)
    for highest, times in zip(*np.unique(counts.max(axis=1), return_counts=True), strict=True):
        bounds += times * threshold_sensitivities(int(highest), teachers, threshold, sigma1, order)
    # Only the counts matter, not whose they are, and where teachers agree most samples have the same.
    for row, times in zip(*np.unique(np.sort(counts[given], axis=1), axis=0, return_counts=True), strict=True):
        bounds += times * noisy_maximum_sensitivities(row, curve)
    smooth = smooth_sensitivity(bounds, beta)
    rho = job_rho(job(len(counts), int(given.sum()), sigma1, sigma2))
    return SmoothRelease(
        epsilon=rdp - math.log(delta) / (order - 1.0),
        sensitivity=smooth,
        std=smooth * noise_factor,
        cost=cost,
        independent=classic_epsilon(rho, delta),
    )


@lru_cache(maxsize=8)
def _threshold_curve(teachers: int, threshold: float, sigma: float, order: float) -> Floats:
    """RDP of the check for every highest count from 0 to the number of teachers."""
    highest = np.arange(teachers + 1)[:, np.newaxis]
    return threshold_rdp(log_answered(highest, threshold, sigma), sigma, np.array([order]))[:, 0]
