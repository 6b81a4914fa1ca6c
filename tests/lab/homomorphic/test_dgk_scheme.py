"""DGK: zero is told from everything else, and ciphertexts are fresh."""

from sedml.lab.homomorphic import dgk
from support.toys import BITS, toy_keys


def key():
    return toy_keys().dgk


def test_exactly_the_multiples_of_u_are_zero():
    u = key().public.u
    for m in range(-2 * u, 2 * u + 1):
        assert dgk.is_zero(key(), dgk.encrypt_own(key(), m)) == (m % u == 0)


def test_rerandomising_changes_the_ciphertext_only():
    public = key().public
    for m in (0, 1):
        c = dgk.encrypt_own(key(), m)
        others = {dgk.rerandomise(public, c) for _ in range(100)} | {dgk.encrypt_own(key(), m) for _ in range(100)}
        assert len(others - {c}) == 200
        assert all(dgk.is_zero(key(), other) == (m == 0) for other in others)


def test_g_and_h_have_the_orders_of_the_scheme():
    made = dgk.keygen(BITS, 20, 48)
    p, n, u, v_p = made.p, made.public.n, made.public.u, made.v_p
    q = n // p
    g, h = made.public.g[1], made.public.h.rows[0][1]
    assert p * q == n
    assert n.bit_length() == BITS
    assert u == 23
    assert v_p.bit_length() == 48
    assert (p - 1) % (u * v_p) == 0
    assert (q - 1) % u == 0
    assert pow(h, v_p, p) == 1 != h % p
    assert pow(g, u * v_p, p) == 1
    assert 1 not in (pow(g, u, p), pow(g, v_p, p), pow(h, u, q))


def test_real_keys_have_primes_of_160_bits_and_exponents_of_400():
    made = dgk.keygen(1024, 50)
    assert made.v_p.bit_length() == 160
    assert made.public.r_bits == 400
    assert made.public.size == 128
    assert str(made.v_p) not in repr(made)
    assert str(made.p) not in repr(made)
