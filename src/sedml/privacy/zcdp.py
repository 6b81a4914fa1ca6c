"""What each sample costs by zCDP, as if its noisy counts were released.

Neighbouring inputs differ in all votes of one teacher. On one sample that teacher can move two counts by 1 each, up or
down (`LABEL`), and any one of them by 1 (`CHECK`); whatever is computed from the noisy counts is post-processing.

All other counts have one law under both neighbours, and the divergence of a product is the sum of its factors', so the
number of classes does not matter. A teacher that abstains under one neighbour moves one count only, and costs less.

KLS21 is Kairouz, Liu & Steinke, "The Distributed Discrete Gaussian Mechanism", ICML 2021; the other short
names are those of `sedml.privacy.conversion`.
"""

from __future__ import annotations

import math
import operator

from sedml.errors import TaskError

CHECK, LABEL = 1, 2
"""How many counts one teacher moves by 1: also the L1 and the squared L2 sensitivity."""
_MOST = 2**53  # beyond that, a double does not hold every count


def noise_rho(moved: int, sigma: float, parts: int = 1) -> float:
    """zCDP of so many counts that one teacher moves by 1, under noise that the observer does not know.

    The noise has variance sigma² and is the sum of `parts` independent discrete Gaussians of equal width: 2 where both
    servers add noise, 1 where one does or the observer knows the other's.
    """
    # CKS20 Thm 4, and its version for vectors: sensitivity²/(2σ²), as for the continuous Gaussian.
    gaussian = 0.5 * moved * inverse_square(sigma)
    if parts < 1:
        raise TaskError(f"Noise of {parts} parts cannot be drawn.", "Use 1 part or more.")
    if parts == 1:
        return gaussian
    # Adding the other parts is post-processing, so one part's noise, of variance σ²/n, is a bound by itself.
    one_part = parts * gaussian
    part_sigma = sigma / math.sqrt(parts)
    if part_sigma < 0.5:
        return one_part
    # KLS21 Prop 14 for s >= 1/2, over the d counts moved: D_α <= αΔ²/(2σ²) + τd, at most α(ρ + τd) as α >= 1;
    # and D_α <= (α/2)(Δ/σ + τ√d)².
    gap = tau(part_sigma, parts)
    return min(one_part, gaussian + gap * moved, 0.5 * moved * (1.0 / sigma + gap) ** 2)


def tau(part_sigma: float, parts: int) -> float:
    """KLS21's τ_n = 10 Σ_{k=1}^{n-1} exp(-2π²s²k/(k+1))."""
    rate = 2.0 * (math.pi * part_sigma) ** 2
    return 10.0 * math.fsum(math.exp(-rate * k / (k + 1)) for k in range(1, parts))


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
