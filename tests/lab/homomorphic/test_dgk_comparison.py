"""Signs of blinded differences: right everywhere, and S1 sees coins, long blinding and fresh ciphertexts."""

import pytest

from sedml.lab.homomorphic import compare, dgk, paillier
from sedml.lab.homomorphic.compare import signs
from support.toys import Tap, toy_keys


def encrypted(numbers):
    return [paillier.encrypt(toy_keys().paillier.public, d) for d in numbers]


def is_positive(numbers, width, s1_adds=None, keys=None):
    s0, s1 = signs(Tap(), keys or toy_keys(), encrypted(numbers), width, s1_adds)
    return [a.bit ^ b.bit for a, b in zip(s0, s1, strict=True)]


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_every_difference_of_a_width(width):
    numbers = list(range(1 - (1 << width), 1 << width)) * 3
    # With a key for this width only, so that u is as small as it may be.
    assert is_positive(numbers, width, keys=toy_keys(width)) == [int(d >= 0) for d in numbers]


def test_every_pair_of_low_bits_and_both_coins():
    """alpha and beta over their whole range, equality included."""
    width, key = 3, toy_keys(3).dgk
    for alpha in range(1 << width):
        for beta in range(1 << width):
            for coin in (0, 1):
                bits = [dgk.encrypt_own(key, beta >> i & 1) for i in range(width)]
                tests = compare._blinded_tests(key.public, bits, alpha, coin)
                zeros = sum(dgk.is_zero(key, c) for c in tests)
                assert len(tests) == width + 1
                assert zeros == ((alpha <= beta) if coin == 0 else (alpha > beta))


def test_three_messages_of_the_announced_size():
    link, keys, count, width = Tap(), toy_keys(), 7, 6
    signs(link, keys, encrypted(range(count)), width)
    P, D = keys.paillier.public.size, keys.dgk.public.size
    assert [(m.sender, m.size) for m in link.messages] == [
        ("S0", 4 + count * P),
        ("S1", 4 + count * width * D),
        ("S0", 4 + count * (width + 1) * D),
    ]


def test_s1_finds_a_fair_coin_and_the_zero_anywhere_among_random_numbers():
    width, link, keys = 3, Tap(), toy_keys()
    _, s1 = signs(link, keys, encrypted([0] * 300), width)
    found = [(part.number >> width) + part.bit & 1 for part in s1]
    assert 0.35 < sum(found) / len(found) < 0.65
    tests = link.ciphertexts("S0", "tests", keys.dgk.public.size)
    assert len(set(tests)) == len(tests)
    zeros = [i % (width + 1) for i, c in enumerate(tests) if dgk.is_zero(keys.dgk, c)]
    assert all(zeros.count(place) > len(zeros) / 20 for place in range(4))
    # The longest of 300 blindings misses its highest bit with probability 2^-300.
    assert width + 1 + 40 <= max(part.number for part in s1).bit_length() <= width + 1 + 40 + 1
