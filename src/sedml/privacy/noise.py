"""Discrete Gaussian noise from a cumulative table and a cryptographic generator.

The law is P(x) ∝ exp(-x²/(2σ²)) over all integers: it has the same zCDP as the continuous Gaussian of that σ
and needs no scaling of the votes (Canonne, Kamath, Steinke 2020, "The Discrete Gaussian for Differential
Privacy"). Their rejection sampler is exact but one draw at a time. Here a draw is the inverse cdf at a 128-bit
uniform, with thresholds rounded to multiples of 2^-128, cut where a circuit's integers end: at `noise_bits`, which hold
9σ. What rounding and cutting cost is computed with the table, as `NoiseTable.distance`, and belongs in delta once per
draw: at most 2.3e-19, where 9σ just fits.

Look-ups are *not* constant-time: caches, and which draws need a second step, depend on the noise drawn. Each
server samples its own noise on its own machine, and the other server sees at most how long a whole block
took, which tells how many of its draws needed that step, not which. Whoever shares the processor may see
more: do not run a server where the other operator, or the requester, can run code.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass, field
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, chain
from numbers import Real

import numpy as np
import numpy.typing as npt

from sedml.errors import TaskError
from sedml.mpc.prg import Seed, expand

MAX_SIGMA = 2.0**17  # a table has up to 24σ thresholds of 16 bytes: 50 MB at this σ, and 4 s and 0.8 GB to build

_UNIFORM_BITS = 128
_WORD_BITS = 64
_TOP_BITS = 16
_NEXT_BITS = _WORD_BITS - _TOP_BITS
_OPEN = np.iinfo(np.int32).min  # guide entry of a bucket that does not decide the draw; no noise is this low
_CHUNK = 1 << 16  # keeps the guide, the 64-bit indices NumPy makes of `top`, and the result in the L2 cache

# Fixed point of the weights. The recurrence loses (n+1)³ units over n weights, and n < 16σ <= 2^21.
_POINT = 224
_SMALLEST_WEIGHT = 164  # weights below 2^-164 are left out of the table and counted in its distance

_SMALL = 4.0
_HELD = 9  # so many sigmas at least fit into the bits of a noise
_REACH = 12  # and no table goes beyond so many: 2^-128 is about 13
_turn = threading.Lock()  # a table takes 15 times its size to build: one at a time


@dataclass(frozen=True, eq=False)
class NoiseTable:
    """A discrete Gaussian cut to [-bound, bound]; compared by identity, as tables are cached by sigma.

    high[i]·2^64 + low[i] of 2^128 uniforms give a value of at most i - bound. `guide` has the value for each
    choice of the top 16 bits of the uniform, or a marker where the lower bits matter.
    """

    sigma: float
    bound: int
    distance: float
    """Upper bound on the total variation distance between one draw and the exact law."""
    high: npt.NDArray[np.uint64] = field(repr=False)
    low: npt.NDArray[np.uint64] = field(repr=False)
    guide: npt.NDArray[np.int32] = field(repr=False)


def noise_table(sigma: float) -> NoiseTable:
    """The sampling table of a sigma in (0, MAX_SIGMA]; the last few are kept."""
    value = _checked(sigma)
    with _turn:
        return _build(value)


def table_distance(sigma: float) -> float:
    """No less than the `distance` of a sigma's table, found without building one that is not small.

    Rounding puts each value up to the bound off by at most 2^-128. What is cut, P(|X| > bound), is at most what the
    continuous law has beyond bound + 1/2: its density is convex there, and all weights sum to at least σ√(2π) (Poisson
    summation).
    What else `_build` counts is less than 2^-140.
    """
    value = _checked(sigma)
    if value < _SMALL:
        return noise_table(value).distance
    bound = _bound(value)
    cut = math.erfc((bound + 0.5) / (value * math.sqrt(2.0))) * (1.0 + 1e-9)
    return math.ldexp(bound + 2, -_UNIFORM_BITS) + cut


def noise_bits(sigma: float) -> int:
    """How many bits hold one server's noise as a signed integer, where both together have this sigma.

    The fewest that hold nine sigmas of a server either way: 9 at sigma 40, 10 at 80.
    """
    return _bits(server_sigma(sigma))


def draw(sigma: float, seed: Seed, label: str, shape: int | tuple[int, ...]) -> npt.NDArray[np.int32]:
    """One server's noise, where both together have this sigma: see `sample`. It always fits `noise_bits`."""
    return sample(noise_table(server_sigma(sigma)), seed, label, shape)


def sample(table: NoiseTable, seed: Seed, label: str, shape: int | tuple[int, ...]) -> npt.NDArray[np.int32]:
    """Noise of this shape, always the same for the same table, seed and label, so a block can be replayed.

    The law is exactly that of the inverse cdf at independent 128-bit uniforms, though most draws cost only 16
    bits: where no threshold lies inside a bucket, all 2^112 uniforms with these top bits have the same inverse
    cdf, so the rest need not be drawn. Elsewhere 48 more bits make up the high word, and unless it is also a
    threshold's (one draw in about 2^64/24σ), the low word need not be drawn. Whether more bits are drawn
    depends on those drawn before alone, and they come from a stream of their own, so where they matter they
    are uniform and independent of all that came before.

    int32 whatever the sigma: wide enough to add to counts without overflow. The result is secret: add it to a
    share at once, and never log it. Never draw twice under one label for two different purposes.
    """
    values = np.empty(shape, np.int32)
    flat = values.reshape(-1)
    top = expand(seed, label + "/top", 2 * flat.size).view("<u2")
    unresolved = _look_up(table, top, flat)
    following = expand(seed, label + "/low", 8 * unresolved.size).view("<u8") >> np.uint64(_TOP_BITS)
    high = top[unresolved].astype(np.uint64) << np.uint64(_NEXT_BITS) | following
    ranks, ties = _search(table, high)
    ranks[ties] = _break_ties(table, high[ties], expand(seed, label + "/ties", 8 * ties.size).view("<u8"))
    flat[unresolved] = ranks - table.bound
    return values


def server_sigma(sigma: float) -> float:
    """The sigma of each server: sigma/√2, so that the sum of both has the asked variance.

    Rounded up where the quotient is not a float, so two servers together never add less than was asked for.
    """
    return _half(_checked(sigma))


@lru_cache(maxsize=1024)
def _half(total: float) -> float:
    each = total / math.sqrt(2)
    while 2 * Fraction(each) ** 2 < Fraction(total) ** 2:
        each = math.nextafter(each, math.inf)
    return each


def total_bound(sigma: float) -> int:
    """The largest |noise| that both servers together can add to one count; never exceeded."""
    return 2 * _bound(server_sigma(sigma))


def _look_up(table: NoiseTable, top: npt.NDArray[np.uint16], values: npt.NDArray[np.int32]) -> npt.NDArray[np.intp]:
    """Fill in the guide's value for each draw; returns which draws it leaves open."""
    for start in range(0, top.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        # 16 bits cannot leave a guide of 2^16: "wrap" only spares NumPy a bounds check and a copy.
        np.take(table.guide, top[part], out=values[part], mode="wrap")
    return np.flatnonzero(values == _OPEN)


def _search(table: NoiseTable, high: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The number of thresholds not above each uniform, and for which ones the low word may change it."""
    # Neighbours search the same part of the table; a 16-bit sort is a radix sort and pays for itself.
    order = np.argsort((high >> np.uint64(_NEXT_BITS)).astype(np.uint16), kind="stable")
    in_order = high[order]
    found = np.searchsorted(table.high, in_order, side="right")
    # Where nothing was found, -1 is the last threshold, above the uniform like all others: no tie.
    ties = np.sort(order[table.high[found - 1] == in_order])
    ranks = np.empty(high.size, np.intp)
    ranks[order] = found
    return ranks, ties


def _break_ties(table: NoiseTable, high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> npt.NDArray[np.intp]:
    """The number of thresholds not above each uniform, by the low words of all that share its high word."""
    starts = np.searchsorted(table.high, high, side="left")
    stops = np.searchsorted(table.high, high, side="right")
    below = [
        np.searchsorted(table.low[start:stop], word, side="right")
        for start, stop, word in zip(starts, stops, low, strict=True)
    ]
    return starts + np.array(below, np.intp)


def _bits(sigma: float) -> int:
    """The fewest b from 2 on with 2^(b-1) - 1 >= 9σ."""
    return max(2, 1 + math.ceil(_HELD * Fraction(sigma)).bit_length())


def _bound(sigma: float) -> int:
    """No draw of a sigma is beyond this: what its bits hold, and at most twelve sigmas."""
    return min((1 << _bits(sigma) - 1) - 1, math.ceil(_REACH * Fraction(sigma)))


@lru_cache(maxsize=8)
def _build(sigma: float) -> NoiseTable:
    """Thresholds by exact rational arithmetic on computed weights.

    The tail P(X >= x) is rounded to t_x/2^128 and mirrored, so the table is symmetric and has mean 0; its
    bound is the last x up to `_bound` with t_x > 0, and what is beyond counts there. The distance from the table to the
    law of the computed weights is exact.
    From there to the true law it is at most the sum of the weights' errors, as all weights sum to at least 1.
    """
    weights = _weights(sigma)
    sums = list(accumulate(reversed(weights)))  # of the weights from x on, for x = n, n-1, ..., 1
    norm = (1 << _POINT) + 2 * sums[-1] if sums else 1 << _POINT
    beyond = len(sums) - _bound(sigma)
    tails = [0 if i < beyond else ((s << _UNIFORM_BITS + 1) + norm) // (2 * norm) for i, s in enumerate(sums)]

    # |P(x) - table(x)| in units of 2^-128/norm; all x > 0 together, both signs, and then x = 0.
    sides = sum(
        abs((tail - farther) * norm - (weight << _UNIFORM_BITS))
        for weight, tail, farther in zip(reversed(weights), tails, chain((0,), tails), strict=False)
    )
    most = tails[-1] if tails else 0
    centre = abs(((1 << _UNIFORM_BITS) - 2 * most) * norm - (1 << _POINT + _UNIFORM_BITS))
    rounding = Fraction(2 * sides + centre, 2 * norm << _UNIFORM_BITS)

    # Lost on either side: by the recurrence (see _weights), and by the weights x > n, which are at most
    # w_{n+1}·Σ_j exp(-j²/(2σ²)) < 2^-163·(1 + σ√(π/2)): w_{n+1} is computed below 2^-164, and 3(n+1)² < 2^44
    # units are less than that.
    computed = Fraction((len(weights) + 1) ** 3, 1 << _POINT)
    left_out = (1 + 2 * Fraction(sigma)) / (1 << _SMALLEST_WEIGHT - 1)
    distance = _above(float(rounding + 2 * (computed + left_out)))

    high, low = _words([tail for tail in tails if tail])
    guide = _guide(high, low)
    for array in (high, low, guide):
        array.flags.writeable = False
    return NoiseTable(sigma, high.size // 2, distance, high, low, guide)


def _weights(sigma: float) -> list[int]:
    """exp(-x²/(2σ²)) for x = 1, 2, ... down to 2^-164, in units of u = 2^-224.

    w_{x+1} = w_x·q^(2x+1) with q = exp(-1/(2σ²)), one `exp` in all. Errors: q 2u, by cutting it off, as 80 digits are
    finer than 2^-260; q² 5u; q^(2x+1), gaining 6u a step, 6(x+1)u; so w_x, gaining that and 1u a step, at most
    3x²·u; all of w_1..w_n at most (n+1)³·u. (No factor exceeds 1, so an error is never multiplied, only added
    to.)
    """
    wide = Context(prec=80, Emin=MIN_EMIN, Emax=MAX_EMAX)
    twice_square = wide.multiply(2, wide.multiply(Decimal(sigma), Decimal(sigma)))
    q = wide.exp(wide.divide(-1, twice_square))
    ratio = int(wide.multiply(q, 1 << _POINT))
    step = ratio * ratio >> _POINT
    weights = []
    weight = ratio
    while weight >> _POINT - _SMALLEST_WEIGHT:
        weights.append(weight)
        ratio = ratio * step >> _POINT
        weight = weight * ratio >> _POINT
    return weights


def _words(tails: list[int]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """High and low words of the thresholds: the tails from the outermost in, then 2^128 less each, mirrored."""
    joined = b"".join(tail.to_bytes(_UNIFORM_BITS // 8, "big") for tail in tails)
    high, low = np.frombuffer(joined, ">u8").reshape(-1, 2).T.astype(np.uint64)
    # 2^128 - tail = ~tail + 1, and the 1 carries into the high word where the low one is 0.
    mirrored_high, mirrored_low = ~high + (low == 0), ~low + np.uint64(1)
    return np.concatenate([high, mirrored_high[::-1]]), np.concatenate([low, mirrored_low[::-1]])


def _guide(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """For each 16 top bits: the inverse cdf at the last uniform they begin, if it is that of all of them."""
    after = np.uint64((1 << _NEXT_BITS) - 1)
    last = np.arange(1 << _TOP_BITS, dtype=np.uint64) << np.uint64(_NEXT_BITS) | after
    guide = (np.searchsorted(high, last, side="right") - high.size // 2).astype(np.int32)
    inside = (high & after | low) != 0  # a threshold that is its bucket's first uniform does not split it
    guide[high[inside] >> np.uint64(_NEXT_BITS)] = _OPEN
    return guide


def _above(value: float) -> float:
    """A float that is surely not below the number that `value` is rounded from."""
    return math.nextafter(value * (1 + 2**-50), math.inf)


def _checked(sigma: object) -> float:
    try:
        value = math.nan if isinstance(sigma, bool) or not isinstance(sigma, Real) else float(sigma)
    except OverflowError:
        value = math.inf
    if not 0 < value <= MAX_SIGMA:
        raise TaskError(
            f"A sigma of {sigma!r} was given for the noise.",
            f"Use a number above 0 and at most {MAX_SIGMA:,.0f}.",
        )
    return value
