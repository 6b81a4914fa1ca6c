"""Arithmetic of ballots: F, the integers modulo p = 2^31 - 2^24 + 1, and its extension E = F[x] / (x^4 - 3).

Votes are shared in F, four bytes an entry. Challenges are drawn from E, of which a random element cannot be guessed:
it has about 2^124. Elements of F are numbers below p in any unsigned array; those of E have a last axis of 4.

p is 1 modulo 2^24, without which a server could make one vote count many times (`counting.to_ring`). x^4 - 3 has no
factor, as 3 is no square in F and p is 1 modulo 4. Products of matrices run on 16-bit limbs in floating point: all sums
stay below 2^53, so they are exact.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.mpc.kernel import kernel
from sedml.mpc.prg import Seed, expand, stream_key

P = 2**31 - 2**24 + 1
DEGREE = 4
ELEMENT_BYTES = 4 * DEGREE
NON_RESIDUE = 3

Words: TypeAlias = npt.NDArray[np.uint32]
"""Numbers below p as they are stored and sent."""
Elements: TypeAlias = npt.NDArray[np.uint64]
"""Numbers below p as they are computed with."""

_P = np.uint64(P)
_MOST_TERMS = 1 << 20


def draw(seed: Seed, label: str, count: int) -> Words:
    """The first `count` numbers below p among the 31-bit numbers of a stream."""
    fast = kernel()
    if fast is not None:
        drawn = np.empty(count, np.uint32)
        fast.draw(*stream_key(seed, label), drawn)
        return drawn
    words = count + (count >> 6) + 64  # one in 128 is too large
    while True:
        stream = np.ascontiguousarray(expand(seed, label, 4 * words)).view(np.uint32) & np.uint32(2**31 - 1)
        below = stream[stream < P]
        if len(below) >= count:
            return below[:count]
        words *= 2  # from the start again: what comes out does not depend on how much is drawn at a time


def add(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Elements:
    """a + b, of numbers below p."""
    found: Elements = (a.astype(np.uint64) + b) % _P
    return found


def subtract(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Elements:
    """a - b, of numbers below p."""
    found: Elements = (a.astype(np.uint64) + (_P - b.astype(np.uint64))) % _P
    return found


def matmul(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Elements:
    """a @ b in F, of matrices with at most 2^20 terms to a sum."""
    if a.shape[-1] > _MOST_TERMS:
        raise ValueError("too many terms to be exact")
    (a1, a0), (b1, b0) = _limbs(a), _limbs(b)
    middle = (a1 @ b0 + a0 @ b1).astype(np.uint64) % _P
    middle += ((a1 @ b1).astype(np.uint64) % _P << np.uint64(16)) % _P
    found: Elements = ((middle << np.uint64(16)) + (a0 @ b0).astype(np.uint64)) % _P
    return found


def _limbs(a: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The upper and the lower 16 bits."""
    words = a.astype(np.uint32)
    return (words >> np.uint32(16)).astype(np.float64), (words & np.uint32(0xFFFF)).astype(np.float64)


def multiply(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Elements:
    """a b in E, [.., 4] each."""
    products = a.astype(np.uint64)[..., :, np.newaxis] * b.astype(np.uint64)[..., np.newaxis, :] % _P
    flat = products.reshape(*products.shape[:-2], DEGREE**2)
    found: Elements = (flat.astype(np.float64) @ _products_of_powers()).astype(np.uint64) % _P
    return found


@cache
def _products_of_powers() -> npt.NDArray[np.float64]:
    """x^i x^j as a combination of 1, x, x^2, x^3: [16, 4]."""
    table = np.zeros((DEGREE, DEGREE, DEGREE))
    for i in range(DEGREE):
        for j in range(DEGREE):
            table[i, j, (i + j) % DEGREE] = 1 if i + j < DEGREE else NON_RESIDUE
    return table.reshape(DEGREE**2, DEGREE)


def running_products(a: npt.NDArray[Any]) -> Elements:
    """a[0], a[0] a[1], ... in E: [n, 4]."""
    found = a.astype(np.uint64)
    step = 1
    while step < len(found):
        found[step:] = multiply(found[step:], found[:-step])
        step *= 2
    return found


@lru_cache(maxsize=64)
def factorials(count: int) -> Elements:
    """0!, 1!, ... in F: [count]."""
    found = [1]
    for number in range(1, count):
        found.append(found[-1] * number % P)
    return np.array(found, np.uint64)


@lru_cache(maxsize=64)
def inverse_factorials(count: int) -> Elements:
    """1/0!, 1/1!, ... in F: [count]."""
    found = [pow(int(factorials(count)[-1]), -1, P)]
    for number in range(count - 1, 0, -1):
        found.append(found[-1] * number % P)
    return np.array(found[::-1], np.uint64)
