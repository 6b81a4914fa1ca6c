"""One-use randomness: consistent at the two servers, different everywhere else, and handed out once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import CorrelationError, CorrelationReusedError
from sedml.lab.paper import three_phases
from sedml.lab.paper.correlations import corrections_size, deal
from sedml.lab.paper.gadgets.carry import Ands
from sedml.lab.paper.gadgets.leaf_and import LeafAnd, LeafProduct
from sedml.lab.paper.gadgets.multiply import Triple
from sedml.lab.paper.two_noise_task import Task
from sedml.mpc.ring import Ring
from support.harness import fixed_seed

SEEDS = fixed_seed(1), fixed_seed(2)
PLAN = {
    "and": Ands(2, (2, 13)),
    "leaf": LeafAnd((3, 13)),
    "leaf product": LeafProduct((2, 13), 11),
    "triple": Triple((2, 13), 11),
}


@pytest.mark.parametrize("name", PLAN)
@pytest.mark.parametrize("role", [0, 1])
def test_a_second_take_of_the_same_piece_raises(name, role):
    side = deal(PLAN, 0, SEEDS)[role]
    side.take(name)
    for _ in range(2):
        with pytest.raises(CorrelationReusedError, match="used before"):
            side.take(name)


@pytest.mark.parametrize("role", [0, 1])
def test_a_piece_that_was_not_dealt_is_an_error_of_its_own(role):
    with pytest.raises(CorrelationError, match="No randomness 'other'") as caught:
        deal(PLAN, 0, SEEDS)[role].take("other")
    assert not isinstance(caught.value, CorrelationReusedError)


def test_s0_needs_only_its_seed_and_s1_besides_its_own_only_the_corrections():
    one, other = deal(PLAN, 0, SEEDS), deal(PLAN, 0, (SEEDS[0], fixed_seed(3)))
    for name, correlation in PLAN.items():
        mine, again, theirs = one[0].take(name), other[0].take(name), one[1].take(name)
        assert all((mine[key] == again[key]).all() for key in mine)
        assert mine.keys() == theirs.keys() == correlation.masks.keys() | correlation.derived.keys()
    assert corrections_size(PLAN) == 2 * 2 * 2 + 3 * 2 + 2 * -(-2 * 13 * 11 // 8)
    assert corrections_size({}) == 0


def check_ands(p0, p1):
    assert (p0["ab"] ^ p1["ab"] == (p0["a"] ^ p1["a"]) & (p0["b"] ^ p1["b"])).all()


def check_leaf(p0, p1):
    assert (p0["ab"] ^ p1["ab"] == p0["own"] & p1["own"]).all()


def check_leaf_product(p0, p1):
    ring = Ring(11)
    assert (ring.reduce(p0["ab"] + p1["ab"]) == ring.reduce(p0["own"] * p1["own"])).all()


def check_triple(p0, p1):
    t1, t2, t3 = (p0[key] + p1[key] for key in ("t1", "t2", "t3"))
    assert (Ring(11).reduce(t1 * t2) == Ring(11).reduce(t3)).all()


CHECKS = {"and": check_ands, "leaf": check_leaf, "leaf product": check_leaf_product, "triple": check_triple}


@pytest.mark.parametrize("name", PLAN)
@given(block=st.integers(0, 2**32 - 1), key=st.integers(0, 2**32 - 1))
@settings(max_examples=8)
def test_the_two_servers_shares_stand_for_what_the_gadget_was_promised(name, block, key):
    CHECKS[name](*(side.take(name) for side in deal(PLAN, block, (fixed_seed(2 * key), fixed_seed(2 * key + 1)))))


def test_s1_alone_knows_nothing_its_corrections_are_uniform():
    # Under S1's own fixed seed, over many seeds of S0, every bit of the corrections is one half of the time.
    plan = three_phases.plan(Task(5, 8, 3, 2, 1.0, 1.0), 8)

    def corrections(key: int) -> np.ndarray:
        side = deal(plan, 0, (fixed_seed(key), SEEDS[1]))[1]
        parts = [
            layout.to_wire(side.take(name)[key])
            for name, correlation in plan.items()
            for key, layout in correlation.derived.items()
        ]
        return np.concatenate(parts)

    dealt = np.stack([corrections(1000 + i) for i in range(100)])
    assert dealt.shape[1] == corrections_size(plan)
    ones = np.unpackbits(dealt, axis=1).sum(axis=0, dtype=np.int64)
    scores = (ones - 50) / 5
    assert np.abs(scores).max() < 5.5
    assert abs((scores**2).mean() - 1) < 0.15


def test_what_was_dealt_is_not_shown():
    side = deal(PLAN, 0, SEEDS)[0]
    assert repr(side) == "DealtRandomness(block=0)"
