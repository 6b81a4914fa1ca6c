"""Buckets: who is where, what a cheat that guesses could know, and how many leaky ANDs that takes."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sedml.mpc.authenticated.buckets import bucket_bits, bucket_size, places
from support.harness import fixed_seed, numbers
from support.tiers import thorough


@given(ands=st.integers(1, 500), size=st.integers(2, 5), key=st.integers(0, 2**32))
@settings(max_examples=25)
def test_every_leaky_and_has_one_place(ands, size, key):
    found = places(fixed_seed(key), ands, size)
    assert found.shape == (size - 1, ands)
    assert found.dtype == np.uint32
    for row, numbers_ in enumerate(found, 1):
        assert sorted(numbers_.tolist()) == list(range(row * ands, (row + 1) * ands))


def test_other_coins_give_another_order_and_rows_differ():
    one, other = (places(fixed_seed(key), 200, 3) for key in (1, 2))
    assert (one != other).any(axis=1).all()
    assert (one[0] - 200 != one[1] - 400).any()
    assert (one == places(fixed_seed(1), 200, 3)).all()


def test_all_orders_are_equally_likely():
    """Of 4 ANDs, over many coins."""
    seen = {order: 0 for order in permutations(range(4))}
    for key in range(4800):
        seen[tuple((places(fixed_seed(key), 4, 2)[0] - 4).tolist())] += 1
    assert stats.chisquare(list(seen.values())).pvalue > 1e-6


@given(ands=st.integers(1, 60), size=st.integers(2, 5), key=st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_a_bucket_is_an_and_again(ands, size, key):
    bits = numbers(key).integers(0, 2, (size * ands, 3)).astype(np.uint8)
    bits[:, 2] = bits[:, 0] & bits[:, 1]
    place = places(fixed_seed(key), ands, size)
    e, x, y = bucket_bits(bits, place)
    z = bits[:ands, 2].copy()
    for row in range(size - 1):
        z ^= bits[place[row], 2] ^ (e[row] & bits[place[row], 0])
    assert (z == (x & y)).all()
    assert (y == bits[:ands, 1]).all()
    assert e.shape == (size - 1, ands)


def advantage(n: int, size: int) -> Fraction:
    """The exact chance that a cheat knows a bucket and is not caught, for its best choice of guesses, by enumeration.

    It guesses in t_b places of row b, and survives with 2^-(all). By symmetry the places are the first ones; the first row
    stays in order and each other one has any order, so a bucket is known if all rows have a guess there.
    """
    orders = list(permutations(range(n)))
    best = Fraction(0)
    for guesses in product(range(n + 1), repeat=size):
        if 0 in guesses or sorted(guesses[1:], reverse=True) != list(guesses[1:]):
            continue
        hit = 0
        for chosen in product(orders, repeat=size - 1):
            known = set(range(guesses[0]))
            for order, t in zip(chosen, guesses[1:], strict=True):
                known &= {i for i in range(n) if order[i] < t}
            hit += bool(known)
        best = max(best, Fraction(hit, len(orders) ** (size - 1) * 2 ** sum(guesses)))
    return best


@pytest.mark.parametrize(("n", "size"), [(1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (1, 3), (2, 3), (3, 3), pytest.param(4, 3, marks=thorough), (1, 5), (2, 4)])
def test_the_bound_holds_for_few_ands_by_enumeration(n, size):
    bound = Fraction(1, 2**size * n ** (size - 1))
    exact = advantage(n, size)
    assert exact <= bound
    assert exact * 2**size >= bound  # and is not far off


@given(n=st.integers(2, 10**7), bits=st.floats(1, 60))
def test_the_size_is_the_smallest_that_the_bound_allows(n, bits):
    size = bucket_size(n, bits)
    assert size + (size - 1) * math.log2(n) >= bits
    assert size == 2 or size - 1 + (size - 2) * math.log2(n) < bits


@pytest.mark.parametrize(("ands", "size"), [(2**20, 4), (600_000, 4), (528_000, 4), (490 * 34, 4), (490 * 2, 5), (2, 23)])
def test_sizes_for_44_bits(ands, size):
    assert bucket_size(ands, 44) == size
    assert bucket_size(528_000, 41) == 3


@thorough
def test_a_cheat_that_guesses_three_in_each_row_knows_a_bucket_as_often_as_the_bound_says_and_no_more():
    """Monte Carlo with the code's own order: B = 2, n = 64, the guesses taken as right."""
    n, t, tries = 64, 3, 6000
    hit = sum(bool((places(fixed_seed(key), n, 2)[0][:t] - n < t).any()) for key in range(tries))
    assert stats.binomtest(hit, tries, t * t / n, alternative="greater").pvalue > 1e-6
    assert hit > 0
