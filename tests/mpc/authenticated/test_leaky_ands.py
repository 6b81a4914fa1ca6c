"""Leaky ANDs: right for honest servers; a wrong g is a guess at a bit of x, and any other lie is caught."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import CheatingError
from sedml.mpc.authenticated.authenticated_bits import Bits, bits_of
from sedml.mpc.authenticated.leaky import leaky_ands
from sedml.mpc.ot.extension import Extension
from support.lockstep import Played, both, play
from support.made import trusted_trees


def made(count: int, key: int = 1, deltas=None) -> tuple[list[Bits], list[np.ndarray]]:
    trees = trusted_trees(2 * key, 2 * key + 1, deltas)
    pair = both(*(Extension(trees[role], b"bits").extend(3 * count) for role in (0, 1)))
    return [bits_of(one)[: 3 * count].reshape(count, 3) for one in pair], [one.delta for one in pair]


def multiplied(count: int, first: int = 0, key: int = 1, **options) -> tuple[list[Bits], list[np.ndarray], Played]:
    parts, deltas = made(count, key)
    played = play(*(leaky_ands(role, deltas[role], parts[role], first) for role in (0, 1)), **options)
    return parts, deltas, played


@given(count=st.integers(1, 400), first=st.sampled_from([0, 1, 1 << 41]), key=st.integers(1, 9))
@settings(max_examples=15)
def test_z_is_x_times_y_and_all_three_are_authentic(count, first, key):
    parts, deltas, played = multiplied(count, first, key)
    x, y, z = (parts[0].bit ^ parts[1].bit).T
    assert (z == (x & y)).all()
    for i in (0, 1):
        whole = (parts[0].bit ^ parts[1].bit)[..., np.newaxis].astype(np.uint64)
        assert (parts[i].own ^ parts[1 - i].peer == whole * deltas[i]).all()
    assert played.results[0] == played.results[1]
    assert played.steps == ["leaky/g", "leaky/d", "leaky/commit", "leaky/open"]
    assert played.sizes == [8 * count, -(-count // 8), 32, 96]


def test_coins_are_both_servers():
    """Either alone changes them."""
    found = [multiplied(5, keys=keys)[2].results[0].key for keys in ((1, 2), (1, 3), (4, 2), (1, 2))]
    assert found[0] == found[3]
    assert len(set(found)) == 3


def test_another_tweak_is_another_g():
    said = [multiplied(5, first, keys=(1, 2))[2].sent(0, "leaky/g")[0] for first in (0, 1000)]
    assert not (said[0] == said[1]).any()


@pytest.mark.parametrize("liar", [0, 1])
@given(place=st.integers(0, 49), bit=st.integers(0, 63))
@settings(max_examples=12)
def test_a_wrong_g_is_caught_just_where_the_others_x_is_1(liar, place, bit):
    parts, _ = made(50)
    x = parts[1 - liar].bit[place, 0]

    def lie(mine, _theirs):
        mine[0][place] ^= np.uint64(1) << np.uint64(bit)

    after, _, played = multiplied(50, keys=(1, 2), liar=liar, lies={"leaky/g": lie})
    honest = played.results[1 - liar]
    assert isinstance(honest, CheatingError) == bool(x)
    # With the lowest bit d is changed too: a part of the guess, not another lie.
    if not x:
        whole = after[0].bit ^ after[1].bit
        assert (whole[:, 2] == whole[:, 0] & whole[:, 1]).all()


@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize("place", [0, 17, 49])
def test_a_wrong_d_is_caught(place, liar):
    def lie(mine, _theirs):
        mine[0][place // 8] ^= np.uint8(1 << place % 8)

    assert isinstance(multiplied(50, liar=liar, lies={"leaky/d": lie})[2].results[1 - liar], CheatingError)


@pytest.mark.parametrize("liar", [0, 1])
def test_the_second_to_speak_cannot_choose_its_digest_or_coins(liar):
    """It hears the other's before it opens its own: the commitment holds it."""

    def same_digest(mine, theirs):
        mine[0][:] = theirs[0]

    def guess(mine, _theirs):
        mine[0][:] ^= np.uint64(1 << 20)

    lies = {"leaky/g": guess, "leaky/open": same_digest}
    honest = multiplied(50, liar=liar, lies=lies)[2].results[1 - liar]
    assert isinstance(honest, CheatingError)
    assert "coins" in str(honest)


def test_a_commitment_is_its_owners():
    """Sent back, with all that it commits to, it is not taken for the other's."""

    def echo(mine, theirs):
        for one, other in zip(mine, theirs, strict=True):
            one[:] = other

    honest = multiplied(5, liar=1, lies={"leaky/commit": echo, "leaky/open": echo})[2].results[0]
    assert isinstance(honest, CheatingError)


@pytest.mark.parametrize("liar", [0, 1])
def test_a_delta_with_a_lowest_bit_of_0(liar):
    """S0's makes every second d wrong, and is caught; S1's lowest bit is not looked at here."""
    deltas = [trees.delta.copy() for trees in trusted_trees(2, 3)]
    deltas[liar][0] &= 0b1110
    parts, full = made(64, 1, deltas)
    played = play(*(leaky_ands(role, full[role], parts[role], 0) for role in (0, 1)), liar=liar)
    assert isinstance(played.results[1 - liar], CheatingError) == (liar == 0)
