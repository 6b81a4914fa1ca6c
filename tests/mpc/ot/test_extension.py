"""Transfers without end from trees of seeds: what both ends have, what they send, and who is caught at cheating."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import CheatingError
from sedml.mpc.ot import extension as extension_module
from sedml.mpc.ot.extension import SPENT, Extension, ghash_tags
from sedml.mpc.ot.hashing import hash_rows
from sedml.mpc.ot.trees import DEPTH, LEAVES, TREES
from support.harness import numbers
from support.lockstep import both, play
from support.made import extensions, shared_trees, trusted_trees

KNOWN = json.loads(Path(__file__).with_name("known_answers.json").read_text())["extension"]
COUNTS = [1, 127, 128, 129, 5000]
NOWHERE_ZERO = [np.arange(TREES, dtype=np.uint8) % (LEAVES - 1) + 1] * 2
"""Places of which every tree has some bit set: an error at place 0 would touch nothing."""


def extended(count: int, ends: tuple[Extension, Extension] | None = None):
    """So many transfers at both servers."""
    return both(*(end.extend(count) for end in ends or extensions()))


def lied_to(role: int, change, count: int = 1, ends: tuple[Extension, Extension] | None = None):
    """What both servers come to if one changes what it sends."""
    lies = {"ot/extend": lambda mine, _theirs: change(mine)}
    return play(*(end.extend(count) for end in ends or extensions()), liar=role, lies=lies).results


def assert_transfers(s0, s1):
    """Of each direction: w = v ^ u Delta in every row, and the receiver has the key of its choice and not the other."""
    for sender, receiver in ((s0, s1), (s1, s0)):
        assert sender.first == receiver.first
        assert (sender.sent == receiver.received ^ receiver.choices[:, np.newaxis] * sender.delta).all()
        keys = [hash_rows(rows, sender.first) for rows in (sender.sent, sender.sent ^ sender.delta)]
        chosen = hash_rows(receiver.received, receiver.first)
        assert (chosen == np.where(receiver.choices[:, np.newaxis], keys[1], keys[0])).all()
        assert (keys[0] != keys[1]).any(axis=1).all()
        assert not (chosen == np.where(receiver.choices[:, np.newaxis], keys[0], keys[1])).all(axis=1).any()


@pytest.mark.parametrize("count", COUNTS)
def test_every_row_is_a_transfer(count):
    s0, s1 = extended(count)
    assert len(s0.sent) == len(s1.choices) == -(-count // 128) * 128
    assert s0.first == 0
    assert_transfers(s0, s1)


@given(count=st.integers(1, 1500), key=st.integers(0, 2**32 - 1))
@settings(max_examples=8)
def test_every_row_is_a_transfer_whatever_the_seeds(count, key):
    assert_transfers(*extended(count, extensions(str(key).encode(), trusted_trees(key, key + 1))))


@pytest.mark.parametrize("count", [1, 5000, 70_000])  # the last takes more than one chunk of the streams
def test_rows_and_choices_are_the_sums_of_leaves_that_the_docstring_says(count):
    s0, s1 = extended(count, extensions(b"by hand"))
    size = (len(s0.choices) + SPENT) // 8
    start = hashlib.blake2b(b"by hand", digest_size=16, person=b"sedml-ot-stream").digest()
    first, last = 0, TREES - 1

    def stretched(tree, leaf):
        seed = shared_trees()[0].own[tree, leaf].tobytes()
        stream = Cipher(algorithms.AES(seed), modes.CTR(start)).encryptor().update(bytes(size))
        return np.unpackbits(np.frombuffer(stream, np.uint8), bitorder="little")[: len(s0.choices)]

    columns = np.unpackbits(s0.received.view(np.uint8), axis=1, bitorder="little")
    for tree in (first, last):
        leaves = [stretched(tree, x) for x in range(LEAVES)]
        if tree == first:
            assert (s0.choices == np.bitwise_xor.reduce(leaves)).all()
        for bit in range(DEPTH):
            want = np.bitwise_xor.reduce([leaves[x] for x in range(LEAVES) if x >> bit & 1])
            assert (columns[:, DEPTH * tree + bit] == want).all()
    delta = np.unpackbits(s1.delta.view(np.uint8), bitorder="little").reshape(TREES, DEPTH)
    assert ((delta << np.arange(DEPTH)).sum(axis=1) == shared_trees()[1].delta).all()


@pytest.mark.parametrize("count", COUNTS)
def test_a_batch_takes_one_round_of_31_corrections_and_48_bytes(count):
    played = play(*(end.extend(count) for end in extensions()))
    n = -(-count // 128) * 128
    assert played.steps == ["ot/extend"]
    assert played.sizes == [31 * (n + 128) // 8 + 16 + 32]


def test_batches_go_on_where_the_last_one_ended_and_repeat_nothing():
    ends = extensions()
    batches = [extended(count, ends) for count in (5, 300, 128, 1)]
    for s0, s1 in batches:
        assert_transfers(s0, s1)
    for end in (0, 1):
        numbers_ = [range(batch[end].first, batch[end].first + len(batch[end].choices)) for batch in batches]
        assert [(part.start, part.stop) for part in numbers_] == [(0, 128), (128, 512), (512, 640), (640, 768)]
        rows = np.concatenate([rows for batch in batches for rows in (batch[end].received, batch[end].sent)])
        assert len(np.unique(rows, axis=0)) == 2 * 768
        keys = [hash_rows(batch[end].received, batch[end].first) for batch in batches]
        assert len(np.unique(np.concatenate(keys), axis=0)) == 768


def test_what_the_check_spends_is_never_handed_out():
    # The last 128 rows hide L(u), so the next batch must begin behind them.
    ends, other = extensions(b"same"), extensions(b"same")
    first, second = extended(128, ends), extended(128, ends)
    longer = extended(128 + SPENT + 128, other)
    assert (longer[0].received[:128] == first[0].received).all()
    assert (longer[0].received[128 + SPENT :] == second[0].received).all()


def test_choices_and_rows_look_like_coins():
    for end in extended(1 << 14):
        n = len(end.choices)
        assert set(np.unique(end.choices)) == {0, 1}
        assert abs(int(end.choices.sum()) - n / 2) < 5 * np.sqrt(n) / 2
        for rows in (end.received, end.sent):
            columns = np.unpackbits(rows.view(np.uint8), axis=1)
            assert (abs(columns.sum(axis=0, dtype=np.int64) - n / 2) < 6 * np.sqrt(n) / 2).all()
            # Nor does a column agree with the choice bits, as it would where the other's Delta were all ones.
            assert (abs((columns ^ end.choices[:, np.newaxis]).sum(axis=0) - n / 2) < 6 * np.sqrt(n) / 2).all()


def test_a_part_keeps_the_numbers_of_its_transfers():
    s0, s1 = extended(300)
    parts = s0.part(100, 50), s1.part(100, 50)
    assert parts[0].first == 100
    assert len(parts[0].choices) == len(parts[1].sent) == 50
    assert_transfers(*parts)
    assert parts[0].part(7, 3).first == 107
    assert (hash_rows(parts[0].sent, parts[0].first) == hash_rows(s0.sent, 0)[100:150]).all()


def test_neither_transfers_nor_an_extension_show_their_secrets():
    assert "array" not in repr(extended(1)[0])
    assert "array" not in repr(extensions()[0])


# Batches of one message


def test_many_transfers_are_checked_in_batches_of_one_message(monkeypatch):
    monkeypatch.setattr(extension_module, "_BATCH", 256)
    played = play(*(end.extend(700) for end in extensions()))
    s0, s1 = played.results
    assert len(s0.choices) == 768
    assert_transfers(s0, s1)
    assert len(np.unique(s0.received, axis=0)) == 768
    assert played.steps == ["ot/extend"]
    assert played.sizes == [31 * (768 + 3 * 128) // 8 + 3 * 48]
    for batch in range(3):

        def change(arrays, batch=batch):
            arrays[batch][7] ^= np.uint64(1)

        assert isinstance(lied_to(0, change, 700)[1], CheatingError)


def test_batches_cannot_be_swapped(monkeypatch):
    monkeypatch.setattr(extension_module, "_BATCH", 128)

    def change(arrays):
        arrays[0][:], arrays[1][:] = arrays[1].copy(), arrays[0].copy()
        arrays[2][:] = arrays[2][::-1].copy()

    assert isinstance(lied_to(0, change, 256)[1], CheatingError)


def test_the_first_number_is_that_of_the_extension():
    trees = trusted_trees(1, 2)
    ends = tuple(Extension(one, b"label", 1 << 40) for one in trees)
    assert [extended(100, ends)[0].first, extended(100, ends)[0].first] == [1 << 40, (1 << 40) + 128]


# A label


def test_another_label_gives_other_rows_and_another_challenge():
    ends = [extensions(label)[0] for label in (b"one", b"two")]
    corrections = np.zeros((TREES - 1, 4), np.uint64)
    assert len({end._challenge(0, 0, corrections) for end in ends}) == 2
    rows = [extended(1, extensions(label))[0].received for label in (b"one", b"two")]
    assert len(np.unique(np.concatenate(rows), axis=0)) == 256


# The check


def test_the_challenge_follows_from_every_bit_of_the_corrections_from_the_batch_and_from_the_trees():
    ends = extensions()
    corrections = np.zeros((TREES - 1, 4), np.uint64)
    seen = {ends[0]._challenge(0, 0, corrections), ends[0]._challenge(0, 128, corrections)}
    for tree in range(TREES - 1):
        for word, bit in ((0, 0), (3, 63)):
            changed = corrections.copy()
            changed[tree, word] ^= np.uint64(1) << np.uint64(bit)
            seen.add(ends[0]._challenge(0, 0, changed))
    seen.add(ends[0]._challenge(1, 0, corrections))  # the other's trees
    assert len(seen) == 2 * (TREES - 1) + 3
    assert ends[0]._challenge(0, 0, corrections) == ends[1]._challenge(1, 0, corrections)


def multiply(x: int, y: int) -> int:
    """In GF(2^128) as NIST SP 800-38D writes it, section 6.3; the first bit is the highest."""
    z = 0
    for i in reversed(range(128)):
        if x >> i & 1:
            z ^= y
        y = y >> 1 ^ (0xE1 << 120 if y & 1 else 0)
    return z


def ghash(key: bytes, column: np.ndarray) -> int:
    """sum_i x_i h^(m - i + 1), times h for the block of lengths that follows."""
    h = int.from_bytes(Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(bytes(16)), "big")
    total, content = 0, column.tobytes()
    for start in range(0, len(content), 16):
        total = multiply(total ^ int.from_bytes(content[start : start + 16], "big"), h)
    return multiply(total, h)


@given(blocks=st.integers(1, 9), key=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_tags_are_a_polynomial_of_the_column_and_a_constant(blocks, key):
    rng = numbers(key)
    challenge, columns = rng.bytes(16), rng.integers(0, 2**64, (3, 2 * blocks), np.uint64)
    tags = ghash_tags(challenge, np.concatenate([columns, np.zeros((1, 2 * blocks), np.uint64)]))
    for column, tag in zip(columns, tags, strict=False):
        assert int.from_bytes((tag ^ tags[-1]).tobytes(), "big") == ghash(challenge, column)


def test_what_is_spent_hides_all_of_what_the_check_sends():
    # From the last 128 bits of a column to its tag is one to one: uniform bits there make L(u) uniform.
    units = np.zeros((129, 6), np.uint64)
    units[:64, 4] = units[64:128, 5] = np.uint64(1) << np.arange(64, dtype=np.uint64)
    tags = ghash_tags(bytes(range(16)), units)
    basis: list[int] = []
    for tag in tags[:-1] ^ tags[-1]:
        value = int.from_bytes(tag.tobytes(), "big")
        for other in basis:
            value = min(value, value ^ other)
        assert value
        basis.append(value)


def facing(arrays_of, count: int = 200, *, deltas=NOWHERE_ZERO):
    """What S1 comes to when S0 sends what `arrays_of` makes of its own end."""
    ends = extensions(b"cheat", trusted_trees(31, 32, deltas))
    forged_arrays = arrays_of(extensions(b"cheat", trusted_trees(31, 32, deltas))[0], count)

    def change(arrays):
        for array, other in zip(arrays, forged_arrays, strict=True):
            array[...] = other

    return lied_to(0, change, count, ends)[1]


def forged(errors: dict[int, np.ndarray], guess: np.ndarray):
    """The message of a cheat: wrong corrections in some trees, and a proof that fits if Delta is as it guessed there.

    The first tree has no correction: an error there is the same one in all others.
    """

    def arrays_of(end: Extension, count: int):
        m = (-(-count // 128) * 128 + SPENT) // 64
        v = np.empty((TREES, DEPTH, m), np.uint64)
        corrections, u = extension_module._own_columns(end._opened(0), v)
        if 0 in errors:
            u ^= errors[0]
            corrections ^= errors[0]
        for tree in errors.keys() - {0}:
            corrections[tree - 1] ^= errors[tree]
        key = end._challenge(0, 0, corrections)
        total, _ = extension_module._proof(key, u, v)
        tags = ghash_tags(key, v.reshape(TREES * DEPTH, m)).reshape(TREES, DEPTH, 16)
        for tree, error in errors.items():
            shift = np.bitwise_xor.reduce(ghash_tags(key, np.stack([error, np.zeros_like(error)])))
            for bit in range(DEPTH):
                if guess[tree] >> bit & 1:
                    tags[tree, bit] ^= shift
        digest = extension_module._digest(tags.reshape(-1, 16))
        return [corrections, np.concatenate([total, digest])[np.newaxis]]

    return arrays_of


def error_at(*bits: int, words: int = 6) -> np.ndarray:
    """A column with these bits set."""
    error = np.zeros(words, np.uint64)
    for bit in bits:
        error[bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    return error


@pytest.mark.parametrize("tree", range(1, TREES))
def test_one_wrong_bit_in_any_correction_is_caught(tree):
    # On the way, or by a receiver that leaves its proof as it was; among the bits that the check spends as well.
    bit = (tree * 37) % 384

    def change(arrays):
        arrays[0][tree - 1] ^= error_at(bit)

    ends = extensions(b"flip", trusted_trees(tree, 50 + tree))
    outcome = lied_to(0, change, 200, ends)[1]
    assert isinstance(outcome, CheatingError)
    assert "cheated" in str(outcome)


@pytest.mark.parametrize("tree", [0, 1, 15, TREES - 1])
@pytest.mark.parametrize("bit", [0, 255, 256, 383])
def test_a_proof_made_for_a_wrong_correction_does_not_save_it(tree, bit):
    outcome = facing(forged({tree: error_at(bit)}, np.zeros(TREES, np.uint8)))
    assert isinstance(outcome, CheatingError)


@pytest.mark.parametrize("tree", [0, 7])
def test_a_cheat_passes_if_it_guesses_the_four_bits_of_delta_and_only_then(tree):
    # What the check cannot prevent: whoever is right, one time in sixteen, has learned these four bits.
    passed = []
    for guess in range(LEAVES):
        outcome = facing(forged({tree: error_at(3, 70, 200)}, np.full(TREES, guess)))
        if not isinstance(outcome, CheatingError):
            passed.append(guess)
    assert passed == [NOWHERE_ZERO[1][tree]]


def test_a_correction_for_another_choice_in_several_trees_takes_a_guess_for_each():
    errors = {tree: numbers(tree).integers(0, 2**64, 6, np.uint64) for tree in (0, 3, 17, 31)}
    right = NOWHERE_ZERO[1]
    assert not isinstance(facing(forged(errors, right)), CheatingError)
    for tree in errors:
        for bit in range(DEPTH):
            guess = right.copy()
            guess[tree] ^= 1 << bit
            assert isinstance(facing(forged(errors, guess)), CheatingError)


def test_an_error_that_touches_no_bit_of_delta_goes_unnoticed_and_changes_nothing():
    deltas = [NOWHERE_ZERO[0], NOWHERE_ZERO[1].copy()]
    deltas[1][9] = 0
    outcome = facing(forged({9: error_at(5)}, np.zeros(TREES, np.uint8)), deltas=deltas)
    assert (outcome.sent == facing(forged({}, np.zeros(TREES, np.uint8)), deltas=deltas).sent).all()


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("at", [0, 15, 16, 47], ids=["L(u)", "its end", "digest", "its end"])
def test_a_wrong_proof_is_caught(at, role):
    def change(arrays):
        arrays[1][0, at] ^= 1

    outcome = lied_to(role, change)
    assert isinstance(outcome[1 - role], CheatingError)
    assert not isinstance(outcome[role], CheatingError)


def test_the_message_of_the_batch_before_is_caught():
    ends, kept = extensions(), []

    def change(arrays):
        if kept:
            for array, old in zip(arrays, kept[0], strict=True):
                array[:] = old
        kept.append([array.copy() for array in arrays])

    assert not isinstance(lied_to(0, change, 200, ends)[1], CheatingError)
    assert isinstance(lied_to(0, change, 200, ends)[1], CheatingError)


def test_a_servers_own_message_sent_back_to_it_is_caught():
    def lie(mine, theirs):
        for array, other in zip(mine, theirs, strict=True):
            array[:] = other

    played = play(*(end.extend(200) for end in extensions()), liar=1, lies={"ot/extend": lie})
    assert isinstance(played.results[0], CheatingError)


def test_memory_that_is_damaged_at_the_other_server_is_caught():
    trees = trusted_trees(1, 2)
    trees[0].own[5, trees[1].delta[5] ^ 1, 0] ^= 1  # a leaf that S1 knows
    ends = extensions(b"label", trees)
    outcome = play(*(end.extend(1) for end in ends)).results
    assert isinstance(outcome[1], CheatingError)
    assert not isinstance(outcome[0], CheatingError)


def test_a_server_that_starts_from_another_label_is_caught():
    s0, s1 = trusted_trees(1, 2)
    ends = Extension(s0, b"one"), Extension(s1, b"other")
    for outcome in play(*(end.extend(1) for end in ends)).results:
        assert isinstance(outcome, CheatingError)


def test_known_answers():
    played = play(*(end.extend(129) for end in extensions(b"known answers")))
    for role, want in enumerate(KNOWN):
        end = played.results[role]
        assert np.packbits(end.choices).tobytes().hex() == want["choices"]
        assert end.delta.tobytes().hex() == want["delta"]
        assert end.received[0].tobytes().hex() == want["first received"]
        assert end.sent[0].tobytes().hex() == want["first sent"]
        assert hash_rows(end.received[:1], 0).tobytes().hex() == want["first key"]
        assert hashlib.sha256(end.received.tobytes()).hexdigest() == want["received"]
        assert hashlib.sha256(end.sent.tobytes()).hexdigest() == want["sent"]
        message = b"".join(array.tobytes() for array in played.sent(role, "ot/extend"))
        assert hashlib.sha256(message).hexdigest() == want["message"]
