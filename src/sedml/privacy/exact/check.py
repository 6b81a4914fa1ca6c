"""The threshold check at one Rényi order: one bit, and, where it says yes, a label with a cost of its own.

The highest count n* moves by at most one. With k = T - n* the bit is 1 with probability P[g >= k], so the sum
M = Σ p^α q^(1-α) has two terms, and only k and the order of the neighbours are left to maximise over:

    t1(k) = P[g >= k]^α P[g >= k-1]^(1-α),    t0(k) = P[g < k]^α P[g < k-1]^(1-α),    and both with k and k-1 exchanged.

A label that costs at most L multiplies t1 by exp((α-1) L). Where the check is costly the sample is answered half of the
time only, so check and label together cost little more than the label.

Beyond the window of k that is looked at, the bit is nearly sure: what is left of the other one is bounded by its
share of the tilted mass h, which falls with the distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sedml.privacy.exact.law import UNIT, Array, NoiseLaw, noise_law, tilted, two_terms, within_range
from sedml.privacy.zcdp import CHECK, noise_rho

__all__ = ["check_divergence", "rounding", "yes_charge"]

_LARGEST = 2_000.0
"""A sigma beyond this: zCDP's bound instead, as the tables grow with it."""
_MOST = 500.0
"""exp of this is still far from the largest double."""


def rounding(law: NoiseLaw, order: float) -> float:
    """At least what rounding can take off a divergence that was computed from the tables of a noise.

    The probability of an outcome is a sum of products of entries, so its relative error e is at most four times that
    of one entry, and what was cut. A term p^α q^(1-α) then has one of (2α - 1) e, and M >= 1.
    """
    each = 4 * law.relative_error + 1e-13
    return (2 * order - 1) * each / (order - 1) + 8 * UNIT


@dataclass(frozen=True, eq=False)
class _Window:
    """Both terms of M for every k of the window, in both orders; and their bounds beyond it."""

    yes: tuple[Array, Array]
    no: tuple[Array, Array]
    likely: float
    """The term of the bit that is nearly sure."""
    unlikely: float
    error: float


@lru_cache(maxsize=32)
def _window(part_sigma: float, parts: int, order: float) -> _Window | None:
    """None where the tables do not reach."""
    sigma = math.sqrt(parts) * part_sigma
    widest = math.ceil(8 * sigma + order) + 2
    if sigma > _LARGEST or not within_range(widest + 2, sigma):
        return None
    law = noise_law(part_sigma, parts, widest + math.ceil(4 * sigma + order) + 12)
    k = np.arange(-widest, widest + 2)
    reached, missed = law.at_least(k), law.at_most(k - 1)
    unsure = law.beyond(widest - 1)
    return _Window(
        two_terms(reached[1:], reached[:-1], order),
        two_terms(missed[1:], missed[:-1], order),
        math.exp((1 - order) * math.log1p(-unsure)),
        tilted(law, order).beyond(widest),
        rounding(law, order),
    )


def check_divergence(part_sigma: float, parts: int, order: float, label: float = 0.0) -> float:
    """At least D_α of a check and, where it says yes, a label that costs at most `label`; 0: of the check alone."""
    by_zcdp, found = _by_zcdp(part_sigma, parts, order), _window(part_sigma, parts, order)
    if found is None or (order - 1) * label > _MOST:
        return by_zcdp + label
    weight = math.exp((order - 1) * label)
    with np.errstate(over="ignore"):  # beyond all numbers it is the other bound that counts
        inside = max(float((no + weight * yes).max()) for no, yes in zip(found.no, found.yes, strict=True))
    outside = max(weight * found.likely + found.unlikely, found.likely + weight * found.unlikely)
    return min(by_zcdp + label, math.log(max(inside, outside)) / (order - 1) + found.error)


def yes_charge(part_sigma: float, parts: int, order: float, no_charge: float) -> float:
    """What a check that says yes must be charged where one that says no is charged `no_charge`, at least D_α of it.

    The smallest c with t0(k) exp(-(α-1) no_charge) + t1(k) exp(-(α-1) c) <= 1 for every k, in both orders: then the
    charges of a sequence bound its divergence, whatever the bits (docs/privacy.md, theorem 1).
    """
    found = _window(part_sigma, parts, order)
    if found is None:
        return _by_zcdp(part_sigma, parts, order)
    paid = math.exp((1 - order) * (no_charge - found.error))
    rooms = [1 - no * paid for no in found.no]
    beyond = 1 - found.likely * paid, 1 - found.unlikely * paid
    if min(*beyond, *(float(room.min()) for room in rooms)) <= 0:
        return math.inf
    inside = max(float((yes / room).max()) for yes, room in zip(found.yes, rooms, strict=True))
    outside = max(found.unlikely / beyond[0], found.likely / beyond[1])
    return max(0.0, math.log(max(inside, outside)) / (order - 1) + found.error)


def _by_zcdp(part_sigma: float, parts: int, order: float) -> float:
    return order * noise_rho(CHECK, math.sqrt(parts) * part_sigma, parts)
