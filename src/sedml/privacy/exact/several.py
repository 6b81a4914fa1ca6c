"""Several votes of one sample that move at once, at one Rényi order: what group privacy makes of the charge for one.

Move g votes one after the other. With D(s) at least the divergence of any one of these steps at order s, Hölder's
inequality with the exponents that are tight for normal laws gives for all of them together

    D_α <= g α Σ_{k=1..g} D(s_k) / s_k,    s_k = g (α - 1) + k.

Of a mechanism of zCDP rho this is g² rho α, so whatever D gains over zCDP is kept. Nothing is asked about which votes
move where: several of them may move many counts, which no lemma about two counts covers (docs/explanation/privacy.md
has the proof). D does not fall with the order, so several k may take the largest one's.
"""

from __future__ import annotations

from collections.abc import Callable

_ORDERS = 3
"""At how many orders the divergence of one step is computed at most."""


def several_votes(one: Callable[[float], float], order: float, moves: int) -> float:
    """At least D_α of a sample of which `moves` votes move; `one` is that at any order if a single one does."""
    first, total = moves * (order - 1.0), 0.0
    for run in range(min(moves, _ORDERS)):
        low, high = run * moves // min(moves, _ORDERS), (run + 1) * moves // min(moves, _ORDERS)
        total += one(first + high) * sum(1.0 / (first + k) for k in range(low + 1, high + 1))
    return moves * order * total
