"""Shares: two of them give the value, one of them gives nothing; and how they are packed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from sedml.lab.sharing import Additive, Bits, from_planes, pack, plane_bytes, share, to_planes, unpack
from sedml.mpc.ring import Ring
from support.harness import fixed_seed, numbers, packed_size

widths = st.integers(1, 64)
shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=9)
keys = st.integers(0, 2**20)


@st.composite
def shared_values(draw):
    shape, key = draw(shapes), draw(keys)
    kind = draw(st.sampled_from([Additive, Bits]))
    if kind is Bits:
        return Bits(shape), to_planes(numbers(key).integers(0, 2, shape, np.uint8)), key
    width = draw(widths)
    top = int(Ring(width).mask)
    value = numbers(key).integers(0, top, shape, np.uint64, endpoint=True).astype(Ring(width).dtype)
    return kind(shape, width), value, key


@given(shared_values())
def test_two_shares_give_the_value_back(case):
    layout, value, key = case
    shares = share(layout, value, fixed_seed(key), "value")
    restored = layout.combine(*shares)
    assert restored.dtype == value.dtype
    assert (restored == value).all()
    assert (layout.combine(*shares[::-1]) == value).all()


@given(shared_values())
def test_the_wire_form_is_dense_and_gives_the_share_back(case):
    layout, value, _ = case
    wire = layout.to_wire(value)
    assert wire.dtype == np.uint8
    assert wire.shape == (layout.wire_bytes,)
    assert (layout.from_wire(wire) == value).all()
    if not isinstance(layout, Bits):
        assert layout.wire_bytes == packed_size(value.size, layout.width)


@given(shared_values())
def test_the_first_share_does_not_depend_on_the_value(case):
    layout, value, key = case
    share0, _ = share(layout, value, fixed_seed(key), "value")
    other0, _ = share(layout, np.zeros_like(value), fixed_seed(key), "value")
    assert (share0 == other0).all()
    assert share0.dtype == value.dtype


@pytest.mark.parametrize("value", [0, 1, 0xFF])
@pytest.mark.parametrize("layout", [Additive((1 << 16,), 5), Additive((1 << 16,), 8)])
def test_each_share_alone_is_uniform_whatever_the_value(layout, value):
    values = layout.ring.reduce(np.full(layout.shape, value, np.uint8))
    for part in share(layout, values, fixed_seed(value), "uniform"):
        observed = np.bincount(part, minlength=1 << layout.width)
        assert observed.size == 1 << layout.width
        assert 1e-4 < stats.chisquare(observed).pvalue < 1 - 1e-4


@pytest.mark.parametrize("value", [0, 1])
def test_each_share_of_a_bit_is_uniform_whatever_the_bit(value):
    layout = Bits((1 << 17,))
    bits = to_planes(np.full(layout.shape, value, np.uint8))
    for part in share(layout, bits, fixed_seed(value), "uniform"):
        assert 1e-4 < stats.chisquare(np.bincount(part, minlength=256)).pvalue < 1 - 1e-4


@pytest.mark.parametrize("width", [7, 12, 31, 64])
def test_every_bit_of_a_wide_share_is_balanced(width):
    layout = Additive((1 << 14,), width)
    values = np.ones(layout.shape, layout.ring.dtype)
    for part in share(layout, values, fixed_seed(width), "bits"):
        ones = [int(((part >> part.dtype.type(j)) & part.dtype.type(1)).sum()) for j in range(width)]
        scores = (np.array(ones) - (1 << 13)) / np.sqrt(1 << 12)
        assert np.abs(scores).max() < 5


@given(width=st.integers(2, 64), narrower=st.integers(1, 63), key=keys)
@settings(max_examples=50)
def test_an_additive_share_reduces_to_a_narrower_ring_without_interaction(width, narrower, key):
    narrow = Ring(min(narrower, width))
    value = numbers(key).integers(0, int(Ring(width).mask), 9, np.uint64, endpoint=True)
    layout = Additive((9,), width)
    parts = share(layout, value.astype(layout.ring.dtype), fixed_seed(key), "narrow")
    reduced = Additive((9,), narrow.width).combine(*(narrow.reduce(part) for part in parts))
    assert (reduced == narrow.reduce(value)).all()


@given(samples=st.integers(0, 70), outer=hnp.array_shapes(max_dims=2, max_side=4), key=keys)
def test_planes_keep_every_bit_and_take_an_eighth_of_a_byte_each(samples, outer, key):
    bits = numbers(key).integers(0, 2, (*outer, samples), np.uint8)
    planes = to_planes(bits)
    assert planes.dtype == np.uint8
    assert planes.shape == (*outer, plane_bytes(samples))
    assert plane_bytes(samples) == -(-samples // 8)
    assert (from_planes(planes, samples) == bits).all()
    assert (from_planes(to_planes(bits.astype(bool)), samples) == bits).all()


def test_sample_number_eight_is_the_lowest_bit_of_the_second_byte():
    assert to_planes(np.arange(10) == 8).tolist() == [0, 1]


@given(width=widths, count=st.integers(0, 200), key=keys)
@example(width=11, count=1, key=0)
def test_packing_is_dense_and_gives_back_every_word(width, count, key):
    values = numbers(key).integers(0, int(Ring(width).mask), count, np.uint64, endpoint=True).astype(Ring(width).dtype)
    packed = pack(values, width)
    assert packed.dtype == np.uint8
    assert packed.shape == (packed_size(count, width),)
    found = unpack(np.concatenate([np.zeros(3, np.uint8), packed])[3:], width, count)
    assert found.dtype == values.dtype
    assert (found == values).all()


def test_packing_puts_the_lowest_bits_first():
    values = np.array([0b110_00000001, 0b011_11111111], np.uint16)
    assert pack(values, 11).tolist() == [0b00000001, 0b11111_110, 0b00_011_111]
