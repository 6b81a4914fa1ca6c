"""Circuits in the clear, against arithmetic; their ANDs are counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab.semi_honest.gadgets.tournament import levels
from sedml.lab.semi_honest.garbled import circuit_of
from sedml.mpc.garbling.arithmetic import add, all_of, highest, less, negative
from sedml.mpc.garbling.circuit import ONE, ZERO, Builder, evaluate
from support.harness import numbers


def bits(values: np.ndarray, width: int) -> np.ndarray:
    """int[n, q] -> uint8[width n, q], the lowest bits of all first."""
    return np.concatenate([(values >> bit) & 1 for bit in range(width)]).astype(np.uint8)


def number(planes: np.ndarray) -> np.ndarray:
    return sum(plane.astype(np.int64) << bit for bit, plane in enumerate(planes))


@given(width=st.integers(2, 20), key=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_sums_signs_and_comparisons(width, key):
    build = Builder(2 * width)
    a, b = build.inputs.reshape(2, width, 1)
    total, sign, below = add(build, a, b), negative(build, a, b), less(build, a, b)
    circuit = build.build(np.concatenate([total[:, 0], sign, below]))
    assert circuit.ands == 3 * (width - 1)
    half = 1 << (width - 1)
    x, y = numbers(key).integers(-half, half, (2, 50))
    out = evaluate(circuit, np.concatenate([bits(x[np.newaxis], width), bits(y[np.newaxis], width)]))
    want = (x + y) & (2 * half - 1)
    assert (number(out[:width]) == want).all()
    assert (out[width] == (want >= half)).all()
    fits = np.abs(x - y) < half
    assert (out[width + 1] == (x < y))[fits].all()


@given(classes=st.integers(2, 40), width=st.integers(3, 12), key=st.integers(0, 2**32 - 1), ties=st.booleans())
@settings(max_examples=30)
def test_the_first_of_the_highest(classes, width, key, ties):
    build = Builder(width * classes)
    circuit = build.build(highest(build, build.inputs.reshape(width, classes)))
    quarter = 1 << (width - 2)
    values = numbers(key).integers(-quarter, quarter, (classes, 60))
    if ties:
        values = values.clip(-1, 1)
    assert (number(evaluate(circuit, bits(values, width))) == values.argmax(axis=0)).all()
    assert circuit.outputs.size == (classes - 1).bit_length()


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_all_of(count):
    build = Builder(count)
    circuit = build.build(all_of(build, build.inputs))
    assert circuit.ands == count - 1
    rows = ((np.arange(1 << count) >> np.arange(count)[:, np.newaxis]) & 1).astype(np.uint8)
    assert (evaluate(circuit, rows)[0] == rows.all(axis=0)).all()


def test_constants_negation_and_operands_that_are_sums():
    build = Builder(4)
    a, b, c, d = build.inputs.reshape(4, 1)
    outputs = [build.not_(a), build.and_(a, b, a2=c, b2=d), build.and_(a, b), build.xor(a, np.array([ONE]))]
    circuit = build.build(np.concatenate([*outputs, [ZERO, ONE]]))
    rows = ((np.arange(16) >> np.arange(4)[:, np.newaxis]) & 1).astype(np.uint8)
    w, x, y, z = rows
    want = [1 - w, (w ^ y) & (x ^ z), w & x, 1 - w, np.zeros(16), np.ones(16)]
    assert (evaluate(circuit, rows) == np.array(want)).all()


@pytest.mark.parametrize(("classes", "width", "layers"), [(10, 12, 48), (2, 12, 12), (100, 12, 84), (10, 20, 80)])
def test_the_circuit_of_a_task_has_the_gates_it_is_said_to_have(classes, width, layers):
    circuit = circuit_of(classes, width, width)
    sums, none_below = 2 * classes * (width - 1), classes - 1
    comparisons, values = (classes - 1) * (width - 1), (classes - 2) * width
    indices = sum(level * duels for level, duels in enumerate(levels(classes)))
    assert circuit.ands == sums + none_below + comparisons + values + indices
    assert sum(bool(layer.ands) for layer in circuit.layers) == layers
    assert circuit.inputs == 4 * classes * width


def test_ten_classes_of_twelve_bits_take_431_ands():
    assert circuit_of(10, 12, 12).ands == 431
