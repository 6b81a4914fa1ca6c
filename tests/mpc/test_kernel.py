"""The compiled kernel against the NumPy code: the same bytes, with narrow and with wide AES; and what it refuses."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc import kernel as dispatch
from sedml.mpc import prg
from sedml.mpc.ot import extension, hashing
from sedml.mpc.ot.extension import ghash_tags
from sedml.mpc.ot.trees import DEPTH, LEAVES, TREES
from support.both_kernels import MODULES, both, bytes_of, fast, keys, on_both, use, words_of
from support.harness import fixed_seed
from support.labelling import case, run

few = settings(max_examples=15, deadline=None)


@pytest.fixture(autouse=True)
def chosen(request):
    before = fast.use_wide("narrow" not in request.node.name)
    yield
    fast.use_wide(before)


@both
@given(key=keys, size=st.integers(0, 1200), offset=st.integers(0, 100))
@few
def test_streams(wide, key, size, offset):
    found, want = on_both(lambda: prg.expand(fixed_seed(key), "s", size, offset=offset))
    assert (found == want).all()
    assert found.flags.writeable


@both
@given(key=keys, carry=st.integers(0, 40))
@few
def test_counters_of_streams_carry(wide, key, carry):
    counter = (2**128 - 1 - carry if key % 2 else (key << 64) + 2**64 - 1 - carry).to_bytes(16, "big")
    found = np.empty(700, np.uint8)
    fast.stream(b"k" * 16, counter, found)
    encryptor = Cipher(algorithms.AES(b"k" * 16), modes.CTR(counter)).encryptor()
    assert found.tobytes() == encryptor.update(bytes(700))


@both
@given(key=keys, words=st.integers(1, 40), carry=st.booleans())
@few
def test_columns(wide, key, words, carry):
    seeds, words = bytes_of(key, TREES, LEAVES, 16), 2 * words
    counter = b"\x07" * 8 + b"\xff" * 8 if carry else bytes_of(key + 1, 16).tobytes()
    v, w = np.empty((2, TREES, DEPTH, words), np.uint64)
    corrections, u = extension._own_columns(extension._streams(seeds, counter), v)
    extension._known_columns(extension._streams(seeds, counter), w)
    round_keys = fast.schedule(seeds)
    own, known, sums = np.empty_like(v), np.empty_like(w), np.empty((TREES, words), np.uint64)
    fast.fold(round_keys, 0, counter, words, own, sums)
    fast.fold(round_keys, 1, counter, words, known, None)
    assert (own == v).all()
    assert (known == w).all()
    assert (sums[0] == u).all()
    assert (sums[1:] ^ sums[0] == corrections).all()


@both
@given(key=keys, columns=st.integers(1, 5), words=st.integers(1, 40))
@few
def test_tags(wide, key, columns, words):
    given = words_of(key, columns, 2 * words)
    found, want = on_both(lambda: ghash_tags(bytes_of(key + 1, 16).tobytes(), given))
    assert (found == want).all()


@both
@given(key=keys, words=st.integers(1, 20))
@few
def test_corrections(wide, key, words):
    columns, theirs = words_of(key, TREES, DEPTH, words), words_of(key + 1, TREES - 1, words)
    masks = -(words_of(key + 2, TREES, DEPTH) & np.uint64(1))
    want = columns.copy()
    want[1:] ^= theirs[:, np.newaxis] & masks[1:, :, np.newaxis]
    fast.correct(theirs, masks, columns)
    assert (columns == want).all()


@both
@given(key=keys, words=st.integers(1, 30), more=st.integers(0, 3))
@few
def test_rows(wide, key, words, more):
    columns = words_of(key, 128, words + more)
    rows = np.empty((64 * words, 2), np.uint64)
    fast.transpose(columns, words + more, words, rows)
    bits = np.unpackbits(columns.view(np.uint8), axis=1, bitorder="little")[:, : 64 * words]
    want = np.ascontiguousarray(np.packbits(bits.T, axis=1, bitorder="little"))
    assert (want.view(np.uint64) == rows).all()


@both
@given(key=keys, count=st.integers(0, 70), first=st.integers(0, 2**40))
@few
def test_hashes(wide, key, count, first):
    found, want = on_both(lambda: hashing.hash_rows(words_of(key, count, 2), first))
    assert (found == want).all()


@both
@pytest.mark.parametrize("with_it", [0, 1])
def test_a_server_with_the_kernel_and_one_without_it_work_together_and_say_the_same(wide, with_it):
    given = case(classes=4, samples=9, teachers=9, threshold=5, sigma=2.0)
    said = []
    for which in ({with_it: fast, 1 - with_it: None}, {0: None, 1: None}, {0: fast, 1: fast}):
        patches = {role: [(module, "kernel", lambda one=one: one) for module in MODULES] for role, one in which.items()}
        outcome = run(given, number=5, keys=(1, 2), patches=patches)
        assert (outcome.labels == given.labels).all()
        said.append([[array.tobytes() for array in arrays] for role in (0, 1) for _, arrays in outcome.said[role]])
    assert said[0] == said[1] == said[2]


@both
@given(key=keys, classes=st.integers(2, 12), teachers=st.integers(1, 20), samples=st.integers(1, 40))
@settings(max_examples=6, deadline=None)
def test_whole_blocks_equal_the_plain_function(wide, key, classes, teachers, samples):
    wanted = case(classes, samples, teachers, max(1, teachers // 2), 2.0, key)
    with pytest.MonkeyPatch.context() as patch:
        use(patch, lambda: fast)
        assert (run(wanted).labels == wanted.labels).all()


# What each function takes: numbers, what is read (bytes), and what is written (bytes); a small call that is right.
_KEYS = 176
_GATES = np.array([[4, 2, 1, 3, -1, 1], [5, 4, -1, 2, -1, 0]], np.int32)
_OUTPUTS = np.array([5, 4], np.int32)
READ, WRITTEN = "read", "written"
CALLS = {
    "fold": [(READ, 32 * 16 * _KEYS), 0, (READ, 16), 2, (WRITTEN, 2048), (WRITTEN, 512)],
    "stream": [(READ, 16), (READ, 16), (WRITTEN, 70)],
    "tags": [(READ, 16), (READ, 96), 48, (WRITTEN, 32)],
    "correct": [(READ, 31 * 16), (READ, 1024), (WRITTEN, 2048)],
    "transpose": [(READ, 3072), 3, 2, (WRITTEN, 2048)],
    "hash_rows": [(READ, _KEYS), (READ, 80), 7, (WRITTEN, 80)],
    "label": [(READ, 48), (READ, 3), (READ, 16), (WRITTEN, 48)],
    "draw": [(READ, 16), (READ, 16), (WRITTEN, 40)],
    # A page of 2 samples and 2 classes: 2 wires of 7 points, and a proof of 10 elements.
    "examine": [*[(READ, size) for size in (16, 32, 160, 16, 28, 40)], 2, 2, (WRITTEN, 48)],
    "gate": [(READ, 32), (READ, 32), 1, (WRITTEN, 16)],
    "weave": [
        *(_GATES, _OUTPUTS, 6, 5, (READ, 2 * 16 * 5), (READ, 16 * 5)),
        *((WRITTEN, 16 * 5), (WRITTEN, 16 * 5), (WRITTEN, 2 * 16 * 5)),
    ],
}
ANY = {"stream": {2}, "hash_rows": {2}}
"""Where any number or size is right."""
WHOLE = {
    "draw": {2: 4},
    "examine": {4: 4},
    "weave": {4: 16 * 5},
}
"""Where more or fewer of so many bytes are right too."""
GUARD = 64


def call(name: str, arguments: list) -> None:
    """Written buffers lie between guards, which stay as they are whatever happens."""
    guarded = []
    given = []
    for argument in arguments:
        if isinstance(argument, tuple):
            space = np.full(max(argument[1], 0) + 2 * GUARD, 0xA5, np.uint8)
            guarded.append(space)
            argument = space[GUARD : len(space) - GUARD]
            argument[:] = 0x5A
        given.append(argument)
    try:
        getattr(fast, name)(*given)
    finally:
        for space in guarded:
            assert (space[:GUARD] == 0xA5).all()
            assert (space[-GUARD:] == 0xA5).all()


@both
@pytest.mark.parametrize("name", list(CALLS))
def test_the_calls_that_are_fuzzed_are_right(wide, name):
    call(name, CALLS[name])


@both
@pytest.mark.parametrize("name", list(CALLS))
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_wrong_size_or_number_is_refused(wide, name, data):
    """One argument is not what it must be."""
    arguments = list(CALLS[name])
    at = data.draw(st.sampled_from([i for i in range(len(arguments)) if i not in ANY.get(name, ())]))
    right = arguments[at]
    if isinstance(right, tuple):
        unit = WHOLE.get(name, {}).get(at, 10**9)
        sizes = st.integers(0, 3 * right[1]).filter(lambda size: size != right[1] and (unit == 10**9 or size % unit))
        arguments[at] = (right[0], data.draw(sizes))
    elif isinstance(right, np.ndarray):
        wrong = right.copy().reshape(-1)
        wires = np.flatnonzero(np.arange(wrong.size) % 6 < 5) if right is _GATES else np.arange(wrong.size)
        wrong[data.draw(st.sampled_from(wires.tolist()))] = data.draw(
            st.integers(6, 2**31 - 1) | st.integers(-(2**31), -2)
        )
        arguments[at] = wrong
    else:
        # A few numbers that are wrong whatever the sizes are.
        arguments[at] = data.draw(st.sampled_from([-1, -(2**62), 2**62, 2**40 + 2, 2**70]))
    with pytest.raises((ValueError, OverflowError)):
        call(name, arguments)


@both
@pytest.mark.parametrize("name", list(CALLS))
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_whatever_is_given_no_byte_beyond_a_buffer_is_written(wide, name, data):
    def other(argument):
        if isinstance(argument, tuple):
            return (argument[0], data.draw(st.sampled_from([argument[1], argument[1] + 16, 0, 16, 2 * argument[1]])))
        if isinstance(argument, np.ndarray):
            flat = data.draw(st.lists(st.integers(-2, 7), min_size=argument.size, max_size=argument.size))
            return np.array(flat, np.int32)
        return data.draw(st.sampled_from([argument, 0, 1, 2, 3, 16, 32, 2**33]))

    with contextlib.suppress(ValueError, OverflowError):
        call(name, [other(argument) if data.draw(st.booleans()) else argument for argument in CALLS[name]])


@both
def test_what_is_read_only_is_not_written(wide):
    with pytest.raises((BufferError, ValueError, TypeError)):
        fast.hash_rows(bytes(_KEYS), bytes(16), 0, bytes(16))


def test_arrays_with_gaps_are_refused():
    with pytest.raises((BufferError, ValueError)):
        fast.hash_rows(bytes(_KEYS), np.zeros((4, 4), np.uint64)[:, :2], 0, np.zeros((4, 2), np.uint64))


@pytest.fixture
def asked_afresh():
    dispatch.kernel.cache_clear()
    yield
    dispatch.kernel.cache_clear()


@pytest.mark.usefixtures("asked_afresh")
def test_the_environment_says_which_is_used(monkeypatch):
    monkeypatch.setenv("SEDML_KERNEL", "off")
    assert dispatch.kernel() is None
    for wish in ("auto", "on"):
        dispatch.kernel.cache_clear()
        monkeypatch.setenv("SEDML_KERNEL", wish)
        assert dispatch.kernel() is fast
        assert dispatch.kernel_in_use() in ("C (AES with 512 bits)", "C (AES with 128 bits)")
    fast.use_wide(False)
    assert dispatch.kernel_in_use() == "C (AES with 128 bits)"
