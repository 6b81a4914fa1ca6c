"""Ring elements, bit planes and dense packing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sedml.errors import RingError, TaskError
from sedml.mpc.bits import from_planes, pack, packed_size, plane_bytes, to_planes, unpack
from sedml.mpc.ring import MAX_WIDTH, Ring
from support.harness import numbers, signed

widths = st.integers(1, 64)
keys = st.integers(0, 2**32 - 1)


def elements(width: int, shape: int | tuple[int, ...], key: int) -> np.ndarray:
    ring = Ring(width)
    return numbers(key).integers(0, int(ring.mask), shape, np.uint64, endpoint=True).astype(ring.dtype)


@pytest.mark.parametrize("width", range(1, 65))
def test_a_ring_uses_the_smallest_type_that_holds_it(width):
    ring = Ring(width)
    assert ring.dtype.kind == "u"
    assert ring.dtype.itemsize * 8 >= width
    assert ring.dtype.itemsize == 1 or ring.dtype.itemsize * 4 < width
    assert int(ring.mask) == 2**width - 1
    assert ring.mask.dtype == ring.dtype


@pytest.mark.parametrize("width", [0, -1, MAX_WIDTH + 1])
def test_a_ring_of_an_impossible_width_is_refused(width):
    with pytest.raises(RingError, match="1 to 64 bits") as caught:
        Ring(width)
    assert isinstance(caught.value, TaskError)


@given(width=widths, values=hnp.arrays(np.int64, 9, elements=st.integers(-(2**63), 2**63 - 1)))
def test_reduce_is_the_remainder_of_any_integer(width, values):
    reduced = Ring(width).reduce(values)
    assert reduced.dtype == Ring(width).dtype
    assert [int(x) for x in reduced] == [int(x) % 2**width for x in values]


@given(width=widths, key=keys)
def test_signed_reads_twos_complement_and_reduce_undoes_it(width, key):
    ring = Ring(width)
    half = 1 << width - 1
    edges = np.array([0, half - 1, half, 2 * half - 1], ring.dtype)
    values = np.concatenate([elements(width, 9, key), edges])
    read = signed(ring, values)
    assert [int(x) for x in read] == [(int(v) + half) % (2 * half) - half for v in values]
    assert (ring.reduce(read) == values).all()


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


@pytest.mark.parametrize("width", range(1, 65))
def test_packing_gives_back_every_word_of_every_width(width):
    for count in (1, 2, 3, 5, 7, 8, 9, 16, 61):
        values = elements(width, (2, count), width)
        values[0, 0], values[1, -1] = Ring(width).mask, 0
        packed = pack(values, width)
        assert packed.dtype == np.uint8
        assert packed.shape == (2, packed_size(count, width))
        assert (unpack(packed, width, count) == values).all()


@given(width=widths, count=st.integers(0, 200), key=keys)
def test_packing_is_dense_to_within_a_byte_for_each_bit_field(width, count, key):
    values = elements(width, count, key)
    size = packed_size(count, width)
    assert pack(values, width).size == size
    # Whole bytes are dense; of the rest each of the fields of 4, 2 and 1 bits is rounded up by itself.
    fields = (width % 8).bit_count()
    assert count * width / 8 <= size < count * width / 8 + max(fields, 1)
    assert (unpack(pack(values, width), width, count) == values).all()


@given(width=widths, count=st.integers(1, 40), key=keys)
@settings(max_examples=30)
def test_packed_words_can_be_read_at_any_offset_and_unpacking_leaves_them_alone(width, count, key):
    values = elements(width, count, key)
    packed = pack(values, width)
    buffer = np.concatenate([np.zeros(3, np.uint8), packed])
    before = buffer.copy()
    assert (unpack(buffer[3:], width, count) == values).all()
    assert (buffer == before).all()


def test_packing_follows_the_documented_layout():
    # 11 bits: the low byte as it is, then bits 8 and 9 in fields of two, then bit 10 in fields of one.
    values = np.array([0b1_10_00000001, 0b0_11_11111111], np.uint16)
    assert pack(values, 11).tolist() == [0x01, 0xFF, 0b11_10, 0b0_1]
