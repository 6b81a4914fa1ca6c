"""The proof that a page of votes is right, which each of two servers can examine on its share alone.

A fully linear proof (Boneh, Boyle, Corrigan-Gibbs, Gilboa and Ishai, CRYPTO 2019). Let g(v) = v (v - 1) ... (v - m),
which is computed by two factors at a time: (v - j) (v - m + j) = u + j (m - j) with u = v (v - m). Every wire l is a
polynomial f_l of degree M + 3: random masks at the points 0 ... 3, and at each point k of 4 ... M + 3 a number that
must be one of 0 ... m, that is g(f_l(k)) = 0. With random rho of E,

    P = sum_l rho_l g(f_l)      vanishes at 4 ... M + 3,      so P = V H,      V = (t - 4) ... (t - M - 3),

and if one number is wrong, P does not vanish there but for a chance of 1/|E|, so that there is no such H. The proof
is H, as its values at the points that follow, M + 4 .... At a random z of E outside of the field of p^2 elements

    V(z) H(z) = sum_l rho_l g(F_l),      F_l = f_l(z)

holds for a wrong H with a chance of (m + 1) (M + 3) in |E| - p^2. f_l(z) and H(z) are linear in votes, masks and H,
so a server has a share of them; F itself is told to both. It says nothing: the masks make it uniform, as the four
weights of the masks at z are independent over F where z is in no smaller field. Masks and votes are in F, not in E,
and so is most of a teacher's work.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sedml.mpc.kernel import kernel
from sedml.protocol.ballots.field import (
    DEGREE,
    Elements,
    P,
    Words,
    factorials,
    inverse_factorials,
    matmul,
    multiply,
    running_products,
    subtract,
)
from sedml.protocol.ballots.shape import MASKS, PageShape

_P = np.uint64(P)


def prove(x: Words, masks: Words, rho: Words, shape: PageShape) -> Words:
    """The values of H: uint32[quotient, 4]. x: [entries], masks: [4, L], rho: [L, 4]."""
    further, scale = _beyond(shape.points, shape.quotient)
    values = matmul(further, _wires(x, masks, shape))
    u = values * (values + (_P - np.uint64(shape.votes))) % _P
    gates = u
    for j in range(1, (shape.votes + 1) // 2):
        gates = gates * (u + np.uint64(j * (shape.votes - j))) % _P
    if shape.votes % 2 == 0:
        gates = gates * (values + (_P - np.uint64(shape.votes // 2))) % _P
    return (matmul(gates, rho) * scale[:, np.newaxis] % _P).astype(np.uint32)


def evaluate(x: Words, masks: Words, quotient: Words, z: Words, shape: PageShape) -> Words:
    """Shares of F and of V(z) H(z) from shares of votes, masks and H: uint32[L + 1, 4]."""
    fast = kernel()
    if fast is not None:
        found = np.empty((shape.wires + 1, DEGREE), np.uint32)
        scales = _scales(shape.points), _scales(shape.quotient)
        fast.examine(x, masks, quotient, z, *scales, shape.samples, shape.classes, found)
        return found
    weights, zero = _lagrange(0, shape.points, z)
    told = matmul(_wires(x, masks, shape).T, weights)
    last = _sum_of_products(_lagrange(shape.points, shape.quotient, z)[0], quotient)
    return np.concatenate([told, multiply(zero, last)[np.newaxis]]).astype(np.uint32)


def expected(told: Words, rho: Words, shape: PageShape) -> Words:
    """What V(z) H(z) must be if F is `told`: sum_l rho_l g(F_l), uint32[4]."""
    fast = kernel()
    if fast is not None:
        found = np.empty(DEGREE, np.uint32)
        fast.gate(told, rho, shape.votes, found)
        return found
    u = multiply(told, _less(told, shape.votes))
    gates = u
    for j in range(1, (shape.votes + 1) // 2):
        gates = multiply(gates, _less(u, P - j * (shape.votes - j)))
    if shape.votes % 2 == 0:
        gates = multiply(gates, _less(told, shape.votes // 2))
    return _sum_of_products(gates, rho).astype(np.uint32)


def _less(elements: Words | Elements, number: int) -> Elements:
    """A number of F less, of elements of E."""
    return subtract(elements, np.array([number, 0, 0, 0]))


def _wires(x: Words, masks: Words, shape: PageShape) -> Words:
    """All values of all wires: uint32[points, L]. The entries, the sums of rows, then zeros."""
    values = np.zeros(shape.values * shape.wires, np.uint32)
    values[: shape.entries] = x.reshape(-1)
    sums = x.reshape(shape.samples, shape.classes).sum(axis=1, dtype=np.uint64) % _P
    values[shape.entries : shape.checks] = sums
    return np.concatenate([masks, values.reshape(shape.values, shape.wires)])


def _sum_of_products(a: Elements, b: Words) -> Elements:
    found: Elements = multiply(a, b).sum(axis=0) % _P
    return found


def _lagrange(first: int, count: int, z: Words) -> tuple[Elements, Elements]:
    """What values at `count` points from `first` on weigh at z, [count, 4]; and V(z), if these are a wire's points."""
    terms = np.repeat(z[np.newaxis].astype(np.uint64), count, axis=0)
    terms[:, 0] = (terms[:, 0] + (_P - np.arange(first, first + count, dtype=np.uint64))) % _P
    before, behind = running_products(terms), running_products(terms[::-1])[::-1]
    weights = np.zeros((count, DEGREE), np.uint64)
    weights[0, 0] = 1
    weights[1:] = before[:-1]
    weights[:-1] = multiply(weights[:-1], behind[1:])
    return weights * _scales(count)[:, np.newaxis] % _P, behind[min(MASKS, count - 1)]


@lru_cache(maxsize=64)
def _scales(count: int) -> Words:
    """1 / prod_{j != i} (i - j), for any `count` points in a row: (-1)^(count - 1 - i) / (i! (count - 1 - i)!)."""
    inverse = inverse_factorials(count)
    scales = inverse * inverse[::-1] % _P
    odd = np.arange(count - 2, -1, -2)
    scales[odd] = (_P - scales[odd]) % _P
    return scales.astype(np.uint32)


@lru_cache(maxsize=8)
def _beyond(points: int, count: int) -> tuple[Words, Words]:
    """From a wire's points to those of H: [quotient, points]; and 1 / V there: [quotient].

    A value at k weighs V'(t) scale_k / (t - k) at t, where V' is the product over all points of a wire, t! / (t -
    points)!.
    """
    factorial, inverse = factorials(points + count), inverse_factorials(points + count)
    t = np.arange(points, points + count)
    whole = factorial[t] * inverse[t - points] % _P
    distance = t[:, np.newaxis] - np.arange(points)
    reciprocal = factorial[distance - 1] * inverse[distance] % _P
    weights = whole[:, np.newaxis] * _scales(points) % _P * reciprocal % _P
    return weights.astype(np.uint32), (factorial[t - points] * inverse[t - MASKS] % _P).astype(np.uint32)
