"""Masks of wires follow the circuit, and products of masks are authentic; what was opened wrongly shows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc.authenticated.authenticated_bits import Bits, times
from sedml.mpc.authenticated.buckets import bucket_bits, places
from sedml.mpc.authenticated.masks import plan_of, products, weave
from sedml.mpc.garbling.circuit import ONE, ZERO
from support.authentic import dealt_bits, deltas_of, random_circuit
from support.clear_circuits import evaluate
from support.harness import fixed_seed, numbers


@given(key=st.integers(0, 2**32 - 1), gates=st.integers(1, 25))
@settings(max_examples=25)
def test_a_plan_is_the_circuit(key, gates):
    rng = numbers(key)
    circuit = random_circuit(rng, 6, gates)
    plan = plan_of(circuit)
    assert plan.ands == circuit.ands
    values = rng.integers(0, 2, (6, 9)).astype(np.uint8)
    wires = np.zeros((circuit.wires, 9), np.uint8)
    wires[ONE], wires[2:8] = 1, values
    for layer, here in zip(circuit.layers, plan.layers(), strict=True):
        for gate in layer.xors:
            wires[gate.out] = wires[gate.a] ^ wires[gate.b]
        wires[plan.out[here]] = (wires[plan.a[here]] ^ wires[plan.a2[here]]) & (
            wires[plan.b[here]] ^ wires[plan.b2[here]]
        )
    assert (wires[circuit.outputs] == evaluate(circuit, values)).all()
    assert not wires[ZERO].any()


@given(key=st.integers(0, 2**32 - 1), gates=st.integers(1, 25))
@settings(max_examples=25)
def test_masks_of_bits_and_of_rows_are_woven_alike(key, gates):
    """What is linear in bits is linear in rows: operands and outputs stay authentic."""
    rng = numbers(key)
    circuit, samples, deltas = random_circuit(rng, 6, gates), 4, deltas_of(rng)
    plan = plan_of(circuit)
    inputs = dealt_bits(rng, rng.integers(0, 2, (6, samples)).astype(np.uint8), deltas)
    results = dealt_bits(rng, rng.integers(0, 2, (plan.ands, samples)).astype(np.uint8), deltas)
    woven = [
        [weave(plan, getattr(one, part), getattr(other, part)) for part in ("bit", "own", "peer")]
        for one, other in zip(inputs, results, strict=True)
    ]
    for kind in range(3):  # a, b, outputs
        parts = [Bits(*(rows[kind] for rows in side)) for side in woven]
        whole = parts[0].bit ^ parts[1].bit
        for i in (0, 1):
            assert (parts[i].own ^ parts[1 - i].peer == times(whole, deltas[i])).all()


def multiplied(key: int, ands: int, samples: int, size: int, wrong=None):
    """Products of random masks, half of the ANDs as in a block; `wrong` changes what S1 opens."""
    rng = numbers(key)
    deltas, n = deltas_of(rng), ands * samples
    value = rng.integers(0, 2, (2 * size * n, 3)).astype(np.uint8)
    value[:, 2] = value[:, 0] & value[:, 1]
    leaky = dealt_bits(rng, value, deltas)
    masks = [dealt_bits(rng, rng.integers(0, 2, (2, ands, samples)).astype(np.uint8), deltas) for _ in "ab"]
    place, said = places(fixed_seed(key), 2 * n, size), []
    for role in (0, 1):
        e, x, y = bucket_bits(leaky[role].bit, place)
        said.append([e, x ^ masks[0][role].bit.reshape(-1), y ^ masks[1][role].bit.reshape(-1)])
    if wrong is not None:
        wrong(said[1])
    e, f, g = (one ^ other for one, other in zip(*said, strict=True))
    here = slice(n, 2 * n)  # the second half

    def rows(role: int, under: str):
        of = [getattr(mask[role], under)[1] for mask in masks]
        return products(
            n,
            place[:, here],
            e[:, here],
            f[here],
            g[here],
            getattr(leaky[role], under),
            *of,
            deltas[role] if under == "own" else None,
        )

    whole = [mask[0].bit[1] ^ mask[1].bit[1] for mask in masks]
    return [[rows(role, under) for under in ("own", "peer")] for role in (0, 1)], whole[0] & whole[1], deltas


@given(key=st.integers(0, 2**32 - 1), ands=st.integers(1, 9), samples=st.integers(1, 5), size=st.integers(2, 5))
@settings(max_examples=25)
def test_products_are_authentic_and_what_was_opened_checks(key, ands, samples, size):
    rows, product, deltas = multiplied(key, ands, samples, size)
    for i in (0, 1):
        (own, expected), (peer, words) = rows[i][0], rows[1 - i][1]
        assert (own ^ peer == times(product, deltas[i])).all()
        assert (expected == words).all()
        assert words.shape == (size + 1, ands * samples)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_bit_that_was_opened_wrongly_shows_in_the_words_of_the_one_that_lied(which):
    def wrong(said):
        said[which].reshape(-1)[-1] ^= 1

    rows, _, deltas = multiplied(3, 4, 3, 3, wrong)
    expected, words = rows[0][0][1], rows[1][1][1]
    differ = expected ^ words
    assert np.count_nonzero(differ) == 1
    assert differ.max() == deltas[0][0]
