"""Keys from rows: the hash of the docstring, another one for every tweak, block and row."""

from __future__ import annotations

import numpy as np
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
