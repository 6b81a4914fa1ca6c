"""Paillier: numbers come back, add up and scale; ciphertexts are fresh."""

import math

from hypothesis import given
from hypothesis import strategies as st
from textbook import decrypt

from sedml.lab.homomorphic import modular, paillier
from support.toys import BITS, toy_paillier

NUMBERS = st.integers(-(2 ** (BITS + 8)), 2 ** (BITS + 8))
FACTORS = st.integers(-(2**70), 2**70)


@given(NUMBERS)
def test_what_is_encrypted_comes_back_modulo_n(m):
    key = toy_paillier()
    assert decrypt(key, paillier.encrypt(key.public, m)) == m % key.public.n
    assert decrypt(key, paillier.encrypt_own(key, m)) == m % key.public.n


@given(NUMBERS, NUMBERS, FACTORS)
def test_ciphertexts_add_and_scale(a, b, factor):
    key = toy_paillier()
    public = key.public
    c, d = paillier.encrypt(public, a), paillier.encrypt(public, b)
    assert decrypt(key, paillier.add(public, c, d)) == (a + b) % public.n
    assert decrypt(key, paillier.add_plain(public, c, b)) == (a + b) % public.n
    assert decrypt(key, paillier.scale(public, c, factor)) == a * factor % public.n


@given(NUMBERS)
def test_rerandomising_changes_the_ciphertext_only(m):
    key = toy_paillier()
    c = paillier.encrypt(key.public, m)
    other = paillier.rerandomise(key.public, c)
    assert other != c
    assert decrypt(key, other) == decrypt(key, c)


def test_rerandomising_hides_from_the_key_holder_and_encryption_from_all_others(monkeypatch):
    key, asked = toy_paillier().public, []
    monkeypatch.setattr(modular.FixedBase, "random_power", lambda _, bits: asked.append(bits) or 1)
    paillier.rerandomise(key, paillier.encrypt(key, 1))
    assert asked == [BITS // 2, BITS + 40]
    assert len(key.h_n.rows) * 8 >= BITS + 40


def test_the_key_is_of_the_kind_that_short_exponents_need():
    key = toy_paillier()
    q, rest = divmod(key.public.n, key.p)
    assert rest == 0
    assert key.public.n.bit_length() == BITS
    assert key.p % 4 == q % 4 == 3
    assert math.gcd(key.p - 1, q - 1) == 2
    assert key.public.size == BITS // 4


def test_primes_are_told_from_the_rest():
    known = {n for n in range(2, 5000) if all(n % d for d in range(2, math.isqrt(n) + 1))}
    assert {n for n in range(5000) if modular.is_prime(n)} == known
    assert modular.is_prime(2**127 - 1)
    assert not modular.is_prime((2**61 - 1) * (2**89 - 1))
