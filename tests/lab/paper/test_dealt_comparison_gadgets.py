"""Sign tests, duels and the tournament, against plain comparison."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab.paper.correlations import corrections_size
from sedml.lab.paper.gadgets.scmp import plan_scmp, scmp
from sedml.lab.paper.gadgets.select import Duel, duel, plan_duel
from sedml.lab.paper.gadgets.sign import plan_sign, sign
from sedml.mpc.bits import packed_size, plane_bytes
from sedml.mpc.gadgets.tournament import levels, tournament
from support.dealt import join_bits, run_pair
from support.harness import join_ring, numbers, signed, split_ring

keys = st.integers(0, 2**32 - 1)
in_use = st.integers(1, 21)
spare = st.integers(0, 19)


def log_ceil(base: int, value: int) -> int:
    return next(k for k in range(65) if base**k >= value)


def signed_values(width: int, shape: tuple[int, ...], key: int, low: int | None = None) -> np.ndarray:
    """Numbers over the whole range, a third of them at its ends and around zero."""
    rng = numbers(key)
    low, high = -(1 << width - 1) if low is None else low, (1 << width - 1) - 1
    values = rng.integers(low, high, shape, np.int64, endpoint=True)
    edges = np.clip(np.array([low, low + 1, -2, -1, 0, 1, high - 1, high]), low, high)
    return np.where(rng.random(shape) < 1 / 3, rng.choice(edges, shape), values)


def shares_with_edges(values: np.ndarray, width: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of which some are zero or all ones, so that carries run over the whole width or not at all."""
    share0, share1 = split_ring(values, width, key)
    rng, ones = numbers(key), share0.dtype.type((1 << width) - 1)
    pick = rng.integers(0, 6, values.shape)
    share0 = np.where(pick == 0, 0, np.where(pick == 1, ones, share0)).astype(share0.dtype)
    share1 = (values.astype(share0.dtype) - share0) & ones
    return share0, share1


@pytest.mark.parametrize("width", range(2, 65))
@given(samples=in_use, extra=spare, rows=st.integers(1, 3), key=keys)
@settings(max_examples=3)
def test_scmp_is_the_sign_at_every_width(width, samples, extra, rows, key):
    f = signed_values(width, (rows, samples), key)
    shares = shares_with_edges(f, width, key)
    plan = plan_scmp("scmp", rows, samples + extra, width)
    run = run_pair(plan, lambda p: scmp(p, "scmp", shares[p.role], width))
    assert (join_bits(run, samples) == (f < 0)).all()
    assert run.rounds == 1 + log_ceil(2, width - 1)


@pytest.mark.parametrize("width", range(2, 65))
@given(samples=in_use, extra=spare, rows=st.integers(1, 3), key=keys)
@settings(max_examples=4)
def test_sign_is_the_sign_at_every_width(width, samples, extra, rows, key):
    f = signed_values(width, (rows, samples), key)
    shares = shares_with_edges(f, width, key)
    plan = plan_sign("sign", rows, samples + extra, width)
    run = run_pair(plan, lambda p: sign(p, "sign", shares[p.role], width))
    assert (join_bits(run, samples) == (f < 0)).all()
    digits = -(-(width - 1) // 4)
    assert run.rounds == 1 + log_ceil(4, digits)
    assert run.rounds <= (2 if width <= 17 else 3)
    # Step 1 opens w bits a test; the borrow's nodes open the rest.
    assert run.taps[0].sent[0].size == packed_size(rows * samples, width)


@pytest.mark.parametrize("gadget", ["scmp", "sign"])
@pytest.mark.parametrize("width", [2, 3, 4, 5, 6])
def test_narrow_signs_are_right_for_every_number_under_every_pair_of_shares(gadget, width):
    size = 1 << width
    share0, share1 = (part.reshape(1, -1) for part in np.indices((size, size)).astype(np.uint8))
    samples = share0.shape[1]
    value = (share0 + share1) & np.uint8(size - 1)
    own = share0, share1
    if gadget == "scmp":
        run = run_pair(plan_scmp("c", 1, samples, width), lambda p: scmp(p, "c", own[p.role], width))
    else:
        run = run_pair(plan_sign("c", 1, samples, width), lambda p: sign(p, "c", own[p.role], width))
    assert (join_bits(run, samples) == value >> np.uint8(width - 1)).all()


def test_a_sign_of_twelve_bits_opens_sixteen_bits_and_scmp_about_three_and_a_half_times_the_width():
    samples, width = 64, 12
    f = split_ring(signed_values(width, (1, samples), 5), width)
    run = run_pair(plan_sign("s", 1, samples, width), lambda p: sign(p, "s", f[p.role], width))
    assert run.payload * 8 == samples * (width + 4)
    run = run_pair(plan_scmp("s", 1, samples, width), lambda p: scmp(p, "s", f[p.role], width))
    assert 3 * width < run.payload * 8 / samples < 4 * width


@given(
    width=st.integers(2, 64),
    index_width=st.integers(2, 9),
    value=st.booleans(),
    secret_index=st.booleans(),
    samples=in_use,
    extra=spare,
    rows=st.integers(1, 3),
    key=keys,
)
@settings(max_examples=80)
def test_a_duel_is_won_by_the_larger_and_by_the_left_on_a_tie(
    width, index_width, value, secret_index, samples, extra, rows, key
):
    rng, shape, size = numbers(key), (rows, samples), 1 << index_width
    difference = signed_values(width, shape, key)
    a = rng.integers(-(1 << 62), 1 << 62, shape) >> rng.integers(0, 62)
    b = a - difference
    ia = rng.integers(0, size - 1, shape)
    ib = rng.integers(0, size, shape) if secret_index else ia + 1
    spec = Duel(rows, samples + extra, width, index_width, value=value, secret_index=secret_index)
    values = [split_ring(part, width, number) for number, part in enumerate((a, b))]
    indices = [split_ring(part, index_width, number) for number, part in enumerate((ia, ib), 5)]

    def side(party):
        return duel(party, "duel", spec, *(part[party.role] for part in (*values, *indices)))

    run = run_pair(plan_duel("duel", spec), side)
    right = difference < 0
    index = join_ring((run.shares[0][1], run.shares[1][1]), index_width)
    assert (index == np.where(right, ib, ia)).all()
    if value:
        won = join_ring((run.shares[0][0], run.shares[1][0]), width)
        assert (won == spec.masks["r"].ring.reduce(np.where(right, b, a))).all()
    else:
        assert run.shares[0][0] is None
        assert run.shares[1][0] is None
    # The sign test's rounds and one more, in which one bit a duel goes each way.
    assert run.rounds == 2 + log_ceil(4, -(-(width - 1) // 4))
    assert run.taps[0].sent[-1].size == rows * plane_bytes(samples)
    opened = packed_size(rows * samples, width)
    opened += packed_size(rows * samples, index_width) if secret_index else 0
    assert run.taps[0].sent[0].size == opened
    if not value:
        return
    # Dealt besides the sign test: [rho] and [rho r], w bits each or rho's wider ring, and the index.
    besides = corrections_size(plan_duel("duel", spec))
    besides -= corrections_size(plan_sign("duel", rows, samples + extra, width))
    count = rows * (samples + extra)
    want = packed_size(count, max(width, index_width)) + packed_size(count, width)
    assert besides == want + (packed_size(count, index_width) if secret_index else 0)


@given(entries=st.integers(1, 40), samples=st.integers(1, 9), spread=st.integers(1, 5), key=keys)
@settings(max_examples=60)
def test_a_tournament_of_plain_duels_finds_the_first_of_the_highest(entries, samples, spread, key):
    values = numbers(key).integers(0, spread, (entries, samples))  # few values, many ties
    indices = np.repeat(np.arange(entries)[:, np.newaxis], samples, axis=1)

    def plain(_level, a, b, ia, ib):
        return np.maximum(a, b), np.where(a < b, ib, ia)

    highest, first = tournament(values, indices, plain)
    assert (highest == values.max(axis=0)).all()
    assert (first == values.argmax(axis=0)).all()
    assert sum(levels(entries)) == entries - 1
    assert len(levels(entries)) == log_ceil(2, entries)


@given(
    entries=st.integers(2, 33),
    samples=st.integers(1, 19),
    extra=spare,
    width=st.integers(4, 33),
    ties=st.booleans(),
    key=keys,
)
@settings(max_examples=40)
def test_a_secure_tournament_finds_the_first_of_the_highest(entries, samples, extra, width, ties, key):
    rng, shape, index_width = numbers(key), (entries, samples), entries.bit_length()
    limit = 1 if ties else (1 << width - 2) - 1  # no difference may leave the ring
    values = rng.integers(-limit, limit, shape, endpoint=True)
    own = split_ring(values, width)
    rows = levels(entries)
    specs = [
        Duel(duels, samples + extra, width, index_width, value=True, secret_index=level > 0)
        for level, duels in enumerate(rows)
    ]
    plan = {}
    for level, spec in enumerate(specs):
        plan |= plan_duel(f"t/{level}", spec)

    def side(party):
        classes = np.arange(entries, dtype=np.uint8)[:, np.newaxis]
        indices = party.constant(np.repeat(classes, samples, axis=1))

        def step(level, *entrants):
            return duel(party, f"t/{level}", specs[level], *entrants)

        return tournament(own[party.role], indices, step)

    run = run_pair(plan, side)
    highest, first = (
        join_ring(shares, w) for shares, w in zip(zip(*run.shares, strict=True), (width, index_width), strict=True)
    )
    assert (first == values.argmax(axis=0)).all()
    assert (signed(specs[0].masks["r"].ring, highest) == values.max(axis=0)).all()
    assert run.rounds == len(rows) * (2 + log_ceil(4, -(-(width - 1) // 4)))
