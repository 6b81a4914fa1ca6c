"""From what a mechanism satisfies (zCDP, RDP) to (epsilon, delta).

Every function returns an upper bound: where a root is searched for, the safe end of the last bracket is
returned. `math.inf` in means `math.inf` out, so that "no noise at all" needs no special case.

Sources, cited by their short names in the code:

- BBGHS20  Balle, Barthe, Gaboardi, Hsu & Sato, "Hypothesis Testing Interpretations and RDP", AISTATS 2020.
- CKS20  Canonne, Kamath & Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sedml.errors import TaskError


def check_delta(delta: float) -> None:
    """Raise unless 0 < delta < 1."""
    if not 0.0 < delta < 1.0:
        raise TaskError(f"delta is {delta}.", "Use a number above 0 and below 1, such as 1e-5.")


def _check_not_negative(name: str, value: float) -> None:
    if not value >= 0.0:
        raise TaskError(f"{name} is {value}.", "Use a number that is not negative.")


def _bisect(too_small: Callable[[float], bool], high: float) -> float:
    """The upper end of the last bracket, from 0 on, of the point where `too_small` turns false."""
    low = 0.0
    while low < (middle := 0.5 * (low + high)) < high:
        if too_small(middle):
            low = middle
        else:
            high = middle
    return high


# ---- zCDP and RDP -----------------------------------------------------------------------------------


def order_epsilon(order: float, divergence: float, delta: float) -> float:
    """epsilon at `delta` of a Rényi divergence at one order, fixed beforehand: CKS20 Prop 12.

    D + (log(1/delta) - log(alpha)) / (alpha - 1) + log(1 - 1/alpha): the same bound as BBGHS20 Thm 21.
    """
    check_delta(delta)
    _check_not_negative("divergence", divergence)
    excess = order - 1.0
    log_alpha = math.log1p(excess)
    return max(0.0, divergence + (-math.log(delta) - log_alpha) / excess + math.log(excess) - log_alpha)


def zcdp_order(rho: float, delta: float) -> float:
    """The order at which `zcdp_epsilon` is reached; 1 if that is too close to 1 for a double."""
    # log δ(ε) is convex in α with slope (2α - 1)ρ - ε + log(1 - 1/α); its root put into δ(ε) = δ leaves
    # (α - 1)²ρ + log α = log(1/δ). A root that is a little off is a true bound too, as any α gives one.
    log_inverse = -math.log(delta)
    upper = min(math.sqrt(log_inverse / rho), math.exp(min(log_inverse, 700.0)))
    return 1.0 + _bisect(lambda x: x * x * rho + math.log1p(x) < log_inverse, upper)


def zcdp_epsilon(rho: float, delta: float) -> float:
    """epsilon at `delta` of rho-zCDP, CKS20 Cor 13, at the best order."""
    check_delta(delta)
    _check_not_negative("rho", rho)
    if rho == 0.0 or rho == math.inf:
        return rho
    order = zcdp_order(rho, delta)
    return order_epsilon(order, rho * order, delta) if order > 1.0 else math.inf


def zcdp_rho(epsilon: float, delta: float) -> float:
    """The largest rho with `zcdp_epsilon` at most epsilon, or a little less."""
    high = 1.0
    while zcdp_epsilon(high, delta) < epsilon:
        high *= 2.0
    return math.nextafter(_bisect(lambda rho: zcdp_epsilon(rho, delta) <= epsilon, high), 0.0)


# ---- A sampler that is not exact --------------------------------------------------------------------


def sampler_delta(epsilon: float, draws: int, distance: float) -> float:
    """What `draws` draws, each within total variation `distance` of the exact law, add to delta.

    With eta = draws * distance, a maximal coupling of every draw makes the real output M~ and the exact one M
    agree except with probability eta, whatever the input. So for neighbours x, y and any event S
      P[M~(x) in S] <= P[M(x) in S] + eta <= e^eps P[M(y) in S] + delta + eta
                    <= e^eps P[M~(y) in S] + delta + (1 + e^eps) eta.
    """
    if draws < 0 or not 0.0 <= distance <= 1.0:
        raise TaskError(
            f"A sampler distance of {distance} over {draws} draws makes no sense.",
            "Use a distance between 0 and 1 and a number of draws that is not negative.",
        )
    eta = draws * distance
    if eta == 0.0:
        return 0.0
    return eta * (1.0 + math.exp(epsilon)) if epsilon < 700.0 else math.inf


def epsilon_with_sampler(epsilon_at: Callable[[float], float], delta: float, draws: int, distance: float) -> float:
    """The epsilon at a total of `delta`, the sampler's part of it set aside first; inf if none is left.

    `epsilon_at(d)` is the epsilon of the exact mechanism at d. A guess E is good once
    epsilon_at(delta - (1 + e^E) eta) <= E; the guesses rise from that at epsilon 0.
    """
    check_delta(delta)
    guess = 0.0
    for _ in range(200):
        part = sampler_delta(guess, draws, distance)
        # Rounded down: a part too small to change delta must still make epsilon larger, never smaller.
        rest = math.nextafter(delta - part, 0.0) if part > 0.0 else delta
        if rest <= 0.0:
            return math.inf
        epsilon = epsilon_at(rest)
        if epsilon <= guess or draws * distance == 0.0:
            return epsilon
        guess = epsilon * (1.0 + 1e-9)
    return math.inf
