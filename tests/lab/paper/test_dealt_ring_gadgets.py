"""Multiplication, conversion, one-hot tables and counting, against arithmetic modulo 2^w."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab.paper.correlations import corrections_size
from sedml.lab.paper.gadgets import count as count_module
from sedml.lab.paper.gadgets.convert import DealtBit, convert, convert_paper
from sedml.lab.paper.gadgets.count import count, plan_count
from sedml.lab.paper.gadgets.leaf_and import LeafProduct, leaf_product
from sedml.lab.paper.gadgets.multiply import Triple, multiply
from sedml.lab.paper.gadgets.onehot import OneHot, onehot, rotate
from sedml.mpc.bits import packed_size, plane_bytes
from sedml.mpc.ring import Ring, index_width
from support.dealt import run_pair, split_bits
from support.harness import join_ring, numbers, split_ring

keys = st.integers(0, 2**32 - 1)
in_use = st.integers(1, 29)
spare = st.integers(0, 19)
widths = st.integers(1, 64)


def uniform(width: int, shape: tuple[int, ...], key: int) -> np.ndarray:
    """Ring elements; the corners 0, 1 and 2^w - 1 more often than chance would have it."""
    rng, ring = numbers(key), Ring(width)
    values = rng.integers(0, int(ring.mask), shape, np.uint64, endpoint=True)
    corners = rng.choice(np.array([0, 1, int(ring.mask)], np.uint64), shape)
    return np.where(rng.random(shape) < 0.2, corners, values).astype(ring.dtype)


@given(width=widths, samples=in_use, extra=spare, outer=st.integers(1, 3), key=keys)
@settings(max_examples=60)
def test_multiply_is_the_product_in_the_ring(width, samples, extra, outer, key):
    x, y = uniform(width, (outer, 2, samples), key), uniform(width, (outer, 2, samples), key + 1)
    xs, ys = split_ring(x, width, 1), split_ring(y, width, 2)
    plan = {"mul": Triple((outer, 2, samples + extra), width)}
    run = run_pair(plan, lambda p: multiply(p, "mul", xs[p.role], ys[p.role], width))
    assert (join_ring(run.shares, width) == Ring(width).reduce(x * y)).all()
    assert run.rounds == 1
    assert run.payload == 2 * packed_size(outer * 2 * samples, width)
    assert corrections_size(plan) == packed_size(outer * 2 * (samples + extra), width)


@given(width=widths, samples=in_use, extra=spare, rows=st.integers(1, 3), key=keys)
@settings(max_examples=60)
def test_leaf_product_multiplies_a_value_of_each_server_sending_its_own_size(width, samples, extra, rows, key):
    own = uniform(width, (rows, samples), key), uniform(width, (rows, samples), key + 1)
    plan = {"leaf": LeafProduct((rows, samples + extra), width)}
    run = run_pair(plan, lambda p: leaf_product(p, "leaf", own[p.role], width))
    assert (join_ring(run.shares, width) == Ring(width).reduce(own[0] * own[1])).all()
    assert run.rounds == 1
    assert run.payload == packed_size(rows * samples, width)


@pytest.mark.parametrize("how", ["dealt bit", "paper"])
@given(width=widths, samples=in_use, extra=spare, rows=st.integers(1, 3), key=keys)
@settings(max_examples=60)
def test_both_conversions_keep_the_bit(how, width, samples, extra, rows, key):
    bits = numbers(key).integers(0, 2, (rows, samples), np.uint8)
    shares = split_bits(bits)
    kind, gadget = (DealtBit, convert) if how == "dealt bit" else (LeafProduct, convert_paper)
    plan = {"convert": kind((rows, samples + extra), width)}
    run = run_pair(plan, lambda p: gadget(p, "convert", shares[p.role], samples, width))
    assert (join_ring(run.shares, width) == bits).all()
    assert all(share.dtype == Ring(width).dtype for share in run.shares)
    assert run.rounds == 1
    bytes_each_way = rows * plane_bytes(samples) if how == "dealt bit" else packed_size(rows * samples, width)
    assert run.payload == bytes_each_way


def lanes_of(table: np.ndarray) -> np.ndarray:
    """The nibbles of packed vectors, lowest first: uint8[..., lanes]."""
    octets = np.ascontiguousarray(table).view(np.uint8).reshape(*table.shape[:-1], -1)
    return np.stack([octets & 15, octets >> 4], axis=-1).reshape(*table.shape[:-1], -1)


@given(classes=st.integers(2, 300), teachers=st.integers(1, 4), samples=in_use, key=keys)
@settings(max_examples=60)
def test_onehot_then_rotate_is_one_at_the_vote_and_zero_elsewhere(classes, teachers, samples, key):
    width = index_width(classes)
    votes = uniform(width, (teachers, samples), key)  # every bit string, abstentions among them
    shares = split_ring(votes, width)
    plan = {"onehot": OneHot((teachers, samples), classes)}

    def side(party):
        table, rotation = onehot(party, "onehot", shares[party.role], classes)
        return rotate(table, rotation)

    run = run_pair(plan, side)
    hot = (lanes_of(run.shares[0]) + lanes_of(run.shares[1])) & 15
    assert hot.shape[-1] == 1 << width
    assert (hot == (votes[..., np.newaxis] == np.arange(1 << width))).all()
    assert run.rounds == 1
    assert run.payload == packed_size(teachers * samples, width)
    assert corrections_size(plan) == teachers * samples * (1 << width) // 2


@pytest.mark.parametrize(("classes", "bits"), [(2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (15, 4), (16, 5), (300, 9)])
def test_an_index_has_room_for_an_abstention(classes, bits):
    assert index_width(classes) == bits
    assert 2**bits > classes


@given(
    teachers=st.integers(1, 100),
    classes=st.integers(2, 40),
    samples=in_use,
    width=st.integers(5, 64),
    unanimous=st.booleans(),
    key=keys,
)
@settings(max_examples=60)
def test_count_is_how_many_voted_for_each_class(teachers, classes, samples, width, unanimous, key):
    c = index_width(classes)
    votes = uniform(c, (teachers, samples), key)
    if unanimous:
        votes[:] = votes[:1]
    shares = split_ring(votes, c)
    plan = plan_count("count", teachers, classes, samples, width)
    run = run_pair(plan, lambda p: count(p, "count", shares[p.role], classes, width))
    want = (votes == np.arange(classes)[:, np.newaxis, np.newaxis]).sum(axis=1)
    assert (join_ring(run.shares, width) == want % (1 << width)).all()
    groups = -(-teachers // count_module.GROUP)
    assert run.rounds == 3
    assert run.payload == (
        packed_size(teachers * samples, c)
        + packed_size(groups * classes * samples, 4)
        + groups * classes * plane_bytes(samples)
    )
