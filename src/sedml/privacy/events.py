"""What each sample releases, as frozen events, and what a list of them costs together.

Neighbouring inputs differ in all votes of one teacher. On one sample that teacher can move the highest count
by at most 1, and the vector of counts by at most +1 and -1 in two classes. So a sample pays for a
`ThresholdCheck`, and an answered one for a `NoisyMaximum` too; whatever is computed from the noisy counts is
post-processing.

KLS21 is Kairouz, Liu & Steinke, "The Distributed Discrete Gaussian Mechanism", ICML 2021; the other short
names are those of `sedml.privacy.conversion`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from sedml.errors import TaskError

__all__ = [
    "Event",
    "Job",
    "NoisyMaximum",
    "ThresholdCheck",
    "event_rho",
    "inverse_square",
    "job",
    "job_rho",
    "tau",
    "whole",
]

_MOST = 2**53  # beyond that, a double does not hold every count


@dataclass(frozen=True)
class ThresholdCheck:
    """The highest count plus noise, against the threshold: one number that one teacher can move by 1.

    The noise that the observer does not know has variance sigma² and is the sum of `parts` independent
    discrete Gaussians of equal width: 2 where both servers add noise, 1 where one does or the observer knows
    the other's.
    """

    sigma: float
    parts: int = 1

    moved: ClassVar[int] = 1
    """How many counts one teacher moves by 1: also the L1 and the squared L2 sensitivity."""

    def __post_init__(self) -> None:
        _check_noise(self.sigma, self.parts)


@dataclass(frozen=True)
class NoisyMaximum:
    """The class of the highest noisy count: one teacher moves two counts by 1, L2 sensitivity √2.

    `sigma` and `parts` as in `ThresholdCheck`. All other counts have one law under both neighbours, and the
    divergence of a product is the sum of its factors', so the number of classes does not matter. A teacher
    that abstains under one neighbour moves one count only, and costs less.
    """

    sigma: float
    parts: int = 1

    moved: ClassVar[int] = 2
    """How many counts one teacher moves by 1: also the L1 and the squared L2 sensitivity."""

    def __post_init__(self) -> None:
        _check_noise(self.sigma, self.parts)


Event: TypeAlias = ThresholdCheck | NoisyMaximum
Job: TypeAlias = Sequence[tuple[Event, int]]


def job(samples: int, answered: int, sigma1: float, sigma2: float, parts: int = 1) -> Job:
    """Every sample pays for the threshold check, every answered one for the noisy maximum."""
    if whole(answered) > whole(samples):
        raise TaskError(
            f"{answered} answered samples were given, but only {samples} samples.",
            "Use no more answered samples than there are samples.",
        )
    return (ThresholdCheck(sigma1, parts), samples), (NoisyMaximum(sigma2, parts), answered)


def job_rho(events: Job) -> float:
    """zCDP of a job: rho adds up, also under adaptive composition (BS16 Lemma 2.3)."""
    return math.fsum(event_rho(event) * count for event, count in _checked(events))


def event_rho(event: Event) -> float:
    """zCDP of one event."""
    # CKS20 Thm 4, and its version for vectors: sensitivity²/(2σ²), as for the continuous Gaussian.
    gaussian = 0.5 * event.moved * inverse_square(event.sigma)
    if event.parts == 1:
        return gaussian
    # Adding the other parts is post-processing, so one part's noise, of variance σ²/n, is a bound by itself.
    one_part = event.parts * gaussian
    part_sigma = event.sigma / math.sqrt(event.parts)
    if part_sigma < 0.5:
        return one_part
    # KLS21 Prop 14 for s >= 1/2, over the d counts moved: D_α <= αΔ²/(2σ²) + τd, at most α(ρ + τd) as α >= 1;
    # and D_α <= (α/2)(Δ/σ + τ√d)².
    d, gap = event.moved, tau(part_sigma, event.parts)
    return min(one_part, gaussian + gap * d, 0.5 * d * (1.0 / event.sigma + gap) ** 2)


def tau(part_sigma: float, parts: int) -> float:
    """KLS21's τ_n = 10 Σ_{k=1}^{n-1} exp(-2π²s²k/(k+1)); from k = 1000 on by its largest term left."""
    rate = 2.0 * (math.pi * part_sigma) ** 2
    head = min(parts, 1000)
    first = math.fsum(math.exp(-rate * k / (k + 1)) for k in range(1, head))
    return 10.0 * (first + (parts - head) * math.exp(-rate * head / (head + 1)))


def inverse_square(sigma: float) -> float:
    """1/sigma², inf rather than an exception where that is too large for a double."""
    if not 0.0 < sigma < math.inf:
        raise TaskError(f"sigma is {sigma}.", "Use a finite number above 0.")
    return (1.0 / sigma) * (1.0 / sigma)


def whole(count: int) -> int:
    """The count as an int; raises unless it is a whole number from 0 to 2^53."""
    try:
        value = operator.index(count)
    except TypeError:
        value = -1
    if not 0 <= value <= _MOST:
        raise TaskError(f"{count} is not a number of samples.", "Use a whole number that is not negative.")
    return value


def _checked(events: Job) -> Job:
    return [(event, times) for event, count in events if (times := whole(count))]


def _check_noise(sigma: float, parts: int) -> None:
    inverse_square(sigma)
    if parts < 1:
        raise TaskError(f"Noise of {parts} parts cannot be drawn.", "Use 1 part or more.")
