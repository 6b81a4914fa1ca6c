"""AND gates, trees and the carry on XOR-shared bits, against Boolean algebra."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab.paper.correlations import corrections_size
from sedml.lab.paper.gadgets.and_ import and_, plan_and
from sedml.lab.paper.gadgets.and_tree import and_tree, plan_and_tree
from sedml.lab.paper.gadgets.carry import carry_out, carry_rounds, plan_carry
from sedml.lab.paper.gadgets.leaf_and import LeafAnd, leaf_and
from sedml.mpc.bits import plane_bytes
from support.dealt import join_bits, run_pair, split_bits
from support.harness import numbers

keys = st.integers(0, 2**32 - 1)
in_use = st.integers(1, 37)  # samples, most of them no multiple of 8
spare = st.integers(0, 21)  # samples that were dealt for but are not used


def log_ceil(base: int, value: int) -> int:
    """The least k with base^k >= value, without floats."""
    return next(k for k in range(65) if base**k >= value)


@given(samples=in_use, extra=spare, rows=st.integers(1, 4), key=keys)
@settings(max_examples=40)
def test_and_is_the_product_of_bits_in_one_round_of_two_bits(samples, extra, rows, key):
    x, y = numbers(key).integers(0, 2, (2, rows, samples), np.uint8)
    xs, ys = split_bits(x, 1), split_bits(y, 2)
    plan = plan_and("and", (rows, samples + extra))
    run = run_pair(plan, lambda p: and_(p, "and", xs[p.role], ys[p.role], samples))
    assert (join_bits(run, samples) == x & y).all()
    assert run.rounds == 1
    assert run.payload == 2 * rows * plane_bytes(samples)
    assert corrections_size(plan) == rows * plane_bytes(samples + extra)


@pytest.mark.parametrize("inputs", range(1, 21))
@given(samples=in_use, extra=spare, density=st.sampled_from([0.05, 0.5, 0.95]), key=keys)
@settings(max_examples=6)
def test_a_tree_of_any_size_is_the_and_of_its_inputs(inputs, samples, extra, density, key):
    x = (numbers(key).random((inputs, samples)) < density).astype(np.uint8)
    x[:, 0] = 1  # the one sample where all are set is otherwise rare
    shares = split_bits(x)
    run = run_pair(
        plan_and_tree("tree", inputs, samples + extra),
        lambda p: and_tree(p, "tree", shares[p.role], samples),
    )
    assert (join_bits(run, samples) == np.bitwise_and.reduce(x, axis=0)).all()
    assert run.rounds == log_ceil(4, inputs)
    bits, left = 0, inputs
    while left > 1:
        bits += left - (left % 4 == 1)  # a single one left over passes through
        left = math.ceil(left / 4)
    assert run.payload == bits * plane_bytes(samples)
    assert bits <= 4 * inputs / 3 + run.rounds


@given(samples=in_use, extra=spare, outer=st.integers(1, 5), rows=st.integers(1, 3), key=keys)
@settings(max_examples=40)
def test_leaf_and_multiplies_a_bit_of_each_server_sending_one_bit_each(samples, extra, outer, rows, key):
    bits = numbers(key).integers(0, 2, (2, outer, rows, samples), np.uint8)
    own = [np.packbits(part, axis=-1, bitorder="little") for part in bits]
    plan = {"leaf": LeafAnd((outer, rows, samples + extra))}
    run = run_pair(plan, lambda p: leaf_and(p, "leaf", own[p.role], samples))
    assert (join_bits(run, samples) == bits[0] & bits[1]).all()
    assert run.rounds == 1
    assert run.payload == outer * rows * plane_bytes(samples)


@pytest.mark.parametrize("radix", [2, 3, 4])
@given(digits=st.integers(1, 32), samples=in_use, extra=spare, rows=st.integers(1, 3), key=keys)
@settings(max_examples=50)
def test_carry_out_follows_the_digits_from_the_lowest(radix, digits, samples, extra, rows, key):
    # Per digit: 0 neither, 1 generates, 2 propagates; long runs of 2 carry a low digit all the way up.
    kinds = numbers(key).choice(3, (digits, rows, samples), p=[0.15, 0.15, 0.7])
    generate, propagate = kinds == 1, kinds == 2
    carry = generate[0]
    for j in range(1, digits):
        carry = generate[j] | (propagate[j] & carry)
    propagate[0] = numbers(key + 1).integers(0, 2, (rows, samples))  # never looked at, says the docstring
    g, p = split_bits(generate, 1), split_bits(propagate, 2)
    plan = plan_carry("carry", digits, (rows, samples + extra), radix)
    run = run_pair(
        plan,
        lambda party: carry_out(party, "carry", list(g[party.role]), list(p[party.role]), samples, radix),
    )
    assert (join_bits(run, samples) == carry).all()
    assert run.rounds == carry_rounds(digits, radix) == log_ceil(radix, digits)
    assert run.payload == carry_bits(digits, radix) * rows * plane_bytes(samples)


def carry_bits(digits: int, radix: int) -> int:
    """A node of k digits opens 2k - 1 bits, the lowest 2k - 2."""
    bits = 0
    while digits > 1:
        sizes = [min(radix, digits - start) for start in range(0, digits, radix)]
        bits += sum(2 * size - 1 for size in sizes if size > 1) - 1
        digits = len(sizes)
    return bits
