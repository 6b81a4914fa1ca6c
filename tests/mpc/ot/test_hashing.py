"""Keys from rows: the hash of the docstring, another one for every tweak, block and row."""

from __future__ import annotations

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc.ot.hashing import hash_rows
from support.harness import numbers

keys = st.integers(0, 2**32 - 1)


def pi(block: int) -> int:
    encryptor = Cipher(algorithms.AES(b"sedml ot hashing"), modes.ECB()).encryptor()
    return int.from_bytes(encryptor.update(block.to_bytes(16, "little")), "little")


def tmmo(row: np.ndarray, tweak: int) -> bytes:
    """H(x, i) = pi(pi(x) ^ i) ^ pi(x)."""
    inner = pi(int.from_bytes(row.tobytes(), "little"))
    return (pi(inner ^ tweak) ^ inner).to_bytes(16, "little")


def rows_of(count: int, key: int) -> np.ndarray:
    return numbers(key).integers(0, 2**64, (count, 2), np.uint64)


@given(count=st.integers(1, 40), first=st.integers(0, 2**64 - 41), blocks=st.integers(1, 9), key=keys)
@settings(max_examples=30)
def test_it_is_the_hash_of_the_docstring_with_the_transfer_and_the_block_as_tweak(count, first, blocks, key):
    rows = rows_of(count, key)
    before = rows.copy()
    hashed = hash_rows(rows, first, blocks)
    assert hashed.shape == (count, 2 * blocks)
    assert (rows == before).all()
    for j, block in [(0, 0), (count - 1, blocks - 1), (count // 2, blocks // 2)]:
        found = hashed[j, 2 * block : 2 * block + 2].tobytes()
        assert found == tmmo(rows[j], (first + j) | block << 64)


@given(count=st.integers(1, 40), first=st.integers(0, 2**40), blocks=st.integers(2, 9), key=keys)
@settings(max_examples=20)
def test_the_first_block_is_what_one_block_alone_would_be(count, first, blocks, key):
    rows = rows_of(count, key)
    assert (hash_rows(rows, first, blocks)[:, :2] == hash_rows(rows, first)).all()


@given(count=st.integers(1, 40), start=st.integers(0, 39), first=st.integers(0, 2**40), blocks=st.integers(1, 3))
@settings(max_examples=20)
def test_a_part_is_hashed_as_it_is_within_the_whole(count, start, first, blocks):
    rows, start = rows_of(count, 1), min(start, count - 1)
    assert (hash_rows(rows[start:], first + start, blocks) == hash_rows(rows, first, blocks)[start:]).all()


def test_equal_rows_have_different_keys():
    # A hash that ignored its tweak would give one key to all of them.
    rows = np.repeat(rows_of(1, 5), 1000, axis=0)
    assert len(np.unique(hash_rows(rows, 0), axis=0)) == 1000


def test_the_same_rows_under_the_same_numbers_have_the_same_keys_and_under_the_next_numbers_others():
    # Why a number is never given out twice: the keys of both uses would be equal.
    rows = rows_of(300, 6)
    once = hash_rows(rows, 0)
    assert (hash_rows(rows, 0) == once).all()
    assert not (hash_rows(rows, 300) == once).all(axis=1).any()


@pytest.mark.parametrize("blocks", [2, 64, (1 << 16) + 2])
def test_all_blocks_of_a_row_differ(blocks):
    # More than 2^16 too: that many are asked for with half a million classes.
    hashed = hash_rows(rows_of(1, 7), 3, blocks).reshape(blocks, 2)
    assert len(np.unique(hashed, axis=0)) == blocks


def test_no_transfer_and_block_has_the_tweak_of_another():
    rows = np.repeat(rows_of(1, 8), 64, axis=0)
    hashed = hash_rows(rows, 1 << 16, 64).reshape(-1, 2)
    assert len(np.unique(hashed, axis=0)) == 64 * 64


def test_a_difference_of_rows_does_not_show_in_their_keys():
    # Linear in the row, keys of all pairs x, x ^ Delta would have one difference.
    rows, delta = rows_of(500, 9), rows_of(1, 10)
    differences = hash_rows(rows, 0) ^ hash_rows(rows ^ delta, 0)
    assert len(np.unique(differences, axis=0)) == 500
    ones = np.unpackbits(differences.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 / 2 / np.sqrt(500 * 128)


def test_nothing_is_hashed_to_nothing():
    assert hash_rows(np.empty((0, 2), np.uint64), 5).shape == (0, 2)
    assert hash_rows(np.empty((0, 2), np.uint64), 5, 3).shape == (0, 6)


def test_a_known_answer():
    rows = np.arange(4, dtype=np.uint64).reshape(2, 2)
    assert hash_rows(rows, 7).tobytes().hex() == "c8f3d70f8bbed0f9f09a022e8b1240ced198748f2725945e56af7b8138ca2c8b"
