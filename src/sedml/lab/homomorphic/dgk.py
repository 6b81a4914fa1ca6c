"""The cryptosystem of Damgård, Geisler and Krøigaard (2007, corrected 2009): tiny numbers, cheap to test for zero.

E(m) = g^m h^r mod n for m modulo a small prime u. n = pq; u divides both p - 1 and q - 1, and so do the primes v_p and
v_q, of 160 bits, one each; g has the order u v_p v_q and h the order v_p v_q. As (g^m h^r)^(v_p) = (g^(v_p))^m modulo
p, whether m is zero shows in one power with an exponent of 160 bits modulo half of n. Comparisons need no more, so
the private key can only tell zero from the rest.

r has 80 bits more than the order of h, so h^r is uniform over all powers of h, up to a distance of 2^-80.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sedml.lab.homomorphic.modular import (
    FixedBase,
    SplitBase,
    crt,
    is_prime,
    number,
    power,
    random_prime,
    random_unit,
)

__all__ = ["PrivateKey", "PublicKey", "encrypt_own", "is_zero", "keygen", "rerandomise"]

V_BITS = 160
_STATISTICAL_BITS = 80


@dataclass(frozen=True)
class PublicKey:
    """n, u, the u powers of g, and a table of those of h."""

    n: int = field(repr=False)
    u: int
    g: list[int] = field(repr=False)
    h: FixedBase = field(repr=False)
    bits: int
    r_bits: int

    @property
    def size(self) -> int:
        """Bytes of a ciphertext."""
        return -(-self.bits // 8)


@dataclass(frozen=True)
class PrivateKey:
    """One factor of n is enough to test for zero; both speed up encryption."""

    public: PublicKey
    p: int = field(repr=False)
    v_p: int = field(repr=False)
    h: SplitBase = field(repr=False)
    r_bits: int


def keygen(bits: int, largest: int, v_bits: int = V_BITS) -> PrivateKey:
    """A fresh key whose n has `bits` bits, for numbers that are zero or at most `largest` in size."""
    u = next(u for u in range(largest + 1, 2 * largest + 3) if is_prime(u))
    v_p = random_prime(v_bits)
    v_q = random_prime(v_bits, lambda v: v != v_p)
    p = random_prime(bits // 2, step=2 * u * v_p)
    q = random_prime(bits - bits // 2, lambda q: q != p, step=2 * u * v_q)
    n = p * q
    g = crt(_of_order(p, u, v_p), p, _of_order(q, u, v_q), q)
    h = crt(_of_order(p, 1, v_p), p, _of_order(q, 1, v_q), q)
    r_bits, own_bits = 2 * v_bits + _STATISTICAL_BITS, v_bits + _STATISTICAL_BITS
    public = PublicKey(n, u, [power(g, m, n) for m in range(u)], FixedBase.of(h, n, r_bits), bits, r_bits)
    return PrivateKey(public, p, v_p, SplitBase.of(h, p, q, own_bits), own_bits)


def encrypt_own(key: PrivateKey, m: int) -> int:
    """E(m mod u), by the key holder, who needs less time: h has the orders v_p modulo p and v_q modulo q."""
    return key.public.g[m % key.public.u] * key.h.random_element(key.r_bits) % key.public.n


def rerandomise(key: PublicKey, c: int) -> int:
    """Another ciphertext of the same number, such that even the key holder cannot tell what it was made from."""
    return c * key.h.random_power(key.r_bits) % key.n


def is_zero(key: PrivateKey, c: int) -> bool:
    """Whether the number is zero modulo u."""
    return power(c % key.p, key.v_p, key.p) == 1


def _of_order(p: int, u: int, v: int) -> int:
    """An element of order uv modulo p, for two primes or u = 1."""
    while True:
        x = power(random_unit(p), (p - 1) // (u * v), p)
        if power(x, u, p) != 1 and (u == 1 or power(x, v, p) != 1):
            return number(x)
