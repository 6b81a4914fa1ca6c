"""Garbled circuits against the clear ones, and what their tables and labels look like to whoever evaluates them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab.semi_honest.garbled import circuit_of
from sedml.lab.semi_honest.half_gates import Evaluator, Garbler, colours
from sedml.mpc.garbling.circuit import Builder, evaluate
from sedml.mpc.prg import expand
from support.harness import fixed_seed, numbers


def drawn(key: int, *shape: int) -> np.ndarray:
    size = 8 * int(np.prod(shape))
    return expand(fixed_seed(key), "labels", size).view(np.uint64).reshape(shape)


def odd_delta(key: int) -> np.ndarray:
    delta = drawn(key, 2).copy()
    delta[0] |= np.uint64(1)
    return delta


def garbled(circuit, inputs: np.ndarray, key: int, tweak: int = 7):
    """Tables, labels for 0 and Delta; and what comes of the active labels of `inputs`."""
    samples, delta = inputs.shape[1], odd_delta(key)
    zeros = drawn(key + 1, circuit.inputs, samples, 2)
    tables = np.empty((2 * circuit.ands * samples, 2), np.uint64)
    out = Garbler(circuit, samples, delta).garble(zeros, tweak, tables)
    active = zeros ^ (inputs[..., np.newaxis].astype(np.uint64) * delta)
    found = Evaluator(circuit, samples).evaluate(active, tweak, tables.copy())
    return tables, out, delta, found


@given(classes=st.integers(2, 20), width=st.integers(3, 14), samples=st.integers(1, 9), key=st.integers(0, 2**32 - 3))
@settings(max_examples=25)
def test_labels_come_out_as_the_circuit_says(classes, width, samples, key):
    circuit = circuit_of(classes, width, width)
    inputs = numbers(key).integers(0, 2, (circuit.inputs, samples)).astype(np.uint8)
    _, zeros, delta, found = garbled(circuit, inputs, key)
    want = evaluate(circuit, inputs)
    # Not only the colours: the whole label is that of 0 or that of 1.
    assert (found == zeros ^ (want[..., np.newaxis].astype(np.uint64) * delta)).all()
    assert (colours(found) ^ colours(zeros) == want).all()


@pytest.mark.parametrize("values", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("key", range(8))
def test_one_and_gate(values, key):
    build = Builder(2)
    a, b = build.inputs.reshape(2, 1)
    circuit = build.build(build.and_(a, b))
    _, zeros, delta, found = garbled(circuit, np.array(values, np.uint8).reshape(2, 1), key)
    assert (found[0, 0] == zeros[0, 0] ^ (np.uint64(values[0] & values[1]) * delta)).all()


def test_another_tweak_gives_other_tables_and_labels_that_lead_nowhere():
    circuit = circuit_of(3, 6, 6)
    inputs = numbers(1).integers(0, 2, (circuit.inputs, 40)).astype(np.uint8)
    tables, zeros, delta, _ = garbled(circuit, inputs, 5)
    others, *_ = garbled(circuit, inputs, 5, tweak=8)
    assert not (tables == others).any(axis=1).any()
    labels = drawn(6, circuit.inputs, 40, 2) ^ (inputs[..., np.newaxis].astype(np.uint64) * delta)
    wrong = Evaluator(circuit, 40).evaluate(labels, 8, tables.copy())
    assert not ((wrong == zeros) | (wrong == zeros ^ delta)).all(axis=-1).any()


def test_tables_look_uniform_and_none_is_delta():
    circuit = circuit_of(4, 8, 8)
    inputs = np.zeros((circuit.inputs, 200), np.uint8)
    tables, _, delta, _ = garbled(circuit, inputs, 9)
    ones = np.unpackbits(tables.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 * 0.5 / np.sqrt(tables.nbytes * 8)
    assert not (tables == delta).all(axis=1).any()
    assert len(np.unique(tables, axis=0)) == len(tables)
