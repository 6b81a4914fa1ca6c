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
from support.dealt import join_bits, run_pair
from support.harness import join_ring, numbers, split_ring

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
@settings(max_examples=4)
def test_both_tests_find_the_sign_at_every_width(width, samples, extra, rows, key):
    f = signed_values(width, (rows, samples), key)
    shares = shares_with_edges(f, width, key)
    plan = plan_scmp("scmp", rows, samples + extra, width)
    run = run_pair(plan, lambda p: scmp(p, "scmp", shares[p.role], width))
    assert (join_bits(run, samples) == (f < 0)).all()
    assert run.rounds == 1 + log_ceil(2, width - 1)
    plan = plan_sign("sign", rows, samples + extra, width)
    run = run_pair(plan, lambda p: sign(p, "sign", shares[p.role], width))
    assert (join_bits(run, samples) == (f < 0)).all()
    digits = -(-(width - 1) // 4)
    assert run.rounds == 1 + log_ceil(4, digits)
    assert run.rounds <= (2 if width <= 17 else 3)
    # Step 1 opens w bits a test; the borrow's nodes open the rest.
    assert run.taps[0].sent[0].size == packed_size(rows * samples, width)


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
