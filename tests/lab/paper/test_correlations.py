"""One-use randomness: consistent at the two servers, different everywhere else, and handed out once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import CorrelationError, CorrelationReusedError
from sedml.lab.paper.correlations import Correlations, corrections_size, deal
from sedml.lab.paper.gadgets.and_ import Products
from sedml.lab.paper.gadgets.leaf_and import LeafAnd, LeafProduct
from sedml.lab.paper.gadgets.multiply import Triple
from sedml.lab.paper.gadgets.select import Duel
from sedml.lab.paper.gadgets.sign import SignTest
from sedml.lab.paper.lab_block import plan_block
from sedml.lab.paper.lab_task import LabTask
from sedml.mpc.bits import from_planes
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Ring
from support.harness import fixed_seed

SEEDS = fixed_seed(1), fixed_seed(2)
PLAN = {
    "and": Products(3, ((0, 1), (0, 1, 2)), (2, 13)),
    "leaf": LeafAnd((3, 13)),
    "leaf product": LeafProduct((2, 13), 11),
    "triple": Triple((2, 13), 11),
    "sign": SignTest(2, 13, 14),
    "duel": Duel(2, 13, 11, 5, value=True, secret_index=True),
}


def both(plan=PLAN, block=0, seeds=SEEDS):
    corrections = deal(plan, block, *seeds)
    return Correlations(plan, block, seeds[0], None), Correlations(plan, block, seeds[1], corrections)


def piece(name, plan=PLAN, block=0, seeds=SEEDS):
    return [side.take(name) for side in both(plan, block, seeds)]


@pytest.mark.parametrize("name", PLAN)
@pytest.mark.parametrize("role", [0, 1])
def test_a_second_take_of_the_same_piece_raises(name, role):
    side = both()[role]
    side.take(name)
    with pytest.raises(CorrelationReusedError, match="used before"):
        side.take(name)
    with pytest.raises(CorrelationReusedError):
        side.take(name)


@pytest.mark.parametrize("role", [0, 1])
def test_a_piece_that_was_not_dealt_is_an_error_of_its_own(role):
    with pytest.raises(CorrelationError, match="No correlation 'other'") as caught:
        both()[role].take("other")
    assert not isinstance(caught.value, CorrelationReusedError)


@pytest.mark.parametrize("change", [-1, 1, -100])
def test_corrections_of_another_size_are_refused_before_anything_is_used(change):
    corrections = deal(PLAN, 0, *SEEDS)
    wrong = np.resize(corrections, corrections.size + change)
    with pytest.raises(CorrelationError, match=f"{wrong.size} bytes, not {corrections.size}"):
        Correlations(PLAN, 0, SEEDS[1], wrong)
    with pytest.raises(CorrelationError):
        Correlations(PLAN, 0, SEEDS[1], np.empty(0, np.uint8))


def test_corrections_have_the_size_that_was_announced():
    assert deal(PLAN, 0, *SEEDS).size == corrections_size(PLAN)
    assert deal({}, 0, *SEEDS).size == corrections_size({}) == 0


def test_s0_needs_only_its_seed_and_the_corrections_go_to_s1_alone():
    side0, side1 = both()
    assert side0.corrections is None
    other0 = Correlations(PLAN, 0, SEEDS[0], None)
    for name in PLAN:
        mine, again, theirs = side0.take(name), other0.take(name), side1.take(name)
        assert all((mine[key] == again[key]).all() for key in mine)
        assert mine.keys() == theirs.keys()


def check_products(p0, p1):
    a = from_planes(p0["a"] ^ p1["a"], 13)
    dealt = from_planes(p0["products"] ^ p1["products"], 13)
    wanted = [np.bitwise_and.reduce(a[list(subset)], axis=0) for subset in ((0, 1), (0, 2), (1, 2), (0, 1, 2))]
    assert sorted(part.tobytes() for part in dealt) == sorted(part.tobytes() for part in wanted)


def check_leaf(p0, p1):
    assert (p0["ab"] ^ p1["ab"] == p0["own"] & p1["own"]).all()


def check_leaf_product(p0, p1):
    ring = Ring(11)
    assert (ring.reduce(p0["ab"] + p1["ab"]) == ring.reduce(p0["own"] * p1["own"])).all()


def check_triple(p0, p1):
    t1, t2, t3 = (p0[key] + p1[key] for key in ("t1", "t2", "t3"))
    assert (Ring(11).reduce(t1 * t2) == Ring(11).reduce(t3)).all()


def check_sign(p0, p1, width=14):
    r = Ring(width).reduce(p0["r"] + p1["r"]).astype(np.int64)
    assert (from_planes(p0["top"] ^ p1["top"], 13) == r >> width - 1).all()
    low = r & (1 << width - 1) - 1
    start = 0
    for k, size in enumerate([4, 4, 4, 1] if width == 14 else [4, 4, 2]):
        digit = low >> start & (1 << size) - 1
        assert ((p0[f"digit{k}"] ^ p1[f"digit{k}"]).astype(np.int64) == 1 << digit).all()
        start += size
    assert start == width - 1


def check_duel(p0, p1):
    check_sign(p0, p1, 11)
    rho = from_planes(p0["flip"] ^ p1["flip"], 13)
    r, u = Ring(11).reduce(p0["r"] + p1["r"]), Ring(5).reduce(p0["u"] + p1["u"])
    assert (Ring(11).reduce(p0["rho"] + p1["rho"]) == rho).all()
    assert (Ring(11).reduce(p0["rho_r"] + p1["rho_r"]) == rho * r).all()
    assert (Ring(5).reduce(p0["rho_u"] + p1["rho_u"]) == rho * u).all()


CHECKS = {
    "and": check_products,
    "leaf": check_leaf,
    "leaf product": check_leaf_product,
    "triple": check_triple,
    "sign": check_sign,
    "duel": check_duel,
}


@pytest.mark.parametrize("name", PLAN)
@given(block=st.integers(0, 2**32 - 1), key=st.integers(0, 2**32 - 1))
@settings(max_examples=8)
def test_the_two_servers_shares_stand_for_what_the_gadget_was_promised(name, block, key):
    CHECKS[name](*piece(name, block=block, seeds=(fixed_seed(2 * key), fixed_seed(2 * key + 1))))


@pytest.mark.parametrize("dealt", ["fused", "paper"])
def test_s1_alone_knows_nothing_its_corrections_are_uniform(dealt):
    # Under S1's own fixed seed, over many seeds of S0, every bit of the corrections is one half of the time.
    task = LabTask(5, 8, 3, 2, 1.0, 1.0, dealt=dealt)
    plan = plan_block(task, 8)
    dealt = np.stack([deal(plan, 0, fixed_seed(1000 + i), SEEDS[1]) for i in range(100)])
    ones = np.unpackbits(dealt, axis=1).sum(axis=0, dtype=np.int64)
    scores = (ones - 50) / 5
    assert np.abs(scores).max() < 5.5
    assert abs((scores**2).mean() - 1) < 0.15


def test_correlations_show_neither_seed_nor_corrections():
    plan = {"and": Products(2, ((0, 1),), (1, 64))}
    secret = b"recognisable-secret-bytes-here!!"
    corrections = np.frombuffer(b"WXYZWXYZ", np.uint8)
    side = Correlations(plan, 0, Seed(secret), corrections)
    side.take("and")
    shown = repr(side)
    assert "recognisable" not in shown
    assert secret.hex() not in shown
    assert "WXYZ" not in shown
    assert str(corrections[0]) not in shown
