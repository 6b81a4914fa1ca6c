"""Look-ups in the other's table: the entry that was asked for, under the owner's mask, and no other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab.semi_honest import lookup
from sedml.lab.semi_honest.lookup import Lookup, answer, ask, halves, joined, pick
from sedml.lab.semi_honest.recipe import make
from sedml.mpc.bits import packed_size
from sedml.mpc.ot.hashing import hash_rows
from sedml.mpc.steps import drive
from support.harness import numbers
from support.made import both
from support.semi_honest import TrustedExtension, run_made

keys = st.integers(0, 2**32 - 1)


def as_words(spec: Lookup, bits: np.ndarray) -> np.ndarray:
    """0/1 [..., entries, positions] -> tables as `answer` takes them."""
    flat = bits.reshape(*bits.shape[:-2], -1)
    return np.packbits(flat, axis=-1, bitorder="little").view(spec.word)[..., 0]


@given(
    size=st.sampled_from([*((bits, 1) for bits in range(1, 7)), *((bits, 2) for bits in range(1, 6))]),
    rows=st.integers(1, 3),
    samples=st.integers(1, 21),
    extra=st.integers(0, 9),
    key=keys,
)
@settings(max_examples=80)
def test_each_server_finds_the_entry_at_its_position_of_the_others_table(size, rows, samples, extra, key):
    bits, entries = size
    rng, spec = numbers(key), Lookup(rows, samples + extra, bits, entries)
    half, size = -(-samples // 2), 1 << bits
    tables = rng.integers(0, 2, (2, rows, half, entries, size), np.uint8)
    places = rng.integers(0, size, (2, rows, half)).astype(np.uint8)

    def side(party):
        pieces, y = party.take("look"), places[party.role]
        [asked] = party.swap("ask", [ask(spec, pieces, y)])
        [answered] = party.swap("answer", [answer(spec, pieces, asked, as_words(spec, tables[party.role]))])
        return pick(spec, pieces, answered, y), pieces["own"][..., :half]

    run = run_made({"look": spec}, side, key=key % 1000)
    for found, own, table, y in zip(
        [run.shares[0][0], run.shares[1][0]],
        [run.shares[1][1], run.shares[0][1]],
        tables[::-1],
        places,
        strict=True,
    ):
        want = np.take_along_axis(table, y[..., np.newaxis, np.newaxis].astype(np.intp), -1)[..., 0]
        assert (found ^ own == np.moveaxis(want, -1, 0)).all()
    # d bits one way, the table's the other; a table of less than a byte takes a byte.
    assert [part.size for part in run.taps[0].sent] == [
        packed_size(rows * half, bits),
        rows * half * max(1, entries * size // 8),
    ]
    assert run.offline[0].rounds == 0  # nothing is sent besides what makes the transfers
    assert spec.transfers == bits * rows * -(-(samples + extra) // 2)


@given(samples=st.integers(1, 30), rows=st.integers(1, 3), key=keys)
@settings(max_examples=30)
def test_halves_are_joined_to_what_they_were(samples, rows, key):
    values = numbers(key).integers(0, 256, (rows, samples), np.uint8)
    for role in (0, 1):
        mine, theirs = halves(role, values)
        assert mine.shape == theirs.shape == (rows, -(-samples // 2))
        assert (joined(role, mine, theirs, samples) == values).all()
    # Where one server has the table the other has the position.
    assert (halves(0, values)[0] == halves(1, values)[1]).all()
    assert (halves(0, values)[1] == halves(1, values)[0]).all()


def test_the_padding_of_an_odd_number_of_samples_is_no_sample():
    for role in (0, 1):
        offered, looked = halves(role, np.full((2, 5), 7, np.uint8))
        second = looked if role == 0 else offered
        assert (second[:, -1] == 0).all()


def test_masks_are_fair_coins_and_each_server_has_its_own():
    spec = Lookup(4, 1000, 2, 2)
    made = both(
        lambda role, link: drive(link, 0, make(role, TrustedExtension(role, 1), 0, {"look": spec})).take("look")
    )
    masks = [pieces["own"] for pieces in made]
    for own in masks:
        assert abs(int(own.sum()) - own.size / 2) < 5 * np.sqrt(own.size) / 2
    assert abs(int((masks[0] ^ masks[1]).sum()) - masks[0].size / 2) < 5 * np.sqrt(masks[0].size) / 2


def rank(rows: np.ndarray) -> int:
    """Of a bit matrix, over the field of two elements."""
    basis: list[int] = []
    for row in np.packbits(rows, axis=1):
        value = int.from_bytes(row.tobytes(), "big")
        for other in basis:
            value = min(value, value ^ other)
        if value:
            basis.append(value)
    return len(basis)


def unknown_pads(bits: int) -> np.ndarray:
    """0/1 [look-ups, positions]: what masks S0's tables less what S1 knows of it, S1's own position put first."""
    size = 1 << bits
    spec = Lookup(1, 2 * (2 * size + 64), bits)
    sender, receiver = both(
        lambda role, link: drive(link, 0, make(role, TrustedExtension(role, 9), 0, {"l": spec})).take("l")
    )
    y = (np.arange(spec.half) % size).astype(np.uint8).reshape(1, -1)
    own = lookup._whole(spec, 0) * sender["own"][0].astype(spec.word)  # which the sender would share with nobody
    left = answer(spec, sender, ask(spec, receiver, y), own) ^ receiver["keys"]
    left = np.unpackbits(left[0][:, np.newaxis].view(np.uint8), axis=-1, bitorder="little")[:, :size]
    return np.take_along_axis(left, np.arange(size) ^ y[0][:, np.newaxis], axis=1)


@pytest.mark.parametrize("bits", [2, 3, 6])
def test_the_receiver_knows_the_pad_of_its_position_and_no_sum_of_others(bits):
    pads = unknown_pads(bits)
    assert not pads[:, 0].any()
    others = pads[:, 1:]
    assert abs(int(others.sum()) - others.size / 2) < 5 * np.sqrt(others.size) / 2
    assert rank(others) == (1 << bits) - 1


@pytest.mark.parametrize("bits", [2, 3, 6])
def test_pads_that_are_sums_of_whole_keys_would_be_found(monkeypatch, bits):
    # One bit of a key for all positions: every pad looks random, but four at the corners of a square cancel.
    def whole_keys(rows, first):
        return (hash_rows(rows, first) & np.uint64(1)) * np.uint64(2**64 - 1)

    monkeypatch.setattr(lookup, "kernel", lambda: None)  # which would not call it
    monkeypatch.setattr(lookup, "hash_rows", whole_keys)
    others = unknown_pads(bits)[:, 1:]
    assert abs(int(others.sum()) - others.size / 2) < 5 * np.sqrt(others.size * bits)
    assert rank(others) == bits
