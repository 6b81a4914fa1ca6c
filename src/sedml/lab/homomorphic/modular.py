"""Arithmetic on large integers: powers, primes, and powers of a fixed base from a table.

With gmpy2 installed (the extra `peers`) all of it runs on GMP, several times faster; otherwise on Python's integers.
Neither is constant-time.
"""

from __future__ import annotations

import importlib
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType

__all__ = [
    "ARITHMETIC",
    "FixedBase",
    "SplitBase",
    "crt",
    "invert",
    "is_prime",
    "number",
    "power",
    "random_prime",
    "random_unit",
]


def _load() -> ModuleType | None:
    try:
        return importlib.import_module("gmpy2")
    except ImportError:
        return None


_GMP = _load()

ARITHMETIC = "Python integers" if _GMP is None else f"gmpy2 {_GMP.version()}"
"""What computes here, for reports."""

number: Callable[[int], int] = int if _GMP is None else _GMP.mpz
"""The integer type that is fastest here; products and remainders of it stay of that type."""

power: Callable[[int, int, int], int] = pow if _GMP is None else _GMP.powmod
"""power(base, exponent, modulus); a negative exponent inverts."""

_WINDOW = 8
_MILLER_RABIN_ROUNDS = 40
_SMALL_PRIMES = [p for p in range(3, 2000, 2) if all(p % d for d in range(3, math.isqrt(p) + 1, 2))]
_SIEVE = math.prod(_SMALL_PRIMES)


def invert(value: int, modulus: int) -> int:
    """1 / value."""
    return power(value, -1, modulus)


def crt(a: int, p: int, b: int, q: int) -> int:
    """The number modulo pq that is a modulo p and b modulo q."""
    return a + p * ((b - a) * invert(p, q) % q)


def random_unit(modulus: int) -> int:
    """Uniform among the numbers that have an inverse."""
    while True:
        value = secrets.randbelow(int(modulus))
        if math.gcd(value, modulus) == 1:
            return number(value)


def is_prime(candidate: int) -> bool:
    """Miller and Rabin's test with 40 random bases: wrong with a probability of at most 2^-80."""
    if candidate <= _SMALL_PRIMES[-1]:
        return candidate == 2 or candidate in _SMALL_PRIMES
    if candidate % 2 == 0 or math.gcd(candidate, _SIEVE) != 1:
        return False
    twos = ((candidate - 1) & (1 - candidate)).bit_length() - 1
    odd = (candidate - 1) >> twos
    return not any(_is_witness(candidate, odd, twos) for _ in range(_MILLER_RABIN_ROUNDS))


def random_prime(bits: int, fits: Callable[[int], bool] = lambda _: True, step: int = 2) -> int:
    """A random prime p = 1 (mod step) of exactly `bits` bits, the top two of them set, with `fits(p)`."""
    low, high = -(-(3 << (bits - 2)) // step), ((1 << bits) - 2) // step
    while True:
        candidate = number((low + secrets.randbelow(high - low + 1)) * step + 1)
        if fits(candidate) and is_prime(candidate):
            return candidate


def _is_witness(candidate: int, odd: int, twos: int) -> bool:
    x = power(2 + secrets.randbelow(int(candidate) - 3), odd, candidate)
    if x in (1, candidate - 1):
        return False
    for _ in range(twos - 1):
        x = x * x % candidate
        if x == candidate - 1:
            return False
    return True


@dataclass(frozen=True)
class FixedBase:
    """Powers of one base: a product of one table entry for each byte of the exponent."""

    modulus: int = field(repr=False)
    rows: list[list[int]] = field(repr=False)
    """rows[i][d] = base^(d 256^i)."""

    @classmethod
    def of(cls, base: int, modulus: int, bits: int) -> FixedBase:
        """The tables for exponents of up to `bits` bits."""
        rows, step = [], number(base)
        for _ in range(-(-bits // _WINDOW)):
            row = [number(1)]
            for _ in range((1 << _WINDOW) - 1):
                row.append(row[-1] * step % modulus)
            rows.append(row)
            step = row[-1] * step % modulus
        return cls(number(modulus), rows)

    def random_power(self, bits: int) -> int:
        """base^s for a fresh secret s of `bits` bits."""
        return self.power_of(secrets.token_bytes(-(-bits // _WINDOW)))

    def power_of(self, digits: bytes) -> int:
        """base^s for s in base 256, the lowest digit first."""
        result = number(1)
        for row, digit in zip(self.rows, digits, strict=False):
            if digit:
                result = result * row[digit] % self.modulus
        return result


@dataclass(frozen=True)
class SplitBase:
    """Powers of one base for whoever knows the factors of the modulus: two products of numbers half as long."""

    p: FixedBase = field(repr=False)
    q: FixedBase = field(repr=False)
    p_inverse: int = field(repr=False)

    @classmethod
    def of(cls, base: int, p: int, q: int, bits: int) -> SplitBase:
        """The tables for exponents of up to `bits` bits, modulo pq."""
        return cls(FixedBase.of(base % p, p, bits), FixedBase.of(base % q, q, bits), invert(p, q))

    def random_power(self, bits: int) -> int:
        """base^s for a fresh secret s of `bits` bits."""
        digits = secrets.token_bytes(-(-bits // _WINDOW))
        return self._join(self.p.power_of(digits), self.q.power_of(digits))

    def random_element(self, bits: int) -> int:
        """base^s modulo p and base^s' modulo q: uniform over all powers of base if its two orders are coprime."""
        return self._join(self.p.random_power(bits), self.q.random_power(bits))

    def _join(self, a: int, b: int) -> int:
        return a + self.p.modulus * ((b - a) * self.p_inverse % self.q.modulus)
