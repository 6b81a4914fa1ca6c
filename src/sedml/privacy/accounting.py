"""What a whole job costs in privacy, as each party sees it.

Which figure is the claim, and why:

- `View.epsilon` is the claim: zCDP, added up over all events and converted by CKS20. The noise is *discrete*,
  and zCDP is what is proven for it (CKS20 Thm 4 for one discrete Gaussian, KLS21 Prop 14 for the sum of two
  servers' noise). zCDP also has filters for a number of answers that depends on the votes (see below).
- `View.epsilon_fixed` is proven for the discrete noise as well, and close to optimal (`fixed_epsilon` has the
  proof), but only where `answered` was fixed beforehand, as it is when all samples are reserved.
- `View.epsilon_gaussian` is exact Gaussian DP. It holds for the *continuous* Gaussian: a reference only.
- `View.epsilon_classic` is the same zCDP by the classic conversion, to compare with older papers.

How many samples are answered depends on the votes. What holds whatever happens is only the figure of the worst
case, answered = samples, or of a number at which the job is made to stop. What was really answered may be
charged to a budget afterwards: a filter that never lets the sum of rho pass a limit set in advance makes all
jobs together satisfy that limit (Feldman & Zrnic, "Individual Privacy Accounting via a Rényi Filter", NeurIPS
2021; Whitehouse, Ramdas, Rogers & Wu, "Fully-Adaptive Composition in Differential Privacy", ICML 2023). The
guarantee is then the filter's limit. The figure of one job with answered < samples, taken alone, is an
odometer's reading, not an (epsilon, delta) of its own.

The short names of sources are those of `sedml.privacy.conversion` and `sedml.privacy.events`.
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
    gaussian_epsilon,
    sampler_delta,
    zcdp_epsilon,
)
from sedml.privacy.events import (
    Event,
    Job,
    NoisyMaximum,
    ThresholdCheck,
    fixed_epsilon,
    inverse_square,
    job,
    job_mu,
    job_rho,
    whole,
)
from sedml.privacy.noise import NoiseSource, server_sigma, table_distance

__all__ = [
    "Event",
    "Job",
    "NoisyMaximum",
    "PrivacyReport",
    "ThresholdCheck",
    "View",
    "account",
    "fixed_epsilon",
    "job",
    "job_mu",
    "job_report",
    "job_rho",
    "paper_epsilon",
]


@dataclass(frozen=True)
class View:
    """What one observer's knowledge costs. The module's docstring says which figure is the claim."""

    observer: str
    rho: float
    """zCDP of the job: what a filter adds up."""
    mu: float
    """Gaussian DP of the job if its noise were continuous."""
    delta: float
    """All of it, of the mechanism and of the sampler, for every epsilon here."""
    delta_sampler: float
    """The part of `delta` that pays, at `epsilon`, for the sampler not being exact; inf if it is too much."""
    epsilon: float
    """The claim."""
    epsilon_fixed: float
    """Lower, where the number of answers was fixed beforehand."""
    epsilon_gaussian: float
    """Exact, of continuous Gaussian noise and an exact sampler."""
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
    noise: NoiseSource
    draws: int
    sampler_distance: float
    requester: View
    """Sees the labels and, where one is missing, that there was no consensus. All noise protects."""
    collusion: View
    """The requester, told its noise by one server: only the other server's noise protects.

    That server's protocol transcript is not part of this view. A coalition of one server with whoever dealt
    the correlations can undo the masks of all opened values, and against it no noise helps.
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


def account(
    samples: int,
    answered: int,
    sigma1: float,
    sigma2: float,
    delta: float,
    *,
    noise: NoiseSource = "both",
    classes: int | None = None,
    sampler_distance: float = 0.0,
) -> PrivacyReport:
    """The cost of a job with `samples` samples, `answered` of them with a label.

    `sampler_distance` is the total variation distance of one draw of one server from the exact law: that of
    its `NoiseTable` or more, the larger one of the two sigmas'. It is paid for all noise that the servers can draw:
    for every sample, answered or not, one draw for the threshold and one for each of `classes`.
    """
    check_delta(delta)
    samples, answered = whole(samples), whole(answered)
    servers = 2 if noise == "both" else 1
    full = job(samples, answered, sigma1, sigma2, servers)
    own1, own2 = server_sigma(sigma1, noise), server_sigma(sigma2, noise)
    if sampler_distance and (classes is None or classes < 1):
        raise TaskError("The sampler's distance is paid for by class, and no classes were given.", "Pass classes=.")
    draws = servers * samples * (1 + (classes or 0))

    # Whoever knows one server's noise is left with the other's, a single discrete Gaussian, or with none.
    rest = job(samples, answered, own1, own2) if servers == 2 else None
    bits = job(samples, 0, own1, own2) if servers == 2 else None
    requester, collusion, server = (
        _view(observer, events if samples else (), delta, draws, sampler_distance)
        for observer, events in (("requester", full), ("requester and one server", rest), ("server", bits))
    )
    return PrivacyReport(
        samples=samples,
        answered=answered,
        sigma1=sigma1,
        sigma2=sigma2,
        delta=delta,
        noise=noise,
        draws=draws,
        sampler_distance=sampler_distance,
        requester=requester,
        collusion=collusion,
        server=server,
        paper_query=paper_epsilon(sigma1, sigma2, delta),
        paper_job=paper_epsilon(sigma1, sigma2, delta, samples),
    )


def job_report(
    samples: int, answered: int, sigma1: float, sigma2: float, delta: float, *, noise: NoiseSource, classes: int
) -> PrivacyReport:
    """`account`, with a bound on the distance of the servers' own noise tables from the exact law.

    No table is built for it: whoever checks the terms of a stranger's job must not pay for a large sigma.
    """
    distance = max(table_distance(server_sigma(sigma, noise)) for sigma in (sigma1, sigma2))
    return account(samples, answered, sigma1, sigma2, delta, noise=noise, classes=classes, sampler_distance=distance)


def _view(observer: str, events: Job | None, delta: float, draws: int, distance: float) -> View:
    rho, mu = (math.inf, math.inf) if events is None else (job_rho(events), job_mu(events))

    def settle(epsilon_at: Callable[[float], float]) -> float:
        return epsilon_with_sampler(epsilon_at, delta, draws, distance)

    epsilon = settle(lambda part: zcdp_epsilon(rho, part))
    return View(
        observer=observer,
        rho=rho,
        mu=mu,
        delta=delta,
        delta_sampler=sampler_delta(epsilon, draws, distance),
        epsilon=epsilon,
        epsilon_fixed=math.inf if events is None else settle(lambda part: fixed_epsilon(events, part)),
        epsilon_gaussian=gaussian_epsilon(mu, delta),
        epsilon_classic=settle(lambda part: classic_epsilon(rho, part)),
    )
