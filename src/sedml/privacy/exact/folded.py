"""One sample at one Rényi order, whatever one of the two servers does: what is charged for it.

A server that shifts its shares makes folded counts of them: a vote that moves from one class to another then moves
two counts by -1, 0 or 1 each, in any combination. Its own noise it knows, so the other's alone protects. "None" is one
more class, whose noisy count is the constant T: like all classes that do not move, it has one law under both
neighbours. So check and label together cost what an argmax costs, answered or not:

    the counts move apart      label(α): `argmax_divergence`
    only one of them moves     a check, which is a limit of the first
    both move the same way     their difference is then a common part, too; given it, one bit comes out, of a discrete
                               Gaussian of half the variance with its centre at 0 or 1/2

The charge is the largest of these, and at most zCDP's, which asks for no signs. docs/explanation/privacy.md has the
proof.
"""

from __future__ import annotations

import math

from sedml.privacy.exact.argmax import argmax_divergence
from sedml.privacy.exact.check import bit_divergence
from sedml.privacy.zcdp import LABEL, noise_rho


def folded_divergence(own_sigma: float, order: float) -> float:
    """At least D_α of a sample for the requester and one server together; `own_sigma` is the other server's."""
    half = own_sigma / math.sqrt(2)
    same_way = max(bit_divergence(half, 1, order, centre) for centre in (0.0, 0.5))
    by_zcdp = order * noise_rho(LABEL, own_sigma)
    return min(by_zcdp, max(argmax_divergence(own_sigma, 1, order), same_way))
