"""Fresh shares of the same value, from randomness that only the two servers know."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sedml.lab.semi_honest.gadgets.bit_and import BitTriples
from sedml.lab.semi_honest.gadgets.refresh import agree, refresh
from sedml.mpc.ring import Ring
from support.harness import fixed_seed, join_ring, numbers, split_ring
from support.semi_honest import run_made


@given(width=st.integers(1, 64), size=st.integers(0, 40), key=st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_refreshing_keeps_the_value(width, size, key):
    ring = Ring(width)
    value = ring.reduce(numbers(key).integers(0, 2**63, size))
    shares = split_ring(value, width)
    fresh = tuple(refresh(role, fixed_seed(key), "labels", shares[role], ring) for role in (0, 1))
    assert (join_ring(fresh, width) == value).all()
    assert all(part.dtype == ring.dtype for part in fresh)


def test_fresh_shares_of_known_shares_are_uniform():
    ring, known = Ring(4), np.full(1 << 15, 9, np.uint8)
    for role in (0, 1):
        fresh = refresh(role, fixed_seed(5), "labels", known, ring)
        assert 1e-4 < stats.chisquare(np.bincount(fresh, minlength=16)).pvalue < 1 - 1e-4


def test_another_label_or_seed_moves_the_shares_elsewhere():
    ring, known = Ring(8), np.zeros(64, np.uint8)
    moved = [
        refresh(0, fixed_seed(seed), label, known, ring).tobytes()
        for seed in (1, 2)
        for label in ("0/labels", "1/labels")
    ]
    assert len(set(moved)) == 4


def test_the_servers_agree_on_a_seed_that_both_had_a_part_in():
    run = run_made({"and": BitTriples((1,))}, lambda party: agree(party.channel))
    assert run.shares[0] == run.shares[1]
    assert run.rounds == 1
    sent = [tap.sent[0].tobytes() for tap in run.taps]
    assert run.shares[0].key not in sent
    again = run_made({"and": BitTriples((1,))}, lambda party: agree(party.channel), keys=(13, 14))
    assert again.shares[0] != run.shares[0]
