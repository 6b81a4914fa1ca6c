"""Signs of blinded differences: right everywhere, and S1 sees coins. Each planted leak fails the same check."""

import secrets
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textbook import decrypt

from sedml.lab.homomorphic import compare, dgk, paillier
from sedml.lab.homomorphic.compare import largest_test, signs
from support.toys import WIDEST, Tap, toy_keys


def encrypted(numbers):
    return [paillier.encrypt(toy_keys().public.paillier, d) for d in numbers]


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


@settings(max_examples=25)
@given(st.integers(1, WIDEST).flatmap(lambda w: st.tuples(st.just(w), st.integers(1 - (1 << w), (1 << w) - 1))))
def test_random_widths_and_differences(case):
    width, d = case
    edges = [d, 0, 1, -1, (1 << width) - 1, 1 - (1 << width)]
    assert is_positive(edges, width) == [int(x >= 0) for x in edges]


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(-500, 500), st.integers(-500, 500)), min_size=1, max_size=8))
def test_s1_may_add_numbers_of_its_own(pairs):
    mine, theirs = zip(*pairs, strict=True)
    assert is_positive(mine, 10, theirs) == [int(a + b >= 0) for a, b in pairs]


def test_three_messages_of_the_announced_size():
    link, keys, count, width = Tap(), toy_keys(), 7, 6
    signs(link, keys, encrypted(range(count)), width)
    P, D = keys.public.paillier.size, keys.public.dgk.size
    assert [(m.sender, m.size) for m in link.messages] == [
        ("S0", 4 + count * P),
        ("S1", 4 + count * width * D),
        ("S0", 4 + count * (width + 1) * D),
    ]


def assert_fair(bits):
    assert 0.35 < sum(bits) / len(bits) < 0.65


def coins_of_s1():
    """What S1 finds in 300 comparisons with alpha = beta: its epsilon, and where the zero was."""
    width = 3
    link, keys = Tap(), toy_keys()
    _, s1 = signs(link, keys, encrypted([0] * 300), width)
    found = [(part.z >> width) + part.bit & 1 for part in s1]
    tests = link.ciphertexts("S0", "tests", keys.public.dgk.size)
    zeros = [i % (width + 1) for i, c in enumerate(tests) if dgk.is_zero(keys.dgk, c)]
    return found, zeros


def test_s1_finds_a_fair_coin_and_the_zero_anywhere():
    found, zeros = coins_of_s1()
    assert_fair(found)
    assert all(zeros.count(place) > len(zeros) / 20 for place in range(4))


def test_without_its_coin_s0_would_tell_s1_the_order(monkeypatch):
    def stuck(bits):
        return 0 if bits == 1 else secrets.randbits(bits)

    monkeypatch.setattr(compare, "secrets", SimpleNamespace(randbits=stuck, randbelow=secrets.randbelow))
    found, _ = coins_of_s1()
    with pytest.raises(AssertionError):
        assert_fair(found)


def test_without_shuffling_the_place_of_the_zero_would_tell_the_highest_differing_bit(monkeypatch):
    monkeypatch.setattr(compare, "_random", SimpleNamespace(shuffle=lambda _: None))
    _, zeros = coins_of_s1()
    assert len(set(zeros)) == 1


def numbers_in_tests():
    """The numbers modulo u that S1 could decrypt: those of 200 comparisons of alpha = 0 with beta = 3, coin 0."""
    key = toy_keys(2).dgk
    logs = {pow(c, key.v_p, key.p): m for m, c in enumerate(key.public.g)}
    bits = [dgk.encrypt_own(key, 1), dgk.encrypt_own(key, 1)]
    tests = [c for _ in range(200) for c in compare._blinded_tests(key.public, bits, 0, 0)]
    return [logs[pow(c % key.p, key.v_p, key.p)] for c in tests]


def test_numbers_that_are_not_zero_are_random():
    numbers, u = numbers_in_tests(), toy_keys(2).dgk.public.u
    others = [m for m in numbers if m]
    assert len(others) == 2 * 200
    assert all(others.count(m) > 0.2 * len(others) / (u - 1) for m in range(1, u))


def test_without_multiplying_they_would_tell_how_many_bits_differ(monkeypatch):
    one = SimpleNamespace(randbelow=lambda _: 0, randbits=secrets.randbits)
    monkeypatch.setattr(compare, "secrets", one)
    assert len(set(numbers_in_tests())) == 3


def ways_of_s0(keys):
    """How many different tests S0 makes of one and the same comparison in 100 tries, two ciphertexts each."""
    beta = [dgk.encrypt_own(keys.dgk, 1)]
    return len({c for _ in range(100) for c in compare._blinded_tests(keys.public.dgk, beta, 0, 0)})


def test_tests_are_rerandomised():
    assert ways_of_s0(toy_keys(1)) == 200


def test_without_rerandomising_s1_would_know_what_they_were_made_from(monkeypatch):
    monkeypatch.setattr(dgk, "rerandomise", lambda _, c: c)
    assert ways_of_s0(toy_keys(1)) <= 2 * (toy_keys(1).public.dgk.u - 1)


def random_parts():
    """What is left of S0's blinded differences when S1 takes the numbers out: made twice from one ciphertext."""
    keys = toy_keys()
    key = keys.public.paillier
    c = paillier.encrypt(key, 1)
    link = Tap()
    for _ in range(2):
        signs(link, keys, [c], 2)
    made = link.ciphertexts("S0", "blinded differences", key.size)
    return c, [paillier.add_plain(key, x, -decrypt(keys.paillier, x)) for x in made]


def test_blinded_differences_are_rerandomised():
    c, parts = random_parts()
    own = paillier.add_plain(toy_keys().public.paillier, c, -1)
    assert len({own, *parts}) == 3


def test_without_rerandomising_s1_would_recognise_a_ciphertext(monkeypatch):
    monkeypatch.setattr(paillier, "rerandomise", lambda _, c: c)
    c, parts = random_parts()
    own = paillier.add_plain(toy_keys().public.paillier, c, -1)
    assert {own, *parts} == {own}


def spread_of_z(width=4):
    _, s1 = signs(Tap(), toy_keys(), encrypted([1] * 64), width)
    return max(part.z for part in s1).bit_length()


def test_blinding_is_40_bits_longer_than_what_it_hides():
    # The longest of 64 blindings misses its highest bit with probability 2^-64.
    assert 4 + 1 + 40 <= spread_of_z() <= 4 + 1 + 40 + 1


def test_short_blinding_would_be_noticed(monkeypatch):
    monkeypatch.setattr(compare, "STATISTICAL_BITS", 20)
    assert spread_of_z() < 4 + 1 + 40


def test_the_largest_test_is_an_upper_bound():
    for width in (1, 2, 3):
        bits = range(1 << width)
        for alpha in bits:
            for beta in bits:
                for coin in (0, 1):
                    differ = [alpha >> i & 1 != beta >> i & 1 for i in range(width)]
                    tests = [
                        1 - 2 * coin + (alpha >> i & 1) - (beta >> i & 1) + 3 * sum(differ[i + 1 :])
                        for i in range(width)
                    ]
                    assert max(map(abs, [*tests, coin + sum(differ)])) <= largest_test(width)
