"""The noise that an observer does not know, as a table of probabilities with a bound on every error in it.

The noise is the sum of `parts` (1 or 2) independent discrete Gaussians of parameter s. With v = parts s²,

    one part:   p(z) = exp(-z²/2v) / Z,                    Z = Σ exp(-x²/2s²)
    two parts:  p(z) = exp(-z²/2v) θ(z mod 2) / Z²,        θ(0) = Σ exp(-k²/s²),  θ(1) = Σ exp(-(k+½)²/s²)

as x² + (z-x)² = z²/2 + 2(x - z/2)²: no convolution, no cancellation. One part may have its centre at 1/2 instead of 0:
exp(-(z-½)²/2v), for a count of which the difference to another one is known. Tails are sums of positive numbers, never
one minus something, so that all of them are known to a small relative error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.int64]

UNIT = 2.0**-53
"""The unit roundoff of a double."""
_NOTHING_LEFT = 39.0
"""exp(-39²/2) is below the smallest double."""
_LEAST_LOG = 640.0
"""Probabilities above exp(-640) are known to full precision."""


@dataclass(frozen=True, eq=False)
class Tails:
    """P[g = z] for |z| <= reach, and the sums of it."""

    reach: int
    mass: Array = field(repr=False)
    cut: float
    """At least P[|g| > reach]."""

    @cached_property
    def _below(self) -> Array:
        return np.cumsum(self.mass)

    @cached_property
    def _above(self) -> Array:
        return np.cumsum(self.mass[::-1])[::-1]

    def at_most(self, z: Any) -> Any:  # noqa: ANN401 - a number or an array of them
        """P[g <= z], but for what was cut."""
        place = np.asarray(z)
        return self._below[np.clip(place, -self.reach, self.reach) + self.reach] * (place >= -self.reach)

    def at_least(self, z: Any) -> Any:  # noqa: ANN401 - a number or an array of them
        """P[g >= z], but for what was cut."""
        place = np.asarray(z)
        return self._above[np.clip(place, -self.reach, self.reach) + self.reach] * (place <= self.reach)

    def beyond(self, distance: int) -> float:
        """At least P[g >= distance], and P[g <= -distance]."""
        return float(self.at_least(distance)) + self.cut


@dataclass(frozen=True, eq=False)
class NoiseLaw(Tails):
    """The law of one noise, symmetric around its centre, with full support beyond its reach."""

    part_sigma: float
    parts: int
    constants: Array = field(repr=False)
    """What exp(-z²/2v) is multiplied by, for even and for odd z."""
    relative_error: float
    """A bound for every entry, and for every sum of entries."""
    centre: float
    """0 or 1/2."""

    @property
    def variance(self) -> float:
        """v: of the continuous noise of this width."""
        return self.parts * self.part_sigma**2


def within_range(farthest: float, sigma: float) -> bool:
    """Whether the chance of noise as far out as that is well above the smallest double."""
    return farthest**2 < 2 * _LEAST_LOG * sigma**2


@lru_cache(maxsize=32)
def noise_law(part_sigma: float, parts: int, reach: int, centre: float = 0.0) -> NoiseLaw:
    """The table of one noise, out to `reach` on both sides; only one part may have a centre other than 0."""
    v = parts * part_sigma**2
    points = np.arange(-reach, reach + 1)
    far = math.ceil(_NOTHING_LEFT * part_sigma) + 2
    x = np.arange(-far, far + 1, dtype=np.float64)
    total = float(np.exp(-((x - centre) ** 2) / (2 * part_sigma**2)).sum())
    if parts == 1:
        constants = np.full(2, 1 / total)
    else:
        constants = np.array([np.exp(-((x + o) ** 2) / part_sigma**2).sum() for o in (0.0, 0.5)]) / total**2
    mass = np.exp(-((points - centre) ** 2) / (2 * v)) * constants[np.abs(points) & 1]
    # The exponent has a relative error of 4 units, so exp one of 4 max + 2; the constants, sums in pairs of few terms
    # that count, 100; a sum of n terms n more.
    error = 2 * UNIT * (4 * reach**2 / (2 * v) + 100 + 2 * (2 * reach + 1))
    cut = 2 * float(constants.max()) * math.exp(-((reach - centre) ** 2) / (2 * v)) * (1 + math.sqrt(v * math.pi / 2))
    return NoiseLaw(reach, mass, cut, part_sigma, parts, constants, error, centre)


@dataclass(frozen=True, eq=False)
class Tilted:
    """h(z) = p(z)^α p(z-1)^(1-α): what each point of the noise adds to the sum when its count moves by one."""

    points: Integers
    mass: Array
    rest: float
    """At least the mass of h beyond the table."""

    @property
    def total(self) -> float:
        """At least all of it."""
        return float(self.mass.sum()) + self.rest

    def beyond(self, distance: int) -> float:
        """At least the mass `distance` or more away on either side, whichever way the count moves."""
        low = float(self.mass[self.points <= 1 - distance].sum())
        high = float(self.mass[self.points >= distance].sum())
        return max(low, high) + self.rest


def tilted(law: NoiseLaw, order: float) -> Tilted:
    """h of a noise at an order, through logarithms: a Gaussian around the centre + 1 - order."""
    points = np.arange(1 - law.reach, law.reach + 1)
    z, v, logs = points - law.centre, law.variance, np.log(law.constants)
    parity = np.abs(points) & 1
    exponent = (-((z + order - 1) ** 2) + order * (order - 1)) / (2 * v)
    mass = np.exp(exponent + order * logs[parity] + (1 - order) * logs[1 - parity])
    edge = law.reach - law.centre - (order - 1)
    top = math.exp(order * (order - 1) / (2 * v) + order * float(logs.max()) - (order - 1) * float(logs.min()))
    rest = 2 * top * math.exp(-edge * edge / (2 * v)) * (1 + math.sqrt(v * math.pi / 2))
    return Tilted(points, mass, rest)


def two_terms(p: Array, q: Array, order: float) -> tuple[Array, Array]:
    """p^α q^(1-α) and, for the neighbours in the other order, q^α p^(1-α); raises where a double cannot hold them."""
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        log_p, log_q = np.log(p), np.log(q)
        ratio = (order - 1) * (log_p - log_q)
        return np.exp(log_p + ratio), np.exp(log_q - ratio)
