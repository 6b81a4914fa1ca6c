"""One count against a threshold, at one Rényi order: a single bit.

The count n moves by at most one. With k = T - n the bit is 1 with probability P[g >= k], so the sum M = Σ p^α q^(1-α)
has two terms, and only k and the order of the neighbours are left to maximise over:

    P[g >= k]^α P[g >= k-1]^(1-α) + P[g < k]^α P[g < k-1]^(1-α),    and the same with k and k-1 exchanged.

Beyond the window of k that is looked at, the bit is nearly sure: what is left of the other one is bounded by its
share of the tilted mass h, which falls with the distance.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from sedml.privacy.exact.law import UNIT, NoiseLaw, noise_law, tilted, two_terms, within_range
from sedml.privacy.zcdp import CHECK, noise_rho

_LARGEST = 2_000.0
"""Nothing is computed for a sigma beyond this, as the tables grow with it."""


def rounding(law: NoiseLaw, order: float) -> float:
    """At least what rounding can take off a divergence that was computed from the tables of a noise.

    The probability of an outcome is a sum of products of entries, so its relative error e is at most four times that
    of one entry, and what was cut. A term p^α q^(1-α) then has one of (2α - 1) e, and M >= 1.
    """
    each = 4 * law.relative_error + 1e-13
    return (2 * order - 1) * each / (order - 1) + 8 * UNIT


@lru_cache(maxsize=32)
def bit_divergence(part_sigma: float, parts: int, order: float, centre: float = 0.0) -> float:
    """At least D_α of the worst bit [g >= k] against [g >= k - 1]; inf where the tables do not reach."""
    sigma = math.sqrt(parts) * part_sigma
    widest = math.ceil(8 * sigma + order) + 2
    if sigma > _LARGEST or not within_range(widest + 3, sigma):
        return math.inf
    law = noise_law(part_sigma, parts, widest + math.ceil(4 * sigma + order) + 12, centre)
    k = np.arange(-widest, widest + 2)
    reached, missed = law.at_least(k), law.at_most(k - 1)
    yes, no = two_terms(reached[1:], reached[:-1], order), two_terms(missed[1:], missed[:-1], order)
    inside = max(float((one + other).max()) for one, other in zip(no, yes, strict=True))
    nearly_sure = math.exp((1 - order) * math.log1p(-law.beyond(widest - 1))) + tilted(law, order).beyond(widest)
    return math.log(max(inside, nearly_sure)) / (order - 1) + rounding(law, order)


def check_divergence(part_sigma: float, parts: int, order: float) -> float:
    """At least D_α of one count against a threshold."""
    by_zcdp = order * noise_rho(CHECK, math.sqrt(parts) * part_sigma, parts)
    return min(by_zcdp, bit_divergence(part_sigma, parts, order))
