"""Amounts of privacy as whole numbers, so that adding them never rounds.

rho is D_α/α at the cohort's order α, counted in units of 2^-40. What the samplers' distance may be in all depends on
epsilon, from 1e-8 to far below any float, so its unit is a power of two that each cohort has for itself. Charges are
rounded up, limits down; a float anywhere else is for people to read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from numbers import Real

from sedml.errors import PrivacyError
from sedml.privacy.charging import MOST_EPSILON, SAMPLER_SHARE, best_order
from sedml.privacy.conversion import order_epsilon
from sedml.privacy.unit import ORGANISATION, Unit

RHO_BITS = 40
_LIMIT_BITS = 60  # of the limit on the distance, counted in its unit: sums fit in 63
_MOST_UNITS = 2**63 - 1  # more than any budget: what a charge that cannot be met, such as inf, is cut to
_WIDE = Context(prec=60)


@dataclass(frozen=True)
class Charge:
    """What a job costs, in units."""

    rho: int
    distance: int

    def __add__(self, other: Charge) -> Charge:
        return Charge(self.rho + other.rho, self.distance + other.distance)

    def __sub__(self, other: Charge) -> Charge:
        return Charge(self.rho - other.rho, self.distance - other.distance)

    def within(self, other: Charge) -> bool:
        """Whether neither part is above the other's."""
        return self.rho <= other.rho and self.distance <= other.distance


NOTHING = Charge(0, 0)


@dataclass(frozen=True)
class Budget:
    """What a cohort is promised, for good, and the limits of the filter that follow from it."""

    epsilon: float
    delta: float
    unit: str
    """Whom it protects."""
    sampler_share: float
    """The part of delta set aside for samplers that are not exact."""
    limit: Charge
    distance_bits: int
    """A unit of distance is 2^-bits."""
    order: float
    """The one Rényi order at which all is charged and becomes epsilon."""

    def charge(self, rho: float, distance: float) -> Charge:
        """A job's cost rounded up to whole units; raises unless both are numbers that are not negative."""
        return Charge(_units("rho", rho, RHO_BITS), _units("distance", distance, self.distance_bits))

    def floats(self, charge: Charge) -> tuple[float, float]:
        """(rho, distance) for people to read."""
        return math.ldexp(charge.rho, -RHO_BITS), math.ldexp(charge.distance, -self.distance_bits)

    @property
    def delta_mechanism(self) -> float:
        """The part of delta at which rho becomes epsilon."""
        return self.delta * (1.0 - self.sampler_share)

    @property
    def least_epsilon(self) -> float:
        """What the conversion at this order makes of next to nothing: no smaller epsilon can be promised with it."""
        return order_epsilon(self.order, 0.0, self.delta_mechanism)

    def epsilon_of(self, rho: int) -> float:
        """What so many units are worth. Far from proportional: the first one is worth `least_epsilon`."""
        if rho <= 0:
            return 0.0
        divergence = self.order * math.ldexp(rho, -RHO_BITS)
        return min(self.epsilon, order_epsilon(self.order, divergence, self.delta_mechanism))

    def rho_within(self, epsilon: float) -> int:
        """How many units keep within an epsilon of at most the budget's, rounded down."""
        at_most = _rho_limit(self.order, min(epsilon, self.epsilon), self.delta, self.sampler_share)
        return min(self.limit.rho, at_most)

    def share(self, rho: int) -> float:
        """Which part of the limit so many units are."""
        return rho / self.limit.rho


@dataclass(frozen=True)
class Amounts:
    """A budget and where it went; the last three sum to the first."""

    budget: float
    spent: float
    """What jobs that were started cost."""
    reserved: float
    """What jobs that were not started yet will."""
    left: float


@dataclass(frozen=True)
class Status:
    """What a cohort has used so far."""

    cohort: str
    epsilon: float
    delta: float
    unit: str
    """Whom the budget protects."""
    order: float
    rho: Amounts
    distance: Amounts
    """The samplers' distance from exact noise."""

    @property
    def used(self) -> float:
        """Which part of the budget is spent or reserved: between 0 and 1."""
        return (self.rho.spent + self.rho.reserved) / self.rho.budget


def budget(epsilon: float, delta: float, unit: str = ORGANISATION) -> Budget:
    """The limits that keep all jobs together within (epsilon, delta) for each unit, rounded down."""
    epsilon, delta, share = _number("epsilon", epsilon), _number("delta", delta), SAMPLER_SHARE
    if not 0.0 < epsilon <= MOST_EPSILON:
        raise PrivacyError(
            f"A budget cannot have an epsilon of {epsilon}.",
            f"Use a number above 0 and at most {MOST_EPSILON:,.0f}.",
        )
    if not 0.0 < delta < 1.0:
        raise PrivacyError(
            f"A budget cannot have a delta of {delta}.", "Use a number above 0 and below 1, such as 1e-5."
        )
    order = best_order(epsilon, delta, share)
    rho, (distance, bits) = _rho_limit(order, epsilon, delta, share), _distance_limit(epsilon, delta, share)
    if rho <= 0:
        raise PrivacyError(
            f"A budget of epsilon {epsilon}, delta {delta} is too small for any job.", "Use larger numbers."
        )
    return Budget(epsilon, delta, Unit(unit).name, share, Charge(rho, distance), bits, order)


def _units(name: str, value: float, bits: int) -> int:
    number = _number(name, value)
    if not number >= 0.0:
        raise PrivacyError(f"A job cannot have a {name} of {number}.", "Use a number that is not negative.")
    if number < value:  # an int or a fraction that no float holds was rounded down
        number = math.nextafter(number, math.inf)
    try:
        # ldexp only moves the exponent, so the product is exact and ceil sees all of it. (One below 2^-1074 would
        # be rounded, but no unit is above 1.)
        return min(_MOST_UNITS, math.ceil(math.ldexp(number, bits)))
    except OverflowError:
        return _MOST_UNITS


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise PrivacyError(f"The {name} is a {type(value).__name__}.", "Pass a number.")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _rho_limit(order: float, epsilon: float, delta: float, share: float) -> int:
    """The most rho, in units, that is at or below epsilon by Canonne, Kamath & Steinke 2020, Prop. 12, at this order.

    With x = α - 1:  epsilon = αρ + (log(1/δ) - log α)/x + log(x/α).
    """
    c = _WIDE
    alpha = Decimal(order)
    x = c.subtract(alpha, 1)
    log_alpha = c.ln(alpha)
    log_delta = c.ln(c.multiply(Decimal(delta), c.subtract(1, Decimal(share))))
    tail = c.divide(c.add(log_delta, log_alpha), x)  # -(log(1/δ) - log α)/x
    top = c.add(c.subtract(c.add(Decimal(epsilon), tail), c.ln(x)), log_alpha)
    return _floor(c.divide(top, alpha), RHO_BITS)


def _distance_limit(epsilon: float, delta: float, share: float) -> tuple[int, int]:
    """How far off all samplers may be together, and the unit that is counted in."""
    part = _WIDE.multiply(Decimal(delta), Decimal(share))
    limit = _WIDE.divide(part, _WIDE.add(1, _WIDE.exp(Decimal(epsilon))))
    if not limit:
        return 0, _LIMIT_BITS
    bits = _LIMIT_BITS - math.ceil(_WIDE.divide(_WIDE.ln(limit), _WIDE.ln(Decimal(2))))
    return _floor(limit, bits), bits


def _floor(value: Decimal, bits: int) -> int:
    # One unit less: 60 digits are not exact either.
    return max(0, int(_WIDE.multiply(value, 1 << bits)) - 1)
