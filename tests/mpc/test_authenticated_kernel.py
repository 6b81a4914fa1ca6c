"""The kernel's loops over authenticated bits against NumPy: the same bytes, narrow and wide; and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc.authenticated import authenticated_bits, buckets, gates, leaky, masks
from sedml.mpc.authenticated.authenticated_bits import Bits
from sedml.mpc.ot.extension import Transfers
from sedml.protocol.label_circuit import circuit_of
from support.both_kernels import both, bytes_of, fast, keys, on_both, words_of
from support.harness import fixed_seed

few = settings(max_examples=12, deadline=None)


@pytest.fixture(autouse=True)
def chosen(request):
    before = fast.use_wide("narrow" not in request.node.name)
    yield
    fast.use_wide(before)


def bits_like(key: int, *shape: int) -> Bits:
    return Bits(bytes_of(key, *shape) & np.uint8(1), words_of(key + 1, *shape, 2), words_of(key + 2, *shape, 2))


def same(one, other) -> None:
    for left, right in zip(one, other, strict=True):
        assert left.dtype == right.dtype
        assert np.array_equal(left, right)


@both
@given(key=keys, count=st.integers(1, 90), role=st.integers(0, 1), first=st.integers(0, 2**60))
@few
def test_leaky_ands(wide, key, count, role, first):
    theirs, d, delta = words_of(key + 5, count), bytes_of(key + 6, count) & np.uint8(1), words_of(key + 7, 2)

    def play():
        made = bits_like(key, count, 3)
        c, s, g = np.zeros((3, count), np.uint64)
        leaky._offer(role, delta, made, first, c, s, g)
        leaky._take(role, made, first, c, theirs, s)
        leaky._correct(role, delta, made, d, s)
        return c, s, g, made.bit, made.own, made.peer

    same(*on_both(play))


@both
@given(key=keys, count=st.integers(1, 400), size=st.integers(2, 5))
@few
def test_buckets(wide, key, count, size):
    leaky_bits = bytes_of(key, size * count, 3) & np.uint8(1)

    def play():
        place = buckets.places(fixed_seed(key + 1), count, size)
        return place, *buckets.bucket_bits(leaky_bits, place)

    found, want = on_both(play)
    same(found, want)
    for row, places in enumerate(found[0], 1):
        assert sorted(places) == list(range(row * count, (row + 1) * count))


def test_equal_keys_stay_in_order():
    values = np.array([7, 7, 2**31, 7, 0, 2**31, 0], np.uint32)
    found = np.empty(7, np.uint32)
    fast.order(values, found)
    assert found.tolist() == np.argsort(values, kind="stable").tolist()


@both
@given(key=keys, samples=st.integers(1, 70), classes=st.integers(2, 5))
@few
def test_masks_products_and_gates(wide, key, samples, classes):
    plan = masks.plan_of(circuit_of(classes, 3, 3))
    inputs = words_of(key, plan.circuit.inputs, samples, 2)
    results = words_of(key + 1, plan.ands, samples, 2)
    n, delta = plan.ands * samples, words_of(key + 2, 2)
    place = buckets.places(fixed_seed(key), n, 3)
    opened = bytes_of(key + 3, 4, n) & np.uint8(1)
    rows = words_of(key + 4, 3 * n, 3, 2)
    known = bytes_of(key + 5, plan.circuit.inputs, samples) & np.uint8(1)
    colours = bytes_of(key + 6, plan.ands, samples) & np.uint8(1)

    def play():
        a, b, out = masks.weave(plan, inputs, results)
        own = masks.products(0, place, opened[:2], opened[2], opened[3], rows, a, b, delta)
        peer = masks.products(0, place, opened[:2], opened[2], opened[3], rows, a, b, None)
        tables, labels = gates.garble(plan, inputs, a, b, results, delta, key)
        active, values = gates.evaluate(plan, inputs, known, tables, colours, results, key)
        return a, b, out, *own, *peer, tables, labels, active, values

    same(*on_both(play))


@both
@given(key=keys, count=st.integers(1, 300))
@few
def test_bits_and_fingerprints(wide, key, count):
    def play():
        made = Transfers(
            0,
            bytes_of(key, count) & np.uint8(1),
            words_of(key + 1, count, 2),
            words_of(key + 2, count, 2),
            words_of(key + 3, 2),
        )
        found = authenticated_bits.bits_of(made)
        return found.bit, found.own, found.peer, authenticated_bits.fingerprint(bytes(range(16)), found.own)

    same(*on_both(play))


def test_sizes_are_checked():
    n = 4
    row = np.zeros((n, 3, 2), np.uint64)
    word, bit, schedule, delta = (
        np.zeros(n, np.uint64),
        np.zeros((n, 3), np.uint8),
        fast.schedule(bytes(16)),
        np.zeros(2, np.uint64),
    )
    with pytest.raises(ValueError, match="bytes"):
        fast.leaky_offer(schedule, 0, delta, 0, 0, bit, row[1:], row, word, word.copy(), word.copy())
    with pytest.raises(ValueError, match="bytes"):
        fast.leaky_take(schedule, 0, 0, 0, bit, row, row, word, word[1:], word.copy())
    with pytest.raises(ValueError, match="bytes"):
        fast.leaky_correct(bit[:, 0].copy(), delta, 0, row, word[1:].copy())
    place = np.array([[4, 5, 6, 9]], np.uint32)
    with pytest.raises(ValueError, match="number"):
        fast.bucket_bits(place, np.zeros((8, 3), np.uint8), np.zeros((1, 4), np.uint8), *np.zeros((2, 4), np.uint8))
    opened, rows = np.zeros((1, 4), np.uint8), np.zeros((8, 3, 2), np.uint64)
    with pytest.raises(ValueError, match="number"):
        fast.products(
            0,
            place,
            opened,
            opened[0],
            opened[0],
            rows,
            *np.zeros((2, 4, 2), np.uint64),
            delta,
            np.zeros((4, 2), np.uint64),
            np.zeros((3, 4), np.uint64),
        )
    plan = masks.plan_of(circuit_of(2, 2, 2))
    gate_list = plan.circuit.program.copy()
    gate_list[0, 0] = plan.circuit.wires
    results = np.zeros((plan.ands, 3, 2), np.uint64)
    with pytest.raises(ValueError, match="number"):
        fast.weave(
            gate_list,
            plan.circuit.outputs.astype(np.int32),
            plan.circuit.wires,
            3,
            np.zeros((plan.circuit.inputs, 3, 2), np.uint64),
            results,
            results.copy(),
            results.copy(),
            np.zeros((2, 3, 2), np.uint64),
        )
