"""Paillier's decryption as in his paper of 1999, by the order of the whole group: slow, and nothing like our own."""

from __future__ import annotations

import math

from sedml.lab.homomorphic import paillier


def decrypt(key: paillier.PrivateKey, c: int) -> int:
    """The number in [0, n): L(c^λ mod n²) / L((1 + n)^λ mod n²) mod n, with L(x) = (x - 1) / n."""
    n, p = int(key.public.n), int(key.p)
    order = math.lcm(p - 1, n // p - 1)
    raised = (pow(int(c), order, n * n) - 1) // n
    return raised * pow(order, -1, n) % n
