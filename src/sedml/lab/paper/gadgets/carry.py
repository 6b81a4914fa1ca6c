"""The carry out of a row of digits, each of which generates a carry, or propagates one, or neither.

A node combines neighbouring digits, highest first, as in the paper's operator
(G'', P'') o (G', P') = (G'' + G' P'', P' P''), extended to k digits:

    G* = G_{k-1} + P_{k-1} G_{k-2} + P_{k-1} P_{k-2} G_{k-3} + ..     P* = P_{k-1} .. P_0

At most one term of G* is 1, since a digit never generates and propagates at once, so + is XOR. All nodes
of a level share one round; a node of k digits opens 2k - 1 bits, the lowest one 2k - 2, for no carry enters
it and it needs no P. ceil(log_k D) rounds for D digits. The paper's tree has k = 2; k = 4 halves the rounds
for a few more dealt bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.gadgets.and_ import Gate, Monomials, Products, products
from sedml.lab.semi_honest.party import Party
from sedml.mpc.bits import Plane

__all__ = ["carry_out", "carry_rounds", "plan_carry"]


def plan_carry(name: str, digits: int, shape: tuple[int, ...], radix: int) -> dict[str, Correlation]:
    """What `carry_out` needs for digits of `shape` = (rows, samples)."""
    plan: dict[str, Correlation] = {}
    for level in range(carry_rounds(digits, radix)):
        groups = _groups(digits, radix)
        for kind, members in _kinds(groups).items():
            size = len(groups[members[0]])
            monomials = _monomials(size, lowest=kind == "low")
            count = _inputs(size, lowest=kind == "low")
            plan[f"{name}/{level}/{kind}"] = Products(count, monomials, (len(members), *shape))
        digits = len(groups)
    return plan


def carry_rounds(digits: int, radix: int) -> int:
    """ceil(log_radix digits)."""
    rounds = 0
    while digits > 1:
        digits = -(-digits // radix)
        rounds += 1
    return rounds


def carry_out(
    party: Party, name: str, generate: Sequence[Plane], propagate: Sequence[Plane], samples: int, radix: int
) -> Plane:
    """⟦carry⟧ out of the highest digit; lowest digit first, planes uint8[rows, B] each.

    propagate[0] is never looked at.
    """
    g, p = list(generate), list(propagate)
    for level in range(carry_rounds(len(g), radix)):
        groups = _groups(len(g), radix)
        kinds = _kinds(groups)
        gates = []
        for kind, members in kinds.items():
            rows = [_node_inputs(g, p, groups[m], lowest=kind == "low") for m in members]
            inputs = np.stack(rows[0])[:, np.newaxis] if len(rows) == 1 else np.stack(rows, axis=1)
            monomials = _monomials(len(groups[members[0]]), lowest=kind == "low")
            gates.append(Gate(f"{name}/{level}/{kind}", inputs, monomials, samples))
        results = products(party, f"{name}/{level}", gates)
        # A group of one digit passes through; the others are replaced by their node.
        next_g = [g[group[-1]] for group in groups]
        next_p = [p[group[-1]] for group in groups]
        for (kind, members), result in zip(kinds.items(), results, strict=True):
            terms = result if kind == "low" else result[:-1]
            for row, m in enumerate(members):
                next_g[m] = np.bitwise_xor.reduce(terms[:, row], axis=0) ^ next_g[m]
                next_p[m] = result[-1, row]
        g, p = next_g, next_p
    return g[0]


def _groups(digits: int, radix: int) -> list[range]:
    return [range(start, min(start + radix, digits)) for start in range(0, digits, radix)]


def _kinds(groups: list[range]) -> dict[str, list[int]]:
    """Which groups are evaluated together: the lowest, the full ones above it, a shorter one at the top."""
    kinds: dict[str, list[int]] = {"low": [], "full": [], "top": []}
    for m, group in enumerate(groups):
        if len(group) > 1:
            kinds["low" if m == 0 else "full" if len(group) == len(groups[0]) else "top"].append(m)
    return {kind: members for kind, members in kinds.items() if members}


def _node_inputs(g: list[Plane], p: list[Plane], group: range, *, lowest: bool) -> list[Plane]:
    """P_{k-1}, P_{k-2}, .., P_1, G_{k-2}, .., G_0 and, unless lowest, P_0."""
    high, low = group[-1], group[0]
    wires = [p[j] for j in range(high, low, -1)] + [g[j] for j in range(high - 1, low - 1, -1)]
    return wires if lowest else [*wires, p[low]]


def _inputs(size: int, *, lowest: bool) -> int:
    return 2 * size - 2 if lowest else 2 * size - 1


def _monomials(size: int, *, lowest: bool) -> Monomials:
    """The terms of G* after the first, and P*, over the inputs in the order of `_node_inputs`."""
    terms = tuple((*range(j + 1), size - 1 + j) for j in range(size - 1))
    return terms if lowest else (*terms, (*range(size - 1), 2 * size - 2))
