"""What a whole job costs in privacy: one figure, for one meaning.

- `PrivacyReport.epsilon` is the claim, what is planned, reserved and charged. It holds for the requester, one operator
  who does anything at all, and any other teachers, all together, as long as the other operator runs the published code:
  only that server's noise protects. What is released, an argmax or nothing, is charged as that at one Rényi order, on
  the exact law of the discrete noise (`sedml.privacy.exact`), and converted by CKS20. The order follows from the job's
  terms and delta, never from votes.
- It protects the *unit* of the job (`sedml.privacy.unit`), which moves so many votes of a sample;
  `epsilon_organisation` is the same claim for an organisation with all its votes, by zCDP alone where that is far
  beyond any protection: a closer figure takes long and tells nobody more.
- `epsilon_apart` holds if both operators run the published code, and neither works with the requester: the noise of
  both protects.
- `epsilon_zcdp` is what the claim would be if all noisy counts came out (CKS20 Thm 4); above a sigma of 280, where each
  server's is above 200, it is all that is known.

A server by itself learns nothing. All samples count, with a label or without: nobody but the requester knows which.

The short names of sources are those of `sedml.privacy.conversion` and `sedml.privacy.zcdp`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from sedml.errors import TaskError
from sedml.privacy.conversion import (
    check_delta,
    epsilon_with_sampler,
    order_epsilon,
    sampler_delta,
    zcdp_epsilon,
    zcdp_order,
)
from sedml.privacy.exact import argmax_divergence, folded_divergence, several_votes
from sedml.privacy.noise import server_sigma, table_distance
from sedml.privacy.unit import NO_PROTECTION, Unit
from sedml.privacy.zcdp import LABEL, noise_rho, whole

RELEASED = 0.64
"""About what an exact divergence is of zCDP's rho times the order; a guess, to choose the order by."""
_FAR = 5 * NO_PROTECTION
_LARGEST_OF_SEVERAL = 125.0
"""A sigma of one server beyond this: zCDP's bound instead where several votes move, as these take large orders."""
_PER_OCTAVE = 16
"""Orders on the grid."""


@dataclass(frozen=True, repr=False)
class PrivacyReport:
    """A job and what it costs. The module's docstring says what each figure means."""

    samples: int
    sigma: float
    delta: float
    """All of it, of the mechanism and of the sampler, for every epsilon here."""
    unit: Unit
    """Whom the claim protects."""
    epsilon: float
    """The claim: the requester and one operator together, about one unit."""
    epsilon_organisation: float
    """The same about an organisation, with all its votes."""
    epsilon_apart: float
    """If neither operator works with the requester."""
    epsilon_zcdp: float
    """What `epsilon` would be if all noisy counts came out."""
    order: float
    """The Rényi order at which the claim holds; inf where nothing is claimed."""
    delta_sampler: float
    """The part of `delta` that pays, at `epsilon`, for the sampler not being exact; inf if it is too much."""

    def __repr__(self) -> str:
        cost = f"epsilon {self.epsilon:.3g} for each {self.unit.name} at delta {self.delta:g}"
        return (
            f"<PrivacyReport: {self.samples:,} samples, {cost}; {self.epsilon_apart:.3g} if neither operator colludes>"
        )


def job_report(
    samples: int, sigma: float, delta: float, *, classes: int | None = None, unit: Unit | None = None
) -> PrivacyReport:
    """The cost of a job.

    The distance of the servers' noise tables from the exact law is paid for every draw, one for each sample and each of
    `classes`. No table is built for it: whoever checks the terms of a stranger's job must not pay for a large sigma.
    Without classes: as if noise were exact. Without a unit: an organisation that has one vote is protected.
    """
    if classes is not None and classes < 1:
        raise TaskError(f"A job cannot have {classes} classes.", "Use 1 or more.")
    unit = unit or Unit()
    colluding, apart = (_seen(samples, sigma, delta, classes, parts, unit.moves) for parts in (1, 2))
    epsilon = colluding.epsilon
    alone = unit.moves == unit.votes
    whole_organisation = colluding if alone else _seen(samples, sigma, delta, classes, 1, unit.votes, _FAR)
    return PrivacyReport(
        samples=colluding.samples,
        sigma=sigma,
        delta=delta,
        unit=unit,
        epsilon=epsilon,
        epsilon_organisation=whole_organisation.epsilon,
        epsilon_apart=min(epsilon, apart.epsilon),
        epsilon_zcdp=colluding.by_zcdp,
        order=colluding.order,
        delta_sampler=sampler_delta(epsilon, colluding.draws, colluding.distance),
    )


def job_epsilon(
    samples: int, sigma: float, delta: float, *, classes: int, moves: int = 1, rough: bool = False
) -> float:
    """The claim alone, as `job_report` has it, for a unit that moves so many votes, in less time.

    A `rough` one is computed exactly only where it protects anybody, as `epsilon_organisation` is.
    """
    return _seen(samples, sigma, delta, classes, 1, moves, _FAR if rough else math.inf).epsilon


def sample_divergence(own_sigma: float, order: float, moves: int = 1) -> float:
    """At least D_α of one sample for the requester and one server together; `own_sigma` is the other server's."""
    by_zcdp = moves**2 * order * noise_rho(LABEL, own_sigma)
    if moves > 1 and own_sigma > _LARGEST_OF_SEVERAL:
        return by_zcdp
    return min(by_zcdp, several_votes(partial(folded_divergence, own_sigma), order, moves))


def good_order(rho: float, delta: float) -> float:
    """Nearly the best order for a job of about this D_α/α; inf where nothing is claimed, 1 where nothing can be.

    Epsilon is flat around the best; this one is on a grid, so that exact divergences can be kept.
    """
    if not 0.0 < rho < math.inf:
        return math.inf
    excess = zcdp_order(rho, delta) - 1.0
    return 1.0 + 2.0 ** (round(_PER_OCTAVE * math.log2(excess)) / _PER_OCTAVE) if excess > 0.0 else 1.0


@dataclass(frozen=True)
class _Seen:
    """A job as somebody sees it whom the noise of one server protects from (`parts` 1) or that of both (2)."""

    samples: int
    epsilon: float
    by_zcdp: float
    order: float
    draws: int
    distance: float


def _seen(
    samples: int, sigma: float, delta: float, classes: int | None, parts: int, moves: int, far: float = math.inf
) -> _Seen:
    check_delta(delta)
    own, samples = server_sigma(sigma), whole(samples)
    draws, distance = parts * samples * (classes or 0), 0.0 if classes is None else table_distance(own)
    # For groups, zCDP's rho grows with the square of their size: Bun & Steinke 2016, Prop. 27.
    rho = samples * moves**2 * noise_rho(LABEL, math.sqrt(parts) * own, parts) if samples else 0.0

    def settle(epsilon_at: Callable[[float], float]) -> float:
        return epsilon_with_sampler(epsilon_at, delta, draws, distance)

    order = good_order(RELEASED * rho, delta)
    epsilon = by_zcdp = settle(lambda part: zcdp_epsilon(rho, part))
    if 1.0 < order < math.inf and zcdp_epsilon(rho, delta) <= far:
        each = sample_divergence(own, order, moves)
        if parts == 2 and (moves == 1 or math.sqrt(2.0) * own <= _LARGEST_OF_SEVERAL):
            each = several_votes(partial(argmax_divergence, own, 2), order, moves)
        epsilon = min(by_zcdp, settle(lambda part: order_epsilon(order, samples * each, part)))
    return _Seen(samples, epsilon, by_zcdp, order, draws, distance)
