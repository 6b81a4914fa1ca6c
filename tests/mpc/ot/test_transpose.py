"""Turning bit matrices, against NumPy bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc.ot.transpose import to_rows
from support.harness import numbers


def by_bits(words: np.ndarray) -> np.ndarray:
    """uint64[k, m] -> 0/1 uint8[k, 64 m]."""
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little")


@given(m=st.integers(1, 20), key=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_bit_i_of_column_c_is_bit_c_of_row_i(m, key):
    columns = numbers(key).integers(0, 2**64, (128, m), np.uint64)
    before = columns.copy()
    rows = to_rows(columns)
    assert rows.shape == (64 * m, 2)
    assert (by_bits(rows) == by_bits(columns).T).all()
    assert (columns == before).all()


@pytest.mark.parametrize("m", [511, 512, 513, 1025])
def test_columns_of_several_chunks(m):
    columns = numbers(m).integers(0, 2**64, (128, m), np.uint64)
    assert (by_bits(to_rows(columns)) == by_bits(columns).T).all()


def test_columns_with_gaps_between_them():
    # What is spent on the check is cut off, so the columns do not lie one behind the other.
    columns = numbers(3).integers(0, 2**64, (128, 9), np.uint64)
    assert (to_rows(columns[:, :7]) == to_rows(columns)[: 64 * 7]).all()
