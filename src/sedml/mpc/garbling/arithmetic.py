"""Circuits for numbers: adding two shares, comparing, choosing, and the tournament for the highest.

ANDs, for numbers of w bits:

    add          w - 1 (the carry out of the top bit is not wanted)
    negative     w - 1, of a sum: its top bit alone
    less         w - 1: the borrow of a difference that fits in w bits
    choose       w
    highest      (N - 1)(w - 1) comparisons, w for each winner but the last, and its index
"""

from __future__ import annotations

import numpy as np

from sedml.mpc.garbling.circuit import ZERO, Builder, Wires

__all__ = ["add", "all_of", "highest", "less", "negative"]


def add(build: Builder, a: Wires, b: Wires) -> Wires:
    """a + b mod 2^w, Wires[w, n]."""
    plain = build.xor(a, b)
    # Bit by bit: what follows can begin with the lowest before the highest is there.
    carried = [build.xor(bit, carry) for bit, carry in zip(plain[1:], _carries(build, a, b), strict=True)]
    return np.stack([plain[0], *carried])


def negative(build: Builder, a: Wires, b: Wires) -> Wires:
    """Whether a + b mod 2^w is below zero in two's complement, Wires[n]."""
    carries = _carries(build, a, b)
    return build.xor(build.xor(a[-1], b[-1]), carries[-1])


def _carries(build: Builder, a: Wires, b: Wires) -> Wires:
    """Into bits 1 to w - 1: c' = c ^ ((a ^ c) & (b ^ c)) (Kolesnikov, Sadeghi & Schneider 2009)."""
    carry = build.and_(a[0], b[0])
    found = [carry]
    for one, other in zip(a[1:-1], b[1:-1], strict=True):
        carry = build.xor(carry, build.and_(one, other, a2=carry, b2=carry))
        found.append(carry)
    return np.stack(found)


def less(build: Builder, x: Wires, y: Wires) -> Wires:
    """Whether x < y, for numbers whose difference fits in w bits, Wires[n]."""
    borrow = build.and_(build.not_(x[0]), y[0])
    for one, other in zip(x[1:-1], y[1:-1], strict=True):
        borrow = build.xor(borrow, build.and_(build.not_(one), other, a2=borrow, b2=borrow))
    return build.xor(build.xor(x[-1], y[-1]), borrow)


def all_of(build: Builder, bits: Wires) -> Wires:
    """AND of all, Wires[n] -> Wires[1], in a tree."""
    while bits.size > 1:
        even = bits.size // 2 * 2
        bits = np.concatenate([build.and_(bits[0:even:2], bits[1:even:2]), bits[even:]])
    return bits


def highest(build: Builder, values: Wires) -> Wires:
    """The index of the first of the highest of N values, Wires[w, N] -> Wires[ceil(log2 N)].

    A tournament. After j levels lane i stands for the classes from i 2^j on; the winner's index is i 2^j plus j secret
    bits, so a duel chooses between those of both sides, and its own outcome is the next bit.
    """
    bits: list[Wires] = []
    while (lanes := values.shape[1]) > 1:
        even = lanes // 2 * 2
        left, right, rest = values[:, 0:even:2], values[:, 1:even:2], values[:, even:]
        second = less(build, left, right)
        chosen = [_choose(build, second, row[0:even:2], row[1:even:2]) for row in bits]
        bits = [np.concatenate([won, row[even:]]) for won, row in zip(chosen, bits, strict=True)]
        bits.append(np.concatenate([second, np.full(lanes - even, ZERO)]))
        values = np.concatenate([_choose(build, second, left, right), rest], axis=1) if lanes > 2 else left
    return np.concatenate(bits)


def _choose(build: Builder, second: Wires, left: Wires, right: Wires) -> Wires:
    """`right` where `second`, `left` elsewhere."""
    return build.xor(left, build.and_(np.broadcast_to(second, left.shape), left, b2=right))
