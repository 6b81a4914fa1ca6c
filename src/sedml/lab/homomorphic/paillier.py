"""Paillier's cryptosystem: numbers modulo n, which add up when their ciphertexts are multiplied.

E(m) = (1 + n)^m (h^n)^s mod n^2, with h = -x^2 and a random s: the variant of Damgård, Jurik and Nielsen (2010, "A
generalization of Paillier's public-key system with applications to electronic voting"). As h is fixed, the costly
factor r^n comes from a table. Whoever does not hold the key cannot tell an s of half the bits of n from a longer one,
so encryption takes that. The key holder might, so `rerandomise` takes an s that is long enough for h^s to be uniform,
up to a distance of 2^-40, over all it can be.

All that is ever decrypted here is below p, one of the factors of n, so decryption works modulo p^2 alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

from sedml.lab.homomorphic.modular import FixedBase, SplitBase, invert, number, power, random_prime, random_unit

__all__ = [
    "PrivateKey",
    "PublicKey",
    "add",
    "add_plain",
    "decrypt_small",
    "encrypt",
    "encrypt_own",
    "keygen",
    "rerandomise",
    "scale",
]

_STATISTICAL_BITS = 40


@dataclass(frozen=True)
class PublicKey:
    """n, and the powers of h^n modulo n^2."""

    n: int = field(repr=False)
    n_squared: int = field(repr=False)
    h_n: FixedBase = field(repr=False)
    bits: int

    @property
    def size(self) -> int:
        """Bytes of a ciphertext."""
        return -(-2 * self.bits // 8)


@dataclass(frozen=True)
class PrivateKey:
    """A factor p of n, L(g^(p-1) mod p^2)^-1 mod p, and powers of h^n modulo the squares of both factors."""

    public: PublicKey
    p: int = field(repr=False)
    mu: int = field(repr=False)
    h_n: SplitBase = field(repr=False)


def keygen(bits: int) -> PrivateKey:
    """A fresh key whose n has `bits` bits: 2,048 today."""
    p = random_prime(bits // 2, lambda p: p % 4 == 3)
    q = random_prime(bits - bits // 2, lambda q: q % 4 == 3 and gcd(p - 1, q - 1) == 2 and gcd(p * q, q - 1) == 1)
    n = p * q
    # h = -x^2: its powers are those numbers of which, without p and q, nobody knows whether they are squares.
    h = -(random_unit(n) ** 2) % n
    h_n = power(h, n, n * n)
    public = PublicKey(n, n * n, FixedBase.of(h_n, n * n, bits + _STATISTICAL_BITS), bits)
    return PrivateKey(public, p, _mu(n, p), SplitBase.of(h_n, p * p, q * q, bits // 2))


def encrypt(key: PublicKey, m: int) -> int:
    """E(m mod n)."""
    return add_plain(key, key.h_n.random_power(key.bits // 2), m)


def encrypt_own(key: PrivateKey, m: int) -> int:
    """The same by the key holder, in half the time."""
    return add_plain(key.public, key.h_n.random_power(key.public.bits // 2), m)


def rerandomise(key: PublicKey, c: int) -> int:
    """Another ciphertext of the same number, such that even the key holder cannot tell what it was made from."""
    return c * key.h_n.random_power(key.bits + _STATISTICAL_BITS) % key.n_squared


def add(key: PublicKey, c: int, d: int) -> int:
    """E(a), E(b) -> E(a + b). Neither this nor the next two add fresh randomness."""
    return c * d % key.n_squared


def add_plain(key: PublicKey, c: int, m: int) -> int:
    """E(a) -> E(a + m), for (1 + n)^m = 1 + mn."""
    return c * (1 + m % key.n * key.n) % key.n_squared


def scale(key: PublicKey, c: int, factor: int) -> int:
    """E(a) -> E(factor a); the factor may be negative."""
    return power(c, factor, key.n_squared)


def decrypt_small(key: PrivateKey, c: int) -> int:
    """The number, if it is below p: m mod p = L(c^(p-1) mod p^2) mu mod p, with L(x) = (x - 1) / p."""
    p = key.p
    return (power(c % (p * p), p - 1, p * p) - 1) // p * key.mu % p


def _mu(n: int, p: int) -> int:
    return invert((power(number(1) + n, p - 1, p * p) - 1) // p % p, p)
