"""Base transfers of many extensions from one set-up: each fits, each has a Delta of its own, and lies are caught."""

from __future__ import annotations

import numpy as np
import pytest

from sedml.errors import CheatingError
from sedml.mpc.ot import fresh_deltas
from sedml.mpc.ot.extension import begin_extension
from sedml.mpc.ot.fresh_deltas import BASE, bases
from sedml.mpc.ot.trees import BaseOts
from support.harness import fixed_seed
from support.lockstep import both, play
from support.open_base_ots import open_base_ots

KEYS = (31, 32)


@pytest.fixture(autouse=True)
def without_public_keys(monkeypatch):
    monkeypatch.setattr(fresh_deltas, "base_ots", lambda role: open_base_ots(role, fixed_seed(900 + role)))


def made(count: int, **options) -> list[list[BaseOts]]:
    return both(bases(0, count), bases(1, count), keys=KEYS, **options)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_each_is_a_set_of_base_transfers_with_a_lowest_bit_of_delta_of_1(count):
    pair = made(count)
    for sender, receiver in (pair, pair[::-1]):
        assert len(sender) == count
        for mine, theirs in zip(sender, receiver, strict=True):
            every = np.arange(BASE)
            assert (mine.sent[every, theirs.choices] == theirs.received).all()
            assert not (mine.sent[every, 1 - theirs.choices] == theirs.received).all(axis=1).any()
            assert theirs.choices[3] == 0


def test_no_two_have_a_key_or_a_delta_in_common():
    pair = made(6)
    for side in pair:
        keys = np.concatenate([base.sent.reshape(-1, 16) for base in side])
        assert len(np.unique(keys, axis=0)) == len(keys)
        choices = np.stack([base.choices for base in side])
        apart = (choices[:, np.newaxis] != choices).sum(axis=2)[np.triu_indices(6, 1)]
        assert (abs(apart - 63.5) < 6 * np.sqrt(128) / 2).all()


def test_what_is_told_of_the_lowest_bit_is_a_coin():
    """The transfer's own choice, which says nothing of Delta: its lowest bit is 1 in any case."""
    played = play(bases(0, 200), bases(1, 200), keys=KEYS)
    for role in (0, 1):
        flips = played.sent(role, "ot/renewal")[-1]
        assert abs(int(flips.sum()) - 100) < 6 * np.sqrt(200) / 2
    assert played.steps == ["ot/base", "ot/renewal"]


def test_an_extension_of_each_has_another_delta():
    pair = made(3)
    found = [both(*(begin_extension(side[i], b"block", 200) for side in pair)) for i in range(3)]
    for role in (0, 1):
        assert len({one[role].delta.tobytes() for one in found}) == 3
    for s0, s1 in found:
        assert (s0.sent == s1.received ^ s1.choices[:, np.newaxis] * s0.delta).all()
        assert (s1.sent == s0.received ^ s0.choices[:, np.newaxis] * s1.delta).all()
        assert int(s0.delta[0]) & int(s1.delta[0]) & 1


@pytest.mark.parametrize("liar", [0, 1])
@pytest.mark.parametrize("array", range(5))
def test_a_lie_is_caught(array, liar):
    def lie(mine, _theirs):
        mine[array].reshape(-1)[:40] ^= mine[array].dtype.type(1)

    played = play(bases(0, 2), bases(1, 2), keys=KEYS, liar=liar, lies={"ot/renewal": lie})
    assert isinstance(played.results[1 - liar], CheatingError)


@pytest.mark.parametrize("liar", [0, 1])
def test_whoever_lies_about_its_lowest_choice_lacks_a_key(liar):
    """Its extension then does not fit, unless it takes the other Delta: which is caught later (test_lying_server)."""

    def lie(mine, _theirs):
        mine[-1][0] ^= 1

    pair = play(bases(0, 1), bases(1, 1), keys=KEYS, liar=liar, lies={"ot/renewal": lie}).results
    played = play(*(begin_extension(side[0], b"block", 200) for side in pair), liar=liar)
    assert isinstance(played.results[1 - liar], CheatingError) or not np.array_equal(
        played.results[1 - liar].received
        ^ played.results[1 - liar].choices[:, np.newaxis] * played.results[liar].delta,
        played.results[liar].sent,
    )
