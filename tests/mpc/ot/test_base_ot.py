"""Base OTs: both ends agree on what was chosen and on nothing else, and a point that is none is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from nacl import bindings as sodium

from sedml.errors import CheatingError
from sedml.mpc.ot import base_ot
from sedml.mpc.ot.base_ot import COUNT, base_ots
from sedml.mpc.prg import expand
from support.lockstep import Played, both, first_coins, play
from support.made import KEYS, share_trees, shared_bases

KNOWN = json.loads(Path(__file__).with_name("known_answers.json").read_text())["base"]
GENERATOR = sodium.crypto_scalarmult_ed25519_base_noclamp(b"\1" + bytes(31))
PRIME = 2**255 - 19


def encoded(y: int, sign: int = 0) -> bytes:
    return (y | sign << 255).to_bytes(32, "little")


def on_curve(point: bytes) -> bool:
    try:
        sodium.crypto_core_ed25519_add(point, GENERATOR)
    except RuntimeError:
        return False
    return True


ORDER_8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
BAD_POINTS = {
    "not on the curve": encoded(next(y for y in range(2, 19) if not on_curve(encoded(y)))),
    "identity": encoded(1),
    "identity with a sign": encoded(1, 1),
    "order 2": encoded(PRIME - 1),
    "order 4": encoded(0),
    "order 8": ORDER_8,
    "order 8 times the prime": sodium.crypto_core_ed25519_add(GENERATOR, ORDER_8),
    "zero, not canonical": encoded(PRIME),
    "identity, not canonical": encoded(PRIME + 1),
    # The nearest there is to a good point that is not canonical: none of the 19 such y is one of the group.
    "on the curve, not canonical": encoded(PRIME + next(y for y in range(2, 19) if on_curve(encoded(y)))),
    "all ones": b"\xff" * 32,
}


@pytest.mark.parametrize("sender", [0, 1])
def test_the_receiver_has_the_key_of_its_choice_and_not_the_other(sender):
    bases = shared_bases()
    sent, theirs = bases[sender].sent, bases[1 - sender]
    every = np.arange(COUNT)
    assert COUNT == 128
    assert (theirs.received == sent[every, theirs.choices]).all()
    other = sent[every, 1 - theirs.choices]
    assert not (theirs.received[:, np.newaxis] == other).all(axis=-1).any()


def test_all_keys_of_both_directions_differ():
    keys = np.concatenate([base.sent.reshape(-1, 16) for base in shared_bases()])
    assert len(np.unique(keys, axis=0)) == 4 * COUNT


def test_choices_and_keys_look_like_coins():
    for base in shared_bases():
        assert set(base.choices) == {0, 1}
        assert abs(int(base.choices.sum()) - 64) < 5 * np.sqrt(128) / 2
        for keys in (base.sent, base.received):
            bits = np.unpackbits(keys)
            assert abs(int(bits.sum()) - bits.size / 2) < 5 * np.sqrt(bits.size) / 2
    s0, s1 = shared_bases()
    assert (s0.choices != s1.choices).any()


@pytest.mark.parametrize("key", range(11, 15))
def test_the_lowest_bit_of_delta_is_one_whatever_is_drawn(key):
    # A label of a garbled circuit and the same ^ Delta have different colours.
    bases = both(base_ots(0), base_ots(1), keys=(key, key + 100))
    for trees in both(*map(share_trees, bases)):
        assert trees.delta[0] & 1 == 1


def test_it_takes_one_round_of_a_point_and_two_for_each_transfer(played):
    assert played.steps == ["ot/base"]
    assert played.sizes == [32 + COUNT * 2 * 32]


def test_whatever_is_chosen_two_different_points_of_the_group_are_sent(played):
    points = [part.tobytes() for array in played.sent(0, "ot/base") for part in array.reshape(-1, 32)]
    assert len(set(points)) == 1 + 2 * COUNT
    assert all(sodium.crypto_core_ed25519_is_valid_point(point) for point in points)


def test_other_coins_give_other_keys_and_choices():
    again = both(base_ots(0), base_ots(1), keys=(11, 99))
    before = shared_bases()
    assert (again[0].choices == before[0].choices).all()
    assert (again[1].choices != before[1].choices).any()
    assert not (again[0].sent == before[0].sent).all(axis=-1).any()
    assert not (again[0].received == before[0].received).all(axis=-1).any()


def facing(arrays: list[np.ndarray]):
    """What S0 comes to when S1 sends these."""

    def lie(mine, _theirs):
        for array, other in zip(mine, arrays, strict=True):
            array[...] = other

    return play(base_ots(0), base_ots(1), keys=KEYS, liar=1, lies={"ot/base": lie}).results[0]


@pytest.fixture(scope="module")
def played() -> Played:
    """A run that was recorded."""
    return play(base_ots(0), base_ots(1), keys=KEYS)


@pytest.fixture
def honest(played) -> list[np.ndarray]:
    """What S1 sends if it does as it should: its A and the pairs of points."""
    return [array.copy() for array in played.sent(1, "ot/base")]


@pytest.mark.parametrize("sender", [True, False], ids=["of the sender", "of the receiver"])
@pytest.mark.parametrize("kind", BAD_POINTS)
def test_a_point_that_is_not_one_of_the_group_is_refused(kind, sender, honest):
    place = honest[0] if sender else honest[1][17, list(BAD_POINTS).index(kind) % 2]
    place[:] = np.frombuffer(BAD_POINTS[kind], np.uint8)
    outcome = facing(honest)
    assert isinstance(outcome, CheatingError)
    assert "not one of the group" in str(outcome)


def test_a_receiver_whose_points_cancel_to_nothing_is_refused(honest):
    # R_0 = -H(R_1): the sender's key would be a multiple of the neutral element, which anybody knows.
    hashed = base_ot._hash_to_point(bytes([0, 3, 0]), honest[1][3, 1].tobytes())
    neutral = sodium.crypto_core_ed25519_sub(GENERATOR, GENERATOR)
    honest[1][3, 0] = np.frombuffer(sodium.crypto_core_ed25519_sub(neutral, hashed), np.uint8)
    assert isinstance(facing(honest), CheatingError)


def test_the_same_without_a_fault_is_accepted(honest):
    assert (facing(honest).sent == shared_bases()[0].sent).all()


def test_the_two_directions_do_not_share_their_hashes():
    # Otherwise a server could send the other's own messages back and have the same keys.
    names = [(sender, i, j) for sender in (0, 1) for i in (0, 1, 127) for j in (0, 1)]
    assert len({base_ot._hash_to_point(bytes(name), GENERATOR) for name in names}) == len(names)
    assert len({base_ot._key(bytes(name), GENERATOR, GENERATOR) for name in names}) == len(names)
    points = [base_ot._hash_to_point(bytes(name), GENERATOR) for name in names]
    assert all(sodium.crypto_core_ed25519_is_valid_point(point) for point in points)


def test_a_server_that_sends_everything_back_gains_no_key(played):
    honest = facing(played.sent(0, "ot/base"))
    assert (honest.received != honest.sent[np.arange(COUNT), honest.choices]).any(axis=-1).all()


def test_the_keys_are_those_that_the_docstring_says(played):
    # Worked out again from S1's coins.
    bases = shared_bases()
    drawn, (own_a, own) = first_coins(12), played.sent(1, "ot/base")
    scalars = expand(drawn, "ot/base/scalars", 64 * (1 + 2 * COUNT)).reshape(-1, 64)
    a, *t = (sodium.crypto_core_ed25519_scalar_reduce(row.tobytes()) for row in scalars)
    choices = expand(drawn, "ot/base/choices", COUNT) & 1
    choices[3] = 0  # the last level of the first tree: the lowest bit of Delta is 1
    assert own_a.tobytes() == sodium.crypto_scalarmult_ed25519_base_noclamp(a)
    assert (choices == bases[1].choices).all()
    their_a = played.sent(0, "ot/base")[0].tobytes()
    for i in (0, 1, 77, 127):
        b = int(choices[i])
        hashed = base_ot._hash_to_point(bytes([0, i, b]), own[i, 1 - b].tobytes())
        whole = sodium.crypto_core_ed25519_add(own[i, b].tobytes(), hashed)
        assert whole == sodium.crypto_scalarmult_ed25519_base_noclamp(t[i])
        shared = sodium.crypto_scalarmult_ed25519_noclamp(t[i], their_a)
        key = hashlib.blake2b(bytes([0, i, b]) + their_a + shared, digest_size=16, person=b"sedml-baseot-k").digest()
        assert bases[1].received[i].tobytes() == key


def test_known_answers(played):
    bases = shared_bases()
    for role in (0, 1):
        want = KNOWN[role]
        assert np.packbits(bases[role].choices).tobytes().hex() == want["choices"]
        assert bases[role].sent[0].tobytes().hex() == want["first sent"]
        assert bases[role].received[-1].tobytes().hex() == want["last received"]
        message = b"".join(array.tobytes() for array in played.sent(role, "ot/base"))
        assert hashlib.sha256(message).hexdigest() == want["message"]
        assert hashlib.sha256(bases[role].sent.tobytes()).hexdigest() == want["all sent"]
