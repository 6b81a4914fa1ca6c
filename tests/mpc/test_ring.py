"""Ring elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sedml.errors import RingError, TaskError
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
