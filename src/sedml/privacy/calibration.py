"""The least noise that keeps a job within its epsilon, for requesters who have a budget and no sigma.

The paper uses one sigma for both steps, and so does this. `sedml.privacy.planning` finds better terms, where something
is known about how the teachers vote.
"""

from __future__ import annotations

import math

from sedml.errors import PrivacyError, TaskError
from sedml.privacy.accounting import job_report, job_rho
from sedml.privacy.conversion import check_delta, zcdp_epsilon
from sedml.privacy.events import job
from sedml.privacy.noise import MAX_SIGMA

__all__ = ["sigma_for"]

_DIGITS = 4
_LEAST = 1e-3


def sigma_for(samples: int, epsilon: float, delta: float, classes: int) -> float:
    """The smallest sigma1 = sigma2, of four digits, at which all samples can be answered within epsilon.

    Both servers add noise, as they do in every deployment.
    """
    check_delta(delta)
    if samples < 1 or classes < 2:
        raise TaskError(
            f"A job cannot have {samples} samples and {classes} classes.", "Use at least 1 sample and 2 classes."
        )
    if not 0.0 < epsilon < math.inf:
        raise TaskError(f"The epsilon is {epsilon}.", "Use a number above 0.")
    # Without the sampler's part of delta: a bound from below, and nearly always the answer.
    low = _step(_ideal_sigma(samples, epsilon, delta))
    high, width = low, 1
    while not _fits(high, samples, epsilon, delta, classes):
        low, high, width = high + 1, high + width, 2 * width
        if _sigma(low) > MAX_SIGMA:
            raise PrivacyError(
                f"No noise keeps {samples:,} samples within epsilon {epsilon:g} at delta {delta:g}.",
                "Ask for fewer samples, or promise a larger epsilon or delta.",
            )
    while low < high:
        middle = (low + high) // 2
        if _fits(middle, samples, epsilon, delta, classes):
            high = middle
        else:
            low = middle + 1
    return _sigma(high)


def _ideal_sigma(samples: int, epsilon: float, delta: float) -> float:
    """Where exact noise reaches epsilon; a little below, never above."""
    low, high = _LEAST, 2.0 * MAX_SIGMA
    while high > low * (1.0 + 1e-9):
        middle = math.sqrt(low * high)
        rho = job_rho(job(samples, samples, middle, middle, 2))
        low, high = (middle, high) if zcdp_epsilon(rho, delta) > epsilon else (low, middle)
    return low


def _fits(step: int, samples: int, epsilon: float, delta: float, classes: int) -> bool:
    sigma = _sigma(step)
    if sigma > MAX_SIGMA:
        return False
    report = job_report(samples, samples, sigma, sigma, delta, noise="both", classes=classes)
    return report.requester.epsilon <= epsilon


def _step(value: float) -> int:
    """Numbers of four digits, counted upwards: that of the first one not below `value`."""
    exponent = math.floor(math.log10(value))
    digits: int = math.ceil(value / 10.0 ** (exponent - _DIGITS + 1) * (1.0 - 1e-12))
    return exponent * 9 * int(10 ** (_DIGITS - 1)) + digits


def _sigma(step: int) -> float:
    """The inverse of `_step`."""
    first = 10 ** (_DIGITS - 1)
    exponent, digits = divmod(step - first, 9 * first)
    return float(f"{digits + first}e{exponent - _DIGITS + 1}")
