"""Circuits in the clear, against arithmetic; their ANDs are counted."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc.garbling.arithmetic import add, add_whole, below, highest
from sedml.mpc.garbling.circuit import ONE, ZERO, Builder
from support.clear_circuits import evaluate
from support.harness import numbers


def bits(values: np.ndarray, width: int) -> np.ndarray:
    """int[n, q] -> uint8[width n, q], the lowest bits of all first."""
    return np.concatenate([(values >> bit) & 1 for bit in range(width)]).astype(np.uint8)


def number(planes: np.ndarray) -> np.ndarray:
    return sum(plane.astype(np.int64) << bit for bit, plane in enumerate(planes))


@given(width=st.integers(2, 20), key=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_sums_modulo_a_power_of_two(width, key):
    build = Builder(2 * width)
    a, b = build.inputs.reshape(2, width, 1)
    circuit = build.build(add(build, a, b)[:, 0])
    assert circuit.ands == width - 1
    x, y = numbers(key).integers(0, 1 << width, (2, 50))
    out = evaluate(circuit, np.concatenate([bits(x[np.newaxis], width), bits(y[np.newaxis], width)]))
    assert (number(out) == (x + y) % (1 << width)).all()


@given(width=st.integers(1, 20), other=st.integers(1, 20), key=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_whole_sums_do_not_wrap(width, other, key):
    build = Builder(width + other)
    a, b = build.inputs[:width, np.newaxis], build.inputs[width:, np.newaxis]
    circuit = build.build(add_whole(build, a, b)[:, 0])
    assert circuit.ands == max(width, other)
    assert circuit.outputs.size == max(width, other) + 1
    rng = numbers(key)
    x, y = rng.integers(0, 1 << width, 50), rng.integers(0, 1 << other, 50)
    x[0], y[0] = (1 << width) - 1, (1 << other) - 1
    out = evaluate(circuit, np.concatenate([bits(x[np.newaxis], width), bits(y[np.newaxis], other)]))
    assert (number(out) == x + y).all()


@given(width=st.integers(1, 20), key=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_numbers_that_are_not_negative_are_compared_over_their_whole_range(width, key):
    build = Builder(2 * width)
    a, b = build.inputs.reshape(2, width, 1)
    circuit = build.build(below(build, a, b))
    assert circuit.ands == width
    x, y = numbers(key).integers(0, 1 << width, (2, 50))
    y[:10] = x[:10]
    out = evaluate(circuit, np.concatenate([bits(x[np.newaxis], width), bits(y[np.newaxis], width)]))
    assert (out[0] == (x < y)).all()


@given(classes=st.integers(2, 40), width=st.integers(1, 12), key=st.integers(0, 2**32 - 1), ties=st.booleans())
@settings(max_examples=30)
def test_the_first_of_the_highest_and_its_value(classes, width, key, ties):
    build = Builder(width * classes)
    index, value = highest(build, build.inputs.reshape(width, classes))
    circuit = build.build(np.concatenate([index, value]))
    values = numbers(key).integers(0, 1 << width, (classes, 60))
    if ties:
        values = values.clip(0, 1)
    out = evaluate(circuit, bits(values, width))
    assert index.size == (classes - 1).bit_length()
    assert (number(out[: index.size]) == values.argmax(axis=0)).all()
    assert (number(out[index.size :]) == values.max(axis=0)).all()


def test_constants_negation_and_operands_that_are_sums():
    build = Builder(4)
    a, b, c, d = build.inputs.reshape(4, 1)
    outputs = [build.not_(a), build.and_(a, b, a2=c, b2=d), build.and_(a, b), build.xor(a, np.array([ONE]))]
    circuit = build.build(np.concatenate([*outputs, [ZERO, ONE]]))
    rows = ((np.arange(16) >> np.arange(4)[:, np.newaxis]) & 1).astype(np.uint8)
    w, x, y, z = rows
    want = [1 - w, (w ^ y) & (x ^ z), w & x, 1 - w, np.zeros(16), np.ones(16)]
    assert (evaluate(circuit, rows) == np.array(want)).all()
