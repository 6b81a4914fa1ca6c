"""Half-gates with authenticated masks: the evaluator finds the label of every masked value, and no other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc.authenticated.authenticated_bits import times
from sedml.mpc.authenticated.gates import _tweaks, evaluate, garble
from sedml.mpc.authenticated.masks import Plan, plan_of, weave
from sedml.mpc.garbling.circuit import ONE, Circuit
from support.authentic import dealt_bits, deltas_of, random_circuit
from support.harness import numbers


@dataclass
class Garbling:
    """A circuit garbled by S0 and evaluated by S1."""

    plan: Plan
    wires: np.ndarray
    masks: np.ndarray
    delta: np.ndarray
    zeros: np.ndarray
    tables: np.ndarray
    active: np.ndarray
    values: np.ndarray
    operands: np.ndarray
    """The masked values of both operands of every AND, uint8[2, ands, samples]."""


def garbled(circuit: Circuit, key: int, samples: int = 4, block: int = 3, change=None, fixed: int = 0) -> Garbling:
    """`fixed` inputs have M = 0 and the label 0; `change` may tamper with the tables and colours."""
    rng, plan = numbers(key), plan_of(circuit)
    deltas = deltas_of(rng)
    values = rng.integers(0, 2, (circuit.inputs, samples)).astype(np.uint8)
    wires = np.zeros((circuit.wires, samples), np.uint8)
    wires[ONE], wires[2 : 2 + circuit.inputs] = 1, values
    for layer in circuit.layers:
        for gate in layer.xors:
            wires[gate.out] = wires[gate.a] ^ wires[gate.b]
        for gate in layer.ands:
            left, right = wires[gate.a].copy(), wires[gate.b].copy()
            left = left if gate.a2 is None else left ^ wires[gate.a2]
            wires[gate.out] = left & (right if gate.b2 is None else right ^ wires[gate.b2])
    of_inputs = rng.integers(0, 2, values.shape).astype(np.uint8)
    of_inputs[:fixed] = values[:fixed]
    of_results = rng.integers(0, 2, (plan.ands, samples)).astype(np.uint8)
    a, b, _ = weave(plan, of_inputs, of_results)
    inputs, results, product = (dealt_bits(rng, mask, deltas) for mask in (of_inputs, of_results, a & b))
    k = weave(plan, inputs[0].own, results[0].own)
    t = weave(plan, inputs[1].peer, results[1].peer)
    labels = rng.integers(0, 2**64, (*values.shape, 2), np.uint64)
    labels[:fixed] = 0
    tables, zeros = garble(plan, labels, k[0], k[1], results[0].own ^ product[0].own, deltas[0], block)
    colours = (zeros[..., 0] & np.uint64(1)).astype(np.uint8)
    sent = tables.copy()
    if change is not None:
        change(sent, colours)
    sent[0] ^= t[1]
    sent[1] ^= t[0]
    masked = values ^ of_inputs
    out = results[1].peer ^ product[1].peer
    active, found = evaluate(plan, labels ^ times(masked, deltas[0]), masked, sent, colours, out, block)
    left, right = wires[plan.a] ^ wires[plan.a2] ^ a, wires[plan.b] ^ wires[plan.b2] ^ b
    return Garbling(plan, wires, of_results, deltas[0], zeros, tables, active, found, np.stack([left, right]))


@given(key=st.integers(0, 2**32 - 1), gates=st.integers(1, 25), samples=st.integers(1, 5), fixed=st.integers(0, 6))
@settings(max_examples=30)
def test_the_evaluator_finds_masked_values_and_their_labels(key, gates, samples, fixed):
    made = garbled(random_circuit(numbers(key), 6, gates), key, samples, fixed=fixed)
    assert (made.values == made.wires[made.plan.out] ^ made.masks).all()
    assert (made.active == made.zeros ^ times(made.values, made.delta)).all()


def test_every_tweak_of_a_block_is_another_one_and_blocks_share_none():
    plan = plan_of(random_circuit(numbers(1), 6, 20))
    seen = set()
    for block in (0, 1, 7):
        for here in plan.layers():
            for side in _tweaks(plan, here, 5, block):
                seen |= {tuple(tweak) for tweak in side.reshape(-1, 2).tolist()}
    assert len(seen) == 3 * 2 * plan.ands * 5


def test_another_block_has_other_tables_for_the_same_labels_and_masks():
    circuit = random_circuit(numbers(1), 6, 20)
    one, other = (garbled(circuit, 1, block=block) for block in (0, 1))
    assert not (one.tables == other.tables).all(axis=-1).any()


@pytest.mark.parametrize("row", [0, 1])
def test_a_wrong_row_counts_just_where_the_masked_value_of_its_operand_is_1(row):
    circuit = random_circuit(numbers(8), 6, 12)
    right = garbled(circuit, 5, samples=64)
    for which in range(right.plan.ands):

        def change(tables, _colours, which=which):
            tables[row, which] ^= np.uint64(3)

        wrong = garbled(circuit, 5, samples=64, change=change)
        used = right.operands[row, which] == 1
        assert ((right.values[which] != wrong.values[which]) == used).all()
        assert ((right.active[which] != wrong.active[which]).any(axis=1) == used).all()


def test_a_wrong_colour_turns_the_masked_value_over():
    circuit = random_circuit(numbers(8), 6, 12)
    right = garbled(circuit, 5)

    def change(_tables, colours):
        colours[-1] ^= 1

    wrong = garbled(circuit, 5, change=change)
    assert (right.values[-1] != wrong.values[-1]).all()


def test_no_row_of_a_table_is_zero_or_there_twice():
    made = garbled(random_circuit(numbers(3), 6, 25), 3, samples=5, fixed=6)
    rows = np.concatenate([made.tables.reshape(-1, 2), made.zeros.reshape(-1, 2)])
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert (rows != 0).any(axis=1).all()
    assert not (rows == made.delta).all(axis=1).any()
