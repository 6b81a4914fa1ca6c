"""Trees of seeds: the other side knows every leaf but one; an owner that cheats is caught unless it guessed right."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sedml.errors import CheatingError
from sedml.mpc.ot.base_ot import base_ots
from sedml.mpc.ot.trees import DEPTH, LEAVES, TREES
from sedml.mpc.prg import Seed, expand
from support.lockstep import first_coins, play
from support.made import KEYS, share_trees, shared_bases, shared_trees

KNOWN = json.loads(Path(__file__).with_name("known_answers.json").read_text())["trees"]
OWNERS = [0, 1]


def shared(owner: int | None = None, change=None):
    """Both servers share their trees; the owner of some may change its message."""
    lies = {"ot/trees": lambda mine, _theirs: change(mine)} if change else {}
    return play(*map(share_trees, shared_bases()), keys=KEYS, liar=owner, lies=lies)


def set_up(role: int):
    """Base transfers, then trees, both ways."""
    coins = Seed.random()
    base = yield from base_ots(role, coins)
    return (yield from share_trees(base, coins))


def facing_a_cheat(owner: int, change):
    """What the other server comes to when the owner of the trees changes its message."""
    return shared(owner, change).results[1 - owner]


def leaf(root: bytes, place: int) -> bytes:
    """The node at a place, from the root by the bits of the place, the highest first."""
    for level in reversed(range(DEPTH)):
        key = b"sedml tree right" if place >> level & 1 else b"sedml tree left."
        doubled = Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(root)
        root = bytes(a ^ b for a, b in zip(doubled, root, strict=True))
    return root


@pytest.mark.parametrize("owner", OWNERS)
def test_the_other_side_knows_all_leaves_but_that_at_its_own_place(owner):
    trees = shared_trees()
    own, theirs = trees[owner].own, trees[1 - owner]
    for tree in range(TREES):
        delta = int(theirs.delta[tree])
        assert 0 <= delta < LEAVES
        assert not theirs.known[tree, 0].any()
        for x in range(1, LEAVES):
            assert (theirs.known[tree, x] == own[tree, x ^ delta]).all()
        assert not (theirs.known == own[tree, delta]).all(axis=-1).any()


@pytest.mark.parametrize("owner", OWNERS)
def test_the_place_is_where_none_of_the_chosen_sides_is(owner):
    choices = shared_bases()[1 - owner].choices.reshape(TREES, DEPTH)
    want = ((1 - choices) << np.arange(DEPTH)[::-1]).sum(axis=1)
    assert (shared_trees()[1 - owner].delta == want).all()
    assert len(set(want.tolist())) > LEAVES // 2


@pytest.mark.parametrize("owner", OWNERS)
def test_the_leaves_grow_from_the_roots_in_order(owner):
    roots = expand(first_coins(KEYS[owner]), "ot/trees", 16 * TREES).tobytes()
    for tree in (0, 1, TREES - 1):
        for place in range(LEAVES):
            node = leaf(roots[16 * tree : 16 * (tree + 1)], place)
            seed = hashlib.blake2b(node, digest_size=48, person=b"sedml-ot-leaf").digest()[:16]
            assert shared_trees()[owner].own[tree, place].tobytes() == seed


def test_all_seeds_of_both_servers_differ():
    seeds = np.concatenate([trees.own.reshape(-1, 16) for trees in shared_trees()])
    assert len(np.unique(seeds, axis=0)) == 2 * TREES * LEAVES


def test_it_takes_one_round_of_six_kilobytes():
    played = shared()
    assert played.steps == ["ot/trees"]
    assert played.sizes == [4096 + 2048]


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("level", range(DEPTH))
def test_a_wrong_sum_is_caught_by_whoever_looked_at_it_and_by_nobody_else(level, side, owner):
    looked = shared_bases()[1 - owner].choices.reshape(TREES, DEPTH)[:, level] == side
    assert looked.any()
    assert not looked.all()

    def spoil(trees):
        def change(arrays):
            arrays[0][trees, level, side, 5] ^= 1

        return change

    for tree in np.flatnonzero(looked)[:3]:
        outcome = facing_a_cheat(owner, spoil([tree]))
        assert isinstance(outcome, CheatingError)
        assert "do not fit together" in str(outcome)
    # In all the other trees at once: a guess that was right costs nothing, and tells the owner where they looked.
    outcome = facing_a_cheat(owner, spoil(~looked))
    assert (outcome.known == shared_trees()[1 - owner].known).all()


def test_a_cheat_that_guesses_is_caught_about_half_of_the_time():
    looked = np.concatenate([base.choices for base in shared_bases()])
    assert abs(int(looked.sum()) - 128) < 5 * np.sqrt(256) / 2


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("tree", [0, 13, TREES - 1])
@pytest.mark.parametrize("part", [1, 2], ids=["sum of tags", "hash of tags"])
def test_a_wrong_tag_is_always_caught(part, tree, owner):
    def change(arrays):
        arrays[part][tree, 31] ^= 0x80

    assert isinstance(facing_a_cheat(owner, change), CheatingError)


@pytest.mark.parametrize("part", [0, 1, 2])
def test_trees_in_another_order_are_caught(part):
    def change(arrays):
        arrays[part][[0, 1]] = arrays[part][[1, 0]]

    assert isinstance(facing_a_cheat(0, change), CheatingError)


def test_the_cheat_itself_still_has_the_trees_of_the_honest_server():
    def change(arrays):
        arrays[2][0] ^= 1

    outcome = shared(1, change).results
    assert isinstance(outcome[0], CheatingError)
    assert (outcome[1].known == shared_trees()[1].known).all()


def test_a_sender_of_base_ots_that_names_another_point_is_caught_at_its_trees():
    def lie(mine, _theirs):
        mine[0][:] = mine[1][0, 0]  # one of the group, but not a G for the a that it uses

    played = play(set_up(0), set_up(1), keys=KEYS, liar=0, lies={"ot/base": lie})
    assert isinstance(played.results[1], CheatingError)


def test_set_up_is_base_ots_and_trees_in_two_rounds():
    played = play(set_up(0), set_up(1), keys=KEYS)
    trees = played.results
    assert played.steps == ["ot/base", "ot/trees"]
    for mine, theirs in (trees, trees[::-1]):
        order = np.arange(LEAVES) ^ theirs.delta[:, np.newaxis]
        assert (theirs.known[:, 1:] == np.take_along_axis(mine.own, order[..., np.newaxis], axis=1)[:, 1:]).all()


def test_neither_base_ots_nor_trees_show_their_secrets():
    for secret in (*shared_bases(), *shared_trees()):
        assert "array" not in repr(secret)


def test_known_answers():
    for trees, want in zip(shared_trees(), KNOWN, strict=True):
        assert trees.delta.tolist() == want["delta"]
        assert trees.own[0, 0].tobytes().hex() == want["first own"]
        assert hashlib.sha256(trees.own.tobytes()).hexdigest() == want["own"]
        assert hashlib.sha256(trees.known.tobytes()).hexdigest() == want["known"]
