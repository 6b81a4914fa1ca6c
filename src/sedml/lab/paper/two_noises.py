"""What the paper says that a job costs: a noise for the check and another one for the label.

The package's own protocol has one noise, and its own figures (`sedml.privacy.accounting`).
"""

from __future__ import annotations

import math

from sedml.privacy.conversion import check_delta
from sedml.privacy.zcdp import inverse_square, whole


def paper_epsilon(sigma1: float, sigma2: float, delta: float, queries: int = 1) -> float:
    """The paper's theorem, √(2(9/σ1² + 2/σ2²) log(1/δ)) + (9/(2σ1²) + 1/σ2²), over a number of queries.

    The theorem is for one query, of RDP α(9/(2σ1²) + 1/σ2²). RDP adds up: k queries have k times that. From zCDP to
    epsilon it goes by rho + 2 sqrt(rho log(1/delta)): Bun & Steinke 2016, Prop 1.3.
    """
    check_delta(delta)
    times = whole(queries)
    rho = times * (4.5 * inverse_square(sigma1) + inverse_square(sigma2)) if times else 0.0
    return rho + 2.0 * math.sqrt(rho * -math.log(delta))


def sigma_by_theorem(epsilon: float, delta: float) -> float:
    """The sigma1 = sigma2 at which the paper's theorem says `epsilon` for one query.

    With both equal its RDP is rho = 5.5 / sigma² and epsilon = rho + 2√(rho log 1/delta), so √rho solves a quadratic.
    """
    log = math.log(1.0 / delta)
    return math.sqrt(5.5) / (math.sqrt(log + epsilon) - math.sqrt(log))
