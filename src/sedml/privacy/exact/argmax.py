"""The noisy argmax at one Rényi order, charged as what it is: one of three outcomes, not the vector of noisy counts.

One teacher moves a vote from class i to class j. All other noisy counts, and the threshold, which is that of "none",
have one law under both neighbours, and Σ p^α q^(1-α) is the mean over them of the conditional sum, so the worst value
of their maximum bounds it, at each order by itself. Given that maximum, three outcomes are left. With a and b the
counts of the two classes above it, A = a + g, B = b + g', and F(a, b) their law,

    first: A >= 0, A >= B        second: B >= 0, B > A        neither: A < 0, B < 0

the divergence of the label is at most the largest one of F(a, b) and F(a+1, b-1), in both orders, over all integers.
Ties, and where the three classes stand among each other, only permute these pairs; two classes and abstentions are
limits of them (docs/explanation/privacy.md has the proof).

Only a box of positions can hold the maximum. Beyond it, T(E) = Σ_E p^α q^(1-α) over the points of an event bounds its
term, eta is the probability of what is neglected, and

    one count far below the other classes:   a check of the other count      (1-eta)^(1-α) M(check) + T(A >= 0)
    both far above:                          a comparison of the two         (1-eta)^(1-α) M(A >= B) + T(A < 0) T(B < 0)
    one far above the other:                 nearly sure                     (1-eta)^(1-α) + T(the others)

The result is the maximum over the box and these: an upper bound whatever the size of the box. The box has about
200 σ² positions, looked at in slices of bounded memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sedml.privacy.exact.check import check_divergence, rounding
from sedml.privacy.exact.law import Array, Integers, NoiseLaw, Tails, Tilted, noise_law, tilted, two_terms, within_range
from sedml.privacy.zcdp import LABEL, noise_rho

_SLICE = 100_000
"""Table entries at a time: few enough for a processor's cache, which makes it twice as fast; some 6 MB in all."""
LARGEST_SIGMA = 200.0
"""A sigma beyond this: zCDP's bound instead, as the box grows with sigma²."""


@dataclass(frozen=True)
class _Box:
    """Positions with min(a, b) from -low to high and |a - b| up to apart."""

    low: int
    high: int
    apart: int

    @classmethod
    def of(cls, sigma: float, order: float) -> _Box:
        """Large enough for the maximum to lie in it, as far as we know; sound in any case."""
        near = math.sqrt(2 * math.log(40 + 20 * sigma**2))
        far = math.sqrt(2 * math.log(1e6 + 1e5 * sigma**2))
        low = math.ceil(near * sigma + order - 1) + 2
        return cls(low, math.ceil(far * sigma + order - 1) + 2, low + math.ceil(near * sigma + order - 1) + 2)

    @property
    def farthest(self) -> int:
        """The largest distance of a count to the others' maximum that is looked at."""
        return self.high + self.apart + 6

    def reach(self, sigma: float) -> int:
        """How far the noise's table must go for what it cuts not to matter at any position."""
        return self.high + self.apart + math.ceil(4 * sigma) + 12


@lru_cache(maxsize=1024)
def argmax_divergence(part_sigma: float, parts: int, order: float) -> float:
    """At least D_α of a label, for any number of classes, whatever the votes."""
    sigma = math.sqrt(parts) * part_sigma
    by_zcdp = order * noise_rho(LABEL, sigma, parts)
    box = _Box.of(sigma, order)
    if sigma > LARGEST_SIGMA or not within_range(box.farthest, sigma):
        return by_zcdp
    law = noise_law(part_sigma, parts, box.reach(sigma))
    worst = max(_inside(law, box, order), _outside(law, box, order))
    return min(by_zcdp, math.log(worst) / (order - 1) + rounding(law, order))


def _inside(law: NoiseLaw, box: _Box, order: float) -> float:
    """The largest M of the box, row by row of the difference d = a - b."""
    z = np.arange(max(-box.farthest, -law.reach), law.reach + 1)
    mass = law.mass[z + law.reach]
    rows = max(8, _SLICE // z.size)
    lowest = np.arange(-box.low - 2, box.high + 3)
    worst = 0.0
    for start in range(-box.apart - 2, box.apart + 1, rows):
        # The neighbour of a row is the next but one, so slices overlap by two.
        d = np.arange(start, min(start + rows, box.apart + 1) + 2)
        worst = max(worst, _rows(law, z, mass, d, lowest, order))
    return worst


def _rows(law: NoiseLaw, z: Integers, mass: Array, d: Integers, lowest: Integers, order: float) -> float:
    """The largest M of F(a, b) and F(a+1, b-1) over a - b in all but the last two of d, and min(a, b) in lowest."""
    column = d[:, None]
    wins_first = np.cumsum((mass * law.at_most(z + column))[:, ::-1], axis=1)[:, ::-1]
    wins_second = np.cumsum((mass * law.at_most(z - column - 1))[:, ::-1], axis=1)[:, ::-1]
    a = lowest + np.maximum(column, 0)
    b = a - column
    row = np.arange(d.size)[:, None]
    outcomes = (
        wins_first[row, -a - z[0]],
        wins_second[row, -b - z[0]],
        law.at_most(-a - 1) * law.at_most(-b - 1),
    )
    # min(a+1, b-1) against min(a, b): one less where a >= b, the same where b = a + 1, one more beyond.
    moved = np.where(d[:-2] >= 0, -1, np.where(d[:-2] == -1, 0, 1))[:, None]
    columns = np.arange(1, lowest.size - 1)
    one = row[:-2], columns
    other = row[2:], columns + moved
    sums = [np.zeros(1), np.zeros(1)]
    for probability in outcomes:
        terms = two_terms(probability[one], probability[other], order)
        sums = [total + term for total, term in zip(sums, terms, strict=True)]
    return max(float(total.max()) for total in sums)


def _outside(law: NoiseLaw, box: _Box, order: float) -> float:
    """At least every M beyond the box."""
    tilt = tilted(law, order)

    def sure(missing: float) -> float:
        """(1 - eta)^(1-α)."""
        return math.exp((1 - order) * math.log1p(-missing)) if missing < 1 else math.inf

    check = math.exp((order - 1) * check_divergence(law.part_sigma, law.parts, order))
    one_far_below = sure(law.beyond(box.low - 1)) * check + tilt.beyond(box.low) * tilt.total

    # g' - g, where no other class comes into it: direct sums of positive numbers, no FFT.
    difference = Tails(2 * law.reach, np.convolve(law.mass, law.mass), 2 * law.cut)
    widest = math.ceil(10 * math.sqrt(2) * math.sqrt(law.variance) + 2 * order) + 3
    nearly_sure = sure(difference.beyond(widest - 2)) + _both_beyond(tilt, widest - 2)
    comparison = max(_comparison(difference, widest, order), nearly_sure)
    both_far_above = sure(law.beyond(box.high - 1)) * comparison + tilt.beyond(box.high) ** 2

    ahead = box.apart - box.low
    missing = law.beyond(ahead - 1) + difference.beyond(box.apart - 2)
    far_apart = sure(missing) + tilt.beyond(ahead) * tilt.total + _both_beyond(tilt, box.apart - 1)
    return max(one_far_below, both_far_above, far_apart)


def _comparison(difference: Tails, widest: int, order: float) -> float:
    """The largest M of whether one count beats another, over differences of counts up to `widest`."""
    k = np.arange(-widest, widest + 1)
    won, lost = difference.at_most(k), difference.at_least(k + 1)
    pairs = zip(two_terms(won[:-2], won[2:], order), two_terms(lost[:-2], lost[2:], order), strict=True)
    return max(float((mine + other).max()) for mine, other in pairs)


def _both_beyond(tilt: Tilted, distance: int) -> float:
    """At least the tilted mass of two independent counts that together are `distance` off, whichever way they move."""
    z, h, first = tilt.points, tilt.mass, int(tilt.points[0])
    last = h.size - 1
    below, above = np.cumsum(h), np.cumsum(h[::-1])[::-1]
    low = 2 - distance - z - first
    high = distance - z - first
    low_mass = np.where(low >= 0, below[np.clip(low, 0, last)], 0.0)
    high_mass = np.where(high <= last, above[np.clip(high, 0, last)], 0.0)
    return max(float((h * low_mass).sum()), float((h * high_mass).sum())) * (1 + 1e-9) + 2 * tilt.rest * tilt.total
