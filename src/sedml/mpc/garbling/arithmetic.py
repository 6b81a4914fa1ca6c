"""Circuits for numbers: adding, comparing, choosing, and the tournament for the highest.

ANDs, for numbers of w bits:

    add          w - 1 (the carry out of the top bit is not wanted)
    add_whole    w, the wider of the two (it is wanted)
    below        w: the borrow of a difference
    choose       w
    highest      N - 1 comparisons, w for each winner, and its index
"""

from __future__ import annotations

import numpy as np

from sedml.mpc.garbling.circuit import ZERO, Builder, Wires


def add(build: Builder, a: Wires, b: Wires) -> Wires:
    """a + b mod 2^w, Wires[w, n]."""
    plain = build.xor(a, b)
    # Bit by bit: what follows can begin with the lowest before the highest is there.
    carried = [build.xor(bit, carry) for bit, carry in zip(plain[1:], _carries(build, a, b), strict=True)]
    return np.stack([plain[0], *carried])


def add_whole(build: Builder, a: Wires, b: Wires) -> Wires:
    """a + b of numbers that are not negative, Wires[w, n] and Wires[v, n] -> Wires[max(w, v) + 1, n]."""
    a, b = (a, b) if len(a) >= len(b) else (b, a)
    carry = build.and_(a[0], b[0])
    found = [build.xor(a[0], b[0])]
    for one, other in zip(a[1:], b[1:], strict=False):
        found.append(build.xor(build.xor(one, other), carry))
        carry = build.xor(carry, build.and_(one, other, a2=carry, b2=carry))
    for one in a[len(b) :]:
        found.append(build.xor(one, carry))
        carry = build.and_(one, carry)
    return np.stack([*found, carry])


def _carries(build: Builder, a: Wires, b: Wires) -> Wires:
    """Into bits 1 to w - 1: c' = c ^ ((a ^ c) & (b ^ c)) (Kolesnikov, Sadeghi & Schneider 2009)."""
    carry = build.and_(a[0], b[0])
    found = [carry]
    for one, other in zip(a[1:-1], b[1:-1], strict=True):
        carry = build.xor(carry, build.and_(one, other, a2=carry, b2=carry))
        found.append(carry)
    return np.stack(found)


def below(build: Builder, x: Wires, y: Wires) -> Wires:
    """Whether x < y, for numbers that are not negative, Wires[n]."""
    borrow = build.and_(build.not_(x[0]), y[0])
    for one, other in zip(x[1:], y[1:], strict=True):
        borrow = build.xor(borrow, build.and_(build.not_(one), other, a2=borrow, b2=borrow))
    return borrow


def highest(build: Builder, values: Wires) -> tuple[Wires, Wires]:
    """The index of the first of the highest of N values, Wires[w, N] -> Wires[ceil(log2 N)], and that value Wires[w].

    A tournament. After j levels lane i stands for the classes from i 2^j on; the winner's index is i 2^j plus j secret
    bits, so a duel chooses between those of both sides, and its own outcome is the next bit.
    """
    bits: list[Wires] = []
    while (lanes := values.shape[1]) > 1:
        even = lanes // 2 * 2
        left, right, rest = values[:, 0:even:2], values[:, 1:even:2], values[:, even:]
        second = below(build, left, right)
        chosen = [_choose(build, second, row[0:even:2], row[1:even:2]) for row in bits]
        bits = [np.concatenate([won, row[even:]]) for won, row in zip(chosen, bits, strict=True)]
        bits.append(np.concatenate([second, np.full(lanes - even, ZERO)]))
        values = np.concatenate([_choose(build, second, left, right), rest], axis=1)
    return np.concatenate(bits), values[:, 0]


def _choose(build: Builder, second: Wires, left: Wires, right: Wires) -> Wires:
    """`right` where `second`, `left` elsewhere."""
    return build.xor(left, build.and_(np.broadcast_to(second, left.shape), left, b2=right))
