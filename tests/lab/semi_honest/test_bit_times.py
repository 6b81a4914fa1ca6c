"""A shared bit times a shared vector, against plain multiplication."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab.semi_honest.bit_times import scale
from sedml.mpc.ring import Ring
from sedml.mpc.steps import drive
from support.harness import numbers
from support.semi_honest import TrustedExtension

keys = st.integers(0, 2**32 - 1)


def transfers(count: int, key: int):
    return [drive(None, 0, TrustedExtension(role, key).extend(count)).part(0, count) for role in (0, 1)]


@given(width=st.integers(1, 64), lanes=st.integers(1, 40), count=st.integers(1, 30), key=keys)
@settings(max_examples=60)
def test_the_shares_add_up_to_the_product_in_every_ring(width, lanes, count, key):
    ring, ots = Ring(width), transfers(count, key % 1000)
    vectors = numbers(key).integers(0, 2**64, (2, lanes, count), np.uint64).astype(ring.dtype)
    products = [scale(ots[role], vectors[role], ring) for role in (0, 1)]
    # Only the ring's bits are sent, however much wider its type is.
    shares = [products[role].finish(products[1 - role].tau & ring.mask) for role in (0, 1)]
    bit = (ots[0].choices ^ ots[1].choices).astype(ring.dtype)
    assert (ring.reduce(shares[0] + shares[1]) == ring.reduce(bit * (vectors[0] + vectors[1]))).all()
    assert products[0].tau.shape == (lanes, count)


def test_what_is_sent_and_what_is_kept_look_like_coins():
    ring, ots = Ring(16), transfers(2000, 4)
    nothing = np.zeros((20, 2000), ring.dtype)  # the same for all, so that only pads can make a difference
    products = [scale(ots[role], nothing, ring) for role in (0, 1)]
    shares = [products[role].finish(products[1 - role].tau) for role in (0, 1)]
    for lanes in (*(product.tau for product in products), *shares):
        values = np.ascontiguousarray(lanes.T)
        bits = np.unpackbits(values.view(np.uint8))
        assert abs(int(bits.sum()) - bits.size / 2) < 5 * np.sqrt(bits.size) / 2
        assert len(np.unique(values.view([("", values.dtype)] * 20))) == 2000
        assert not (values[:, :8] == values[:, 8:16]).all(axis=1).any()  # one block of a pad for two would show here


def test_a_product_under_way_does_not_show_its_secrets():
    ots = transfers(2, 1)
    assert "array" not in repr(scale(ots[0], np.ones((3, 2), np.uint8), Ring(8)))
