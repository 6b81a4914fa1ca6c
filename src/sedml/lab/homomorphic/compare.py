"""Signs of encrypted numbers: DGK comparison of blinded values (Veugen 2012, "Improving the DGK comparison protocol").

S0 has Paillier ciphertexts E(d), |d| < 2^l; S1 has the keys. They get bits e0 and e1 with e0 xor e1 = (d >= 0), each of
which alone is a fair coin. 2^l + d has l + 1 bits and the highest of them is the answer.

1. S0 draws r of l + 1 + 40 bits and sends E(z), z = 2^l + d + r: statistical blinding.
2. S1 decrypts z and sends the low l bits of z, beta, each under DGK.
3. With z = z' 2^l + beta and r = r' 2^l + alpha, the answer is z' - r' - (alpha > beta). To compare alpha, which S0
   knows, with beta, S0 tosses a coin delta and forms, under encryption,
     c_i = 1 - 2 delta + alpha_i - beta_i + 3 sum_{j>i} (alpha_j xor beta_j),   c = delta + sum_j (alpha_j xor beta_j).
   One of these l + 1 numbers is zero if and only if alpha <= beta (delta = 0) or alpha > beta (delta = 1). S0
   multiplies each by a random nonzero number modulo u, rerandomises, shuffles, and sends them.
4. S1 tests for zeros: epsilon = 1 if there is one. So (alpha > beta) = 1 xor delta xor epsilon, and modulo 2
     e0 = r' + delta + 1,   e1 = z' + epsilon.

What S1 decrypts is z, and among l + 1 numbers in random order either random nonzero ones only or one zero, as the coin
fell; S0 sees fresh ciphertexts only. A comparison takes 3 messages, with 2l + 1 ciphertexts of DGK and 1 of Paillier.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from sedml.lab.homomorphic import dgk, paillier
from sedml.lab.homomorphic.modular import invert, power
from sedml.lab.homomorphic.wire import Link, pack, unpack

__all__ = [
    "STATISTICAL_BITS",
    "PrivateKeys",
    "Sign",
    "blind",
    "largest_test",
    "open_blinded",
    "signs",
]

STATISTICAL_BITS = 40
"""Blinding is this many bits longer than what it hides."""

_random = secrets.SystemRandom()


@dataclass(frozen=True)
class PrivateKeys:
    """What S1 holds; their public parts are known to everyone."""

    paillier: paillier.PrivateKey
    dgk: dgk.PrivateKey


@dataclass(frozen=True)
class Sign:
    """A server's part of one sign: its bit, and at S1 z, at S0 the mask 2^l + r, which is the difference of z and d."""

    bit: int = field(repr=False)
    number: int = field(repr=False)


def largest_test(width: int) -> int:
    """No number of step 3 is larger than this, whatever its sign."""
    return 3 * width + 2


def signs(
    link: Link,
    keys: PrivateKeys,
    differences: Sequence[int],
    width: int,
    s1_adds: Sequence[int] | None = None,
) -> tuple[list[Sign], list[Sign]]:
    """E(d) for each d, |d| < 2^width -> both servers' parts of (d >= 0), all in three messages.

    With `s1_adds`, numbers that S1 alone knows, the signs are those of d + s1_adds; these must be as small.
    """
    count = len(differences)
    masks, message = blind(keys.paillier.public, differences, width)
    arrived = link.send("S0", "S1", "blinded differences", message)
    z, message = _low_bits(keys, arrived, count, width, s1_adds)
    arrived = link.send("S1", "S0", "low bits", message)
    coins, message = _tests(keys.dgk.public, arrived, masks, width)
    arrived = link.send("S0", "S1", "tests", message)
    found = _zeros(keys, arrived, count, width)
    s0 = [Sign((mask >> width) + coin & 1, mask) for mask, coin in zip(masks, coins, strict=True)]
    s1 = [Sign((value >> width) + zero & 1, value) for value, zero in zip(z, found, strict=True)]
    return s0, s1


def blind(key: paillier.PublicKey, numbers: Sequence[int], width: int) -> tuple[list[int], bytes]:
    """S0, step 1: the masks 2^l + r, and E(x + 2^l + r) for each x, |x| < 2^l."""
    masks = [(1 << width) + secrets.randbits(width + 1 + STATISTICAL_BITS) for _ in numbers]
    blinded = [
        paillier.rerandomise(key, paillier.add_plain(key, c, mask)) for c, mask in zip(numbers, masks, strict=True)
    ]
    return masks, pack(blinded, key.size)


def open_blinded(keys: PrivateKeys, message: bytes, count: int) -> list[int]:
    """S1: what `blind` sent, decrypted."""
    key = keys.paillier
    blinded = unpack(message, key.public.size, key.public.n_squared, count)
    return [paillier.decrypt_small(key, c) for c in blinded]


def _low_bits(
    keys: PrivateKeys, message: bytes, count: int, width: int, s1_adds: Sequence[int] | None
) -> tuple[list[int], bytes]:
    """S1, step 2."""
    z = open_blinded(keys, message, count)
    if s1_adds is not None:
        z = [value + int(own) for value, own in zip(z, s1_adds, strict=True)]
    bits = [dgk.encrypt_own(keys.dgk, value >> i & 1) for value in z for i in range(width)]
    return z, pack(bits, keys.dgk.public.size)


def _tests(key: dgk.PublicKey, message: bytes, masks: Sequence[int], width: int) -> tuple[list[int], bytes]:
    """S0, step 3: its coins, and the blinded c_i of every comparison."""
    betas = unpack(message, key.size, key.n, len(masks) * width)
    # The mask is 2^l + r; its bit l is r' + 1 modulo 2, which is the 1 in e0 = r' + delta + 1.
    coins = [secrets.randbits(1) for _ in masks]
    tests: list[int] = []
    for start, mask, coin in zip(range(0, len(betas), width), masks, coins, strict=True):
        tests += _blinded_tests(key, betas[start : start + width], mask, coin)
    return coins, pack(tests, key.size)


def _blinded_tests(key: dgk.PublicKey, beta: Sequence[int], alpha: int, coin: int) -> list[int]:
    """The l + 1 numbers of one comparison; beta: E(beta_0), .., E(beta_{l-1})."""
    tests, differing = [], key.g[0]
    for i in reversed(range(len(beta))):
        bit, minus_beta = alpha >> i & 1, invert(beta[i], key.n)
        tests.append(key.g[(1 - 2 * coin + bit) % key.u] * minus_beta * power(differing, 3, key.n) % key.n)
        differing = differing * (key.g[1] * minus_beta if bit else beta[i]) % key.n
    tests.append(key.g[coin] * differing % key.n)
    _random.shuffle(tests)
    return [dgk.rerandomise(key, power(c, 1 + secrets.randbelow(key.u - 1), key.n)) for c in tests]


def _zeros(keys: PrivateKeys, message: bytes, count: int, width: int) -> list[int]:
    """S1, step 4: epsilon of every comparison."""
    key, each = keys.dgk, width + 1
    tests = unpack(message, key.public.size, key.public.n, count * each)
    return [int(any(dgk.is_zero(key, c) for c in tests[i : i + each])) for i in range(0, len(tests), each)]
