"""Authenticated bits: the relation that all rows keep, and what catches a bit that was opened wrongly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import CheatingError
from sedml.mpc.authenticated.authenticated_bits import (
    Bits,
    bits_of,
    caught,
    fingerprint,
    opening_key,
    spread,
    times,
    wipe,
)
from sedml.mpc.ot.extension import Extension
from support.harness import numbers
from support.lockstep import both
from support.made import trusted_trees


def made(count: int, key: int = 1) -> tuple[list[Bits], list[np.ndarray]]:
    """Both servers' parts, and their Deltas."""
    trees = trusted_trees(2 * key, 2 * key + 1)
    pair = both(*(Extension(trees[role], b"bits").extend(count) for role in (0, 1)))
    return [bits_of(one) for one in pair], [one.delta for one in pair]


def assert_authentic(parts: list[Bits], deltas: list[np.ndarray], value: np.ndarray | None = None) -> None:
    whole = parts[0].bit ^ parts[1].bit
    if value is not None:
        assert (whole == value).all()
    for i in (0, 1):
        assert (parts[i].own ^ parts[1 - i].peer == times(whole, deltas[i])).all()


@pytest.mark.parametrize("count", [1, 128, 70_000])
def test_they_are_authentic_as_they_are_made(count):
    parts, deltas = made(count)
    assert_authentic(parts, deltas)
    assert len(parts[0].bit) == -(-count // 128) * 128
    assert abs((parts[0].bit ^ parts[1].bit).mean() - 0.5) < 0.25


def test_sums_public_bits_parts_and_shapes_are_authentic_too():
    parts, deltas = made(256)
    sums = [Bits(p.bit[:128] ^ p.bit[128:], p.own[:128] ^ p.own[128:], p.peer[:128] ^ p.peer[128:]) for p in parts]
    assert_authentic(sums, deltas, (parts[0].bit ^ parts[1].bit)[:128] ^ (parts[0].bit ^ parts[1].bit)[128:])
    c = numbers(1).integers(0, 2, 256).astype(np.uint8)
    shifted = [
        Bits(p.bit ^ c if role == 0 else p.bit, p.own ^ times(c, deltas[role]), p.peer) for role, p in enumerate(parts)
    ]
    assert_authentic(shifted, deltas, parts[0].bit ^ parts[1].bit ^ c)
    assert_authentic([p[3:77] for p in parts], deltas)
    assert_authentic([p.reshape(4, 64) for p in parts], deltas)


def opened(parts: list[Bits], deltas: list[np.ndarray], wrong: np.ndarray | None = None) -> bool:
    """S1 opens its bits, of which some are wrong; whether S0 takes them."""
    told = parts[1].bit.copy() if wrong is None else parts[1].bit ^ wrong
    key = opening_key("a test", parts[0].bit, told)
    shown = fingerprint(key, np.ascontiguousarray(parts[1].peer))
    whole = parts[0].bit ^ told
    return bool((shown == fingerprint(key, parts[0].own ^ times(whole, deltas[0]))).all())


@given(size=st.integers(1, 300), data=st.data())
@settings(max_examples=25)
def test_any_wrong_bit_that_is_opened_is_noticed(size, data):
    parts, deltas = made(300)
    parts = [part[:size] for part in parts]
    assert opened(parts, deltas)
    wrong = np.zeros(size, np.uint8)
    wrong[data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=size))] = 1
    assert not opened(parts, deltas, wrong)


def test_a_fingerprint_depends_on_every_word_and_on_its_place():
    words = numbers(1).integers(0, 2**64, 100, np.uint64)
    seen = {fingerprint(bytes(16), words).tobytes(), fingerprint(b"\1" * 16, words).tobytes()}
    for place in range(100):
        other = words.copy()
        other[place] ^= np.uint64(1 << (place % 64))
        seen.add(fingerprint(bytes(16), other).tobytes())
    swapped = words.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    seen.add(fingerprint(bytes(16), swapped).tobytes())
    assert len(seen) == 103


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 100])
def test_columns_of_all_sizes_have_fingerprints(size):
    assert fingerprint(bytes(16), np.ones(size, np.uint64)).shape == (32,)


def test_the_key_of_an_opening_follows_from_all_that_was_said_and_from_its_order():
    a, b = np.array([1, 2], np.uint8), np.array([3], np.uint8)
    keys = {
        opening_key("a test", *said)
        for said in ((a, b), (b, a), (a,), (np.array([1, 2, 3], np.uint8),), (a[:1], np.array([2, 3], np.uint8)))
    }
    keys.add(opening_key("another use", a, b))
    assert len(keys) == 6
    assert {len(key) for key in keys} == {16}


def test_spread_times_and_wipe():
    assert spread(np.array([0, 1], np.uint8)).tolist() == [0, 2**64 - 1]
    assert times(np.array([0, 1], np.uint8), np.array([5, 6], np.uint64)).tolist() == [[0, 0], [5, 6]]
    secret = np.ones(4)
    wipe(secret)
    assert not secret.any()


def test_the_error_ends_the_job_and_says_who_to_tell():
    error = caught("tables")
    assert isinstance(error, CheatingError)
    assert error.ends_job
    assert "tables" in error.what
    assert "operators" in error.do
