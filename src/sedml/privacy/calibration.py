"""The least noise that keeps a job within its epsilon, for requesters who have a budget and no sigma.

`sedml.privacy.planning` finds better terms, where something is known about how the teachers vote.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sedml.errors import PrivacyError, TaskError, counted
from sedml.privacy.accounting import RELEASED, job_epsilon
from sedml.privacy.conversion import check_delta, zcdp_rho
from sedml.privacy.noise import MAX_SIGMA

_DIGITS = 4
_LEAST = 1e-3
_SAMPLE = 2.0 * RELEASED
"""About what a sample costs at sigma 1, as zCDP."""


def sigma_for(samples: int, epsilon: float, delta: float, classes: int, moves: int = 1) -> float:
    """The smallest sigma, of four digits, at which all samples can be asked within epsilon.

    `moves` is how many votes on a sample can change with the unit that is protected.
    """
    check_delta(delta)
    if samples < 1 or classes < 2:
        raise TaskError(
            f"A job cannot have {counted(samples, 'sample')} and {counted(classes, 'class')}.",
            "Use at least 1 sample and 2 classes.",
        )
    if not 0.0 < epsilon < math.inf:
        raise TaskError(f"The epsilon is {epsilon}.", "Use a number above 0.")

    def cost(step: int) -> float:
        sigma = _sigma(step)
        if sigma > MAX_SIGMA:
            raise PrivacyError(
                f"No noise keeps {samples:,} samples within epsilon {epsilon:g} at delta {delta:g}.",
                "Ask for fewer samples, or promise a larger epsilon or delta.",
            )
        return job_epsilon(samples, sigma, delta, classes=classes, moves=moves)

    # What a sample costs falls as 1/sigma²: a first guess, and one correction by what it really costs.
    allowed = zcdp_rho(epsilon, delta)
    guess = min(MAX_SIGMA, max(_LEAST, moves * math.sqrt(_SAMPLE * samples / allowed)))
    real = cost(_step(guess))
    if real < math.inf:
        guess = min(MAX_SIGMA, guess * math.sqrt(zcdp_rho(real, delta) / allowed))
    return _sigma(_smallest(lambda step: cost(step) <= epsilon, _step(guess)))


def _smallest(fits: Callable[[int], bool], start: int) -> int:
    """The first step that fits, looked for in strides that double, away from `start`."""
    low, high, stride = start - 1, start, 1
    while not fits(high):
        low, high, stride = high, high + stride, 2 * stride
    while high <= start and fits(low):
        low, high, stride = low - stride, low, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


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
