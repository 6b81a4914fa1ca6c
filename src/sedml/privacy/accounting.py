"""What a whole job costs in privacy, as each party sees it.

Which figure is the claim, and why:

- `View.epsilon` is the claim: what is released, a bit and an argmax, charged as that at one Rényi order on the exact
  law of the discrete noise (`sedml.privacy.exact`), and converted by CKS20. The order follows from the job's terms and
  delta, never from votes.
- `View.epsilon_zcdp` charges every check as its noisy count and every label as the whole noisy histogram, by zCDP
  (CKS20 Thm 4 for one discrete Gaussian, KLS21 Prop 14 for the sum of two servers' noise). It holds as well, even
  against somebody who learns a runner-up or a margin; above a sigma of 200 it is all that is known of labels.
- `View.epsilon_classic` is the same zCDP by the classic conversion, to compare with older papers.

How many samples are answered depends on the votes. What holds whatever happens is only the figure of the worst
case, answered = samples, or of a number at which the job is made to stop. What was really answered may be
charged to a budget afterwards: a filter that never lets the sum of the charges pass a limit set in advance makes all
jobs together satisfy that limit (`sedml.privacy.ledger`). The guarantee is then the filter's limit. The figure of one
job with answered < samples, taken alone, is an odometer's reading, not an (epsilon, delta) of its own.

The short names of sources are those of `sedml.privacy.conversion` and `sedml.privacy.zcdp`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from sedml.errors import TaskError
from sedml.privacy.conversion import (
    check_delta,
    classic_epsilon,
    epsilon_with_sampler,
    order_epsilon,
    sampler_delta,
    zcdp_epsilon,
    zcdp_order,
)
from sedml.privacy.exact import check_divergence, label_costs
from sedml.privacy.noise import server_sigma, table_distance
from sedml.privacy.zcdp import inverse_square, job_rho, whole

__all__ = ["PrivacyReport", "View", "job_report", "paper_epsilon", "requester_epsilon"]

_SERVERS = 2
"""Both add noise, in equal parts."""
_RELEASED = 0.64
"""About what an exact divergence is of rho times the order; a guess, to choose the order by."""
_PER_OCTAVE = 16
"""Orders on the grid."""


@dataclass(frozen=True)
class View:
    """What one observer's knowledge costs. The module's docstring says which figure is the claim."""

    observer: str
    rho: float
    """zCDP of the job."""
    delta: float
    """All of it, of the mechanism and of the sampler, for every epsilon here."""
    delta_sampler: float
    """The part of `delta` that pays, at `epsilon`, for the sampler not being exact; inf if it is too much."""
    epsilon: float
    """The claim."""
    order: float
    """The Rényi order at which the claim holds; inf where nothing is claimed."""
    epsilon_zcdp: float
    """What it would be if all noisy counts were released."""
    epsilon_classic: float
    """rho + 2√(rho log(1/delta))."""


@dataclass(frozen=True, repr=False)
class PrivacyReport:
    """A job and what it costs: in three views, and by the paper's formula."""

    samples: int
    answered: int
    sigma1: float
    sigma2: float
    delta: float
    draws: int
    sampler_distance: float
    requester: View
    """Sees the labels and, where one is missing, that there was no consensus. All noise protects."""
    collusion: View
    """The requester, told its noise by one server: only the other server's noise protects.

    That server's protocol transcript is not part of this view.
    """
    server: View
    """One server, the worse of the two: sees the consensus bits, knows its own noise, sees no label."""
    paper_query: float
    """The paper's formula, for one query."""
    paper_job: float
    """The paper's formula, composed over all samples."""

    @property
    def views(self) -> tuple[View, View, View]:
        """The three views, the requester's first."""
        return self.requester, self.collusion, self.server

    def __repr__(self) -> str:
        costs = ", ".join(f"{view.epsilon:.3g} ({view.observer})" for view in self.views)
        return f"<PrivacyReport: {self.answered:,} of {self.samples:,} samples, epsilon {costs}, delta {self.delta:g}>"


def paper_epsilon(sigma1: float, sigma2: float, delta: float, queries: int = 1) -> float:
    """The paper's theorem, √(2(9/σ1² + 2/σ2²) log(1/δ)) + (9/(2σ1²) + 1/σ2²), over a number of queries.

    The theorem is for one query, of RDP α(9/(2σ1²) + 1/σ2²). RDP adds up: k queries have k times that.
    """
    rho = 4.5 * inverse_square(sigma1) + inverse_square(sigma2)
    return classic_epsilon(rho * times if (times := whole(queries)) else 0.0, delta)


def job_report(
    samples: int, answered: int, sigma1: float, sigma2: float, delta: float, *, classes: int | None = None
) -> PrivacyReport:
    """The cost of a job with `samples` samples, `answered` of them with a label.

    The distance of the servers' noise tables from the exact law is paid for all noise that they can draw: for every
    sample, answered or not, one draw for the threshold and one for each of `classes`. No table is built for it: whoever
    checks the terms of a stranger's job must not pay for a large sigma. Without classes: as if noise were exact.
    """
    check_delta(delta)
    samples, answered = whole(samples), whole(answered)
    if classes is not None and classes < 1:
        raise TaskError(f"A job cannot have {classes} classes.", "Use 1 or more.")
    draws = _SERVERS * samples * (1 + (classes or 0))
    distance = 0.0 if classes is None else _distance(sigma1, sigma2)

    # Whoever knows one server's noise is left with the other's, a single discrete Gaussian.
    own1, own2 = server_sigma(sigma1), server_sigma(sigma2)
    full = _Seen("requester", samples, answered, sigma1, sigma2, _SERVERS)
    rest = _Seen("requester and one server", samples, answered, own1, own2, 1)
    bits = _Seen("server", samples, 0, own1, own2, 1)
    requester, collusion, server = (_view(seen, delta, draws, distance) for seen in (full, rest, bits))
    return PrivacyReport(
        samples=samples,
        answered=answered,
        sigma1=sigma1,
        sigma2=sigma2,
        delta=delta,
        draws=draws,
        sampler_distance=distance,
        requester=requester,
        collusion=collusion,
        server=server,
        paper_query=paper_epsilon(sigma1, sigma2, delta),
        paper_job=paper_epsilon(sigma1, sigma2, delta, samples),
    )


def requester_epsilon(samples: int, sigma1: float, sigma2: float, delta: float, *, classes: int) -> float:
    """The claim alone, as `job_report` has it, in less time: that of the requester, all samples answered."""
    seen = _Seen("requester", samples, samples, sigma1, sigma2, _SERVERS)
    return _view(seen, delta, _SERVERS * samples * (1 + classes), _distance(sigma1, sigma2)).epsilon


def _distance(sigma1: float, sigma2: float) -> float:
    return max(table_distance(server_sigma(sigma)) for sigma in (sigma1, sigma2))


@dataclass(frozen=True)
class _Seen:
    """What an observer sees of a job, and the noise of `parts` equal parts that it does not know."""

    observer: str
    samples: int
    answered: int
    sigma1: float
    sigma2: float
    parts: int

    @property
    def rho(self) -> float:
        return job_rho(self.samples, self.answered, self.sigma1, self.sigma2, self.parts)

    def divergence(self, order: float, label: float | None = None) -> float:
        """At least D_α of the job; about that with a guess of what a `label` costs."""
        if not self.answered:
            return self.samples * check_divergence(self.sigma1 / math.sqrt(self.parts), self.parts, order)
        costs = label_costs(self.sigma1, self.sigma2, self.parts, order, label)
        return min(cost.job(self.samples, self.answered) for cost in costs)

    def order(self, delta: float) -> float:
        """Nearly the best order, as epsilon is flat around it; on a grid, so that divergences can be kept."""
        rho = _RELEASED * self.rho
        if not 0.0 < rho < math.inf:
            return math.inf
        first = zcdp_order(rho, delta)
        if first > 1.0:
            guess = self.divergence(first, _RELEASED * first * inverse_square(self.sigma2))
            excess = zcdp_order(guess / first, delta) - 1.0
            return 1.0 + 2.0 ** (round(_PER_OCTAVE * math.log2(excess)) / _PER_OCTAVE) if excess > 0.0 else 1.0
        return 1.0


def _view(seen: _Seen, delta: float, draws: int, distance: float) -> View:
    rho = seen.rho

    def settle(epsilon_at: Callable[[float], float]) -> float:
        return epsilon_with_sampler(epsilon_at, delta, draws, distance)

    by_zcdp, order = settle(lambda part: zcdp_epsilon(rho, part)), seen.order(delta)
    epsilon = by_zcdp
    if 1.0 < order < math.inf:
        divergence = seen.divergence(order)
        epsilon = min(by_zcdp, settle(lambda part: order_epsilon(order, divergence, part)))
    return View(
        observer=seen.observer,
        rho=rho,
        delta=delta,
        delta_sampler=sampler_delta(epsilon, draws, distance),
        epsilon=epsilon,
        order=order,
        epsilon_zcdp=by_zcdp,
        epsilon_classic=settle(lambda part: classic_epsilon(rho, part)),
    )
