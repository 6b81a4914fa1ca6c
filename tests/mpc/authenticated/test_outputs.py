"""Outputs for a third party: bits under a second Delta, and the proof that they are what they are said to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import CheatingError
from sedml.mpc.authenticated.authenticated_bits import Bits
from sedml.mpc.authenticated.outputs import (
    BLINDS,
    PADDING,
    Second,
    Sums,
    check_sums,
    mac_digest,
    prove_sums,
    second_bits,
)
from sedml.mpc.ot.extension import Extension
from sedml.mpc.ot.fresh_deltas import BASE
from support.authentic import dealt_bits, deltas_of
from support.harness import numbers
from support.lockstep import both, play
from support.made import trusted_trees


def bases(key: int = 1, label: bytes = b"base"):
    trees = trusted_trees(2 * key, 2 * key + 1)
    return both(*(Extension(trees[role], label).extend(BASE) for role in (0, 1)))


def assert_second(pair: list[Second]) -> None:
    for mine, theirs in (pair, pair[::-1]):
        assert (mine.mac == theirs.key ^ mine.bit * theirs.delta).all()


@pytest.mark.parametrize("count", [1, 200, 5000])
def test_bits_under_the_second_delta_have_macs(count):
    played = play(*(second_bits(base, count) for base in bases()))
    assert_second(played.results)
    assert played.steps == ["ot/extend"]
    assert {part.size for one in played.results for part in (one.bit, one.mac, one.key)} == {count}
    assert "array" not in repr(played.results[0])


def test_the_second_delta_has_nothing_to_do_with_the_first_and_is_new_for_every_block():
    """Its base transfers are fresh choices."""
    found = [both(*(second_bits(base, 5) for base in bases(1, label))) for label in (b"one", b"two")]
    deltas = {int(one.delta) for pair in found for one in pair}
    assert len(deltas) == 4
    assert not deltas & {int(base.delta[0]) for base in bases()}


def test_parts_of_them():
    one = both(*(second_bits(base, 10) for base in bases()))[0]
    assert one[2:5].bit.tolist() == one.bit[2:5].tolist()
    rest = one.without(slice(2, 5))
    assert rest.key.tolist() == one.key[:2].tolist() + one.key[5:].tolist()
    assert rest.delta == one.delta


def proofs(outputs: int, key: int, **lies):
    """S1 proves its sigma to S0; lies change its sigma, what it proves, or what S0 was sent."""
    rng = numbers(key)
    deltas = deltas_of(rng)
    n = outputs + BLINDS
    masks = dealt_bits(rng, rng.integers(0, 2, n).astype(np.uint8), deltas)
    u = rng.integers(0, 2, (2, n)).astype(np.uint8)
    keys, seconds = rng.integers(0, 2**64, (2, n), np.uint64), rng.integers(0, 2**64, 2, np.uint64)
    second = [Second(u[i], keys[1 - i] ^ u[i] * seconds[1 - i], keys[i], seconds[i]) for i in (0, 1)]
    about = [Sums(masks[i], second[i], deltas[i][0]) for i in (0, 1)]
    sigma = u[1] ^ masks[1].bit
    for place in lies.get("sigma", ()):
        sigma[place] ^= 1
    said = prove_sums(about[1], bytes([key % 251]) * 16)
    if "sums" in lies:
        said[0][lies["sums"]] ^= 1
    if "digest" in lies:
        said[1] = said[1] ^ np.uint8(1)
    if "masks" in lies:  # it proves sums of other masks
        other = masks[1].bit.copy()
        other[lies["masks"]] ^= 1
        said = prove_sums(
            Sums(Bits(other, masks[1].own, masks[1].peer), second[1], deltas[1][0]), bytes([key % 251]) * 16
        )
    check_sums(about[0], bytes([key % 251]) * 16, sigma, *said)


@given(outputs=st.integers(1, 60), key=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_a_right_sigma_is_proven(outputs, key):
    proofs(outputs, key)


@given(outputs=st.integers(1, 60), key=st.integers(0, 2**32 - 1), data=st.data())
@settings(max_examples=25)
def test_any_wrong_sigma_is_noticed(outputs, key, data):
    """128 sets, each of which has a wrong one with a chance of a half; and blinds are in one set each."""
    places = data.draw(st.sets(st.integers(0, outputs + BLINDS - 1), min_size=1, max_size=8))
    with pytest.raises(CheatingError, match="masks of outputs"):
        proofs(outputs, key, sigma=places)


@pytest.mark.parametrize("lie", [{"sums": 0}, {"sums": 15}, {"digest": True}, {"masks": 0}, {"masks": -1}])
def test_a_wrong_proof_is_noticed(lie):
    with pytest.raises(CheatingError):
        proofs(8, 5, **lie)


def test_what_is_shown_is_hidden_by_blinds():
    """Each sum has a blind of its own, so the sums tell nothing of the masks: all 128 are independent of them."""
    rng = numbers(1)
    shown = []
    for _ in range(40):
        masks = dealt_bits(rng, np.zeros(4 + BLINDS, np.uint8), deltas_of(rng))[0]
        masks.bit[:4] = 0  # the same masks every time
        second = Second(masks.bit, masks.own[:, 0], masks.own[:, 0], np.uint64(1))
        packed, _ = prove_sums(Sums(masks, second, np.uint64(1)), bytes(16))
        shown.append(np.unpackbits(packed, bitorder="little"))
        assert (shown[-1] == masks.bit[4:]).all()  # nothing but blinds, where masks are 0
    assert abs(np.mean(shown) - 0.5) < 0.05


def test_sizes_that_the_argument_rests_on():
    assert (BASE, BLINDS, PADDING) == (128, 128, 64)
    assert mac_digest("share", np.zeros(3, np.uint64)).shape == (32,)
