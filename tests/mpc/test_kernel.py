"""The compiled kernel against the NumPy code: the same bytes, with narrow and with wide AES; and what it refuses."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab.semi_honest import bit_times, half_gates, lookup
from sedml.lab.semi_honest.garbled import circuit_of
from sedml.lab.semi_honest.lookup import Lookup
from sedml.mpc import bits as packing
from sedml.mpc import kernel as dispatch
from sedml.mpc import prg
from sedml.mpc.authenticated import authenticated_bits, buckets, gates, leaky, masks
from sedml.mpc.ot import extension, hashing, transpose
from sedml.mpc.ot.extension import Transfers, ghash_tags
from sedml.mpc.ot.trees import DEPTH, LEAVES, TREES
from sedml.mpc.prg import expand
from sedml.mpc.ring import Ring
from sedml.protocol.ballots import field, proof
from support.harness import fixed_seed, numbers
from support.labelling import case, run

MODULES = (
    *(extension, hashing, transpose, authenticated_bits, buckets, gates, leaky, masks),
    *(half_gates, lookup, bit_times, prg, packing, field, proof),
)
fast = pytest.importorskip("sedml.mpc._kernel", reason="the kernel in C is not built", exc_type=ImportError)

both = pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
few = settings(max_examples=15, deadline=None)
keys = st.integers(0, 2**32 - 9)


@pytest.fixture(autouse=True)
def chosen(request):
    before = fast.use_wide("narrow" not in request.node.name)
    yield
    fast.use_wide(before)


def bytes_of(key: int, *shape: int) -> np.ndarray:
    return expand(fixed_seed(key), "kernel", int(np.prod(shape))).reshape(shape)


def words_of(key: int, *shape: int) -> np.ndarray:
    return bytes_of(key, *shape[:-1], 8 * shape[-1]).view(np.uint64)


def on_both(play) -> tuple:
    """What `play` returns on the kernel and on NumPy."""
    found = []
    for which in (fast, None):
        with pytest.MonkeyPatch.context() as patch:
            use(patch, lambda which=which: which)
            found.append(play())
    return tuple(found)


def use(patch, which) -> None:
    """From now on what `which` returns is the kernel, or None for NumPy."""
    for module in MODULES:
        patch.setattr(module, "kernel", which)


def transfers(key: int, count: int) -> Transfers:
    choices, (received, sent) = bytes_of(key, count) & np.uint8(1), words_of(key + 1, 2, count, 2)
    return Transfers(key % 1000, choices, received, sent, words_of(key + 2, 2))


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
@given(key=keys, count=st.integers(0, 70), width=st.integers(1, 64))
@settings(max_examples=30, deadline=None)
def test_packed_words(wide, key, count, width):
    values = Ring(width).reduce(words_of(key, count))
    packed, want = on_both(lambda: packing.pack(values, width))
    assert (packed == want).all()
    found, want = on_both(lambda: packing.unpack(packed, width, count))
    assert found.dtype == want.dtype
    assert (found == want).all()
    assert (found == values).all()


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
@given(key=keys, rows=st.integers(1, 9), samples=st.integers(1, 90), bits=st.integers(1, 6), two=st.booleans())
@few
def test_pads_of_lookups(wide, key, rows, samples, bits, two):
    spec = Lookup(rows, samples, bits, 2 if two and bits < 6 else 1)
    made = transfers(key, spec.transfers)

    def prepared() -> dict:
        try:
            next(spec.prepare(0, made, fixed_seed(key)))
        except StopIteration as end:
            return end.value

    found, want = on_both(prepared)
    for name in want:
        assert found[name].dtype == want[name].dtype
        assert (found[name] == want[name]).all(), name


@both
@given(key=keys, rows=st.integers(1, 5), samples=st.integers(1, 60), bits=st.integers(1, 6), data=st.data())
@few
def test_answers_to_lookups(wide, key, rows, samples, bits, data):
    spec = Lookup(rows, samples, bits, 2 if bits < 6 and data.draw(st.booleans()) else 1)
    used, size = data.draw(st.integers(1, spec.half)), spec.word.itemsize
    z, d = bytes_of(key, rows, spec.half * size), bytes_of(key + 1, bits, rows, spec.half * size)
    pieces = {"z": z.view(spec.word), "d": d.view(spec.word)}
    asked = packing.pack(bytes_of(key + 2, rows * used) & Ring(bits).mask, bits)
    table = bytes_of(key + 3, rows, used * size).view(spec.word)
    found, want = on_both(lambda: lookup.answer(spec, pieces, asked, table))
    assert found.dtype == want.dtype
    assert (found == want).all()


@both
@given(key=keys, wires=st.integers(1, 9), samples=st.integers(1, 20))
@few
def test_labels(wide, key, wires, samples):
    zeros, delta = words_of(key, wires, samples, 2), words_of(key + 1, 2)
    found, want = on_both(lambda: half_gates.labels_of(zeros, bytes_of(key + 2, wires, samples) & np.uint8(1), delta))
    assert (found == want).all()


@both
@given(key=keys, count=st.integers(1, 300), width=st.sampled_from([5, 8, 12, 17, 33, 64]), data=st.data())
@few
def test_scaled_vectors(wide, key, count, width, data):
    ring, lanes = Ring(width), data.draw(st.integers(1, 40))
    vectors = bytes_of(key + 4, lanes, count * ring.dtype.itemsize).view(ring.dtype)
    found, want = on_both(lambda: bit_times.scale(transfers(key, count), vectors, ring))
    for name in ("tau", "kept", "bit"):
        assert (getattr(found, name) == getattr(want, name)).all(), name


@both
@given(key=keys, samples=st.integers(1, 75), classes=st.integers(2, 6), parts=st.integers(1, 3))
@few
def test_garbled_circuits(wide, key, samples, classes, parts):
    circuit = circuit_of(classes, 5, 6)
    delta = words_of(key, 2)
    delta[0] |= np.uint64(1)
    zeros = words_of(key + 1, circuit.inputs, samples, 2)
    values = numbers(key).integers(0, 2, (circuit.inputs, samples, 1)).astype(np.uint64)
    cut, size, rows = circuit.inputs // 3, -(-samples // parts), 2 * circuit.ands

    def played() -> list[np.ndarray]:
        tables = np.empty((rows * samples, 2), np.uint64)
        where = [
            half_gates.Part(slice(start, stop), 3 + start, tables[rows * start : rows * stop])
            for start in range(0, samples, size)
            for stop in [min(start + size, samples)]
        ]
        garbled = half_gates.garble(circuit, zeros[:cut], zeros[cut:], delta, where)
        kept = tables.copy()
        active = zeros ^ values * delta
        return [kept, garbled, half_gates.evaluate(circuit, active[:cut], active[cut:], where)]

    for mine, want in zip(*on_both(played), strict=True):
        assert (mine == want).all()


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
_N, _LANES = 5, 3
_GATES = np.array([[4, 2, 1, 3, -1, 0, 1, 0], [5, 4, -1, 2, -1, -1, -1, 0]], np.int32)
_OUTPUTS = np.array([5, 4], np.int32)
READ, WRITTEN = "read", "written"
CALLS = {
    "fold": [(READ, 32 * 16 * _KEYS), 0, (READ, 16), 2, (WRITTEN, 2048), (WRITTEN, 512)],
    "stream": [(READ, 16), (READ, 16), (WRITTEN, 70)],
    "pack": [(READ, 10), 2, 11, (WRITTEN, 5 + 2 + 1)],
    "unpack": [(READ, 5 + 2 + 1), 2, 11, (WRITTEN, 10)],
    "tags": [(READ, 16), (READ, 96), 48, (WRITTEN, 32)],
    "correct": [(READ, 31 * 16), (READ, 1024), (WRITTEN, 2048)],
    "transpose": [(READ, 3072), 3, 2, (WRITTEN, 2048)],
    "hash_rows": [(READ, _KEYS), (READ, 80), 7, (WRITTEN, 80)],
    "pads": [
        *[(READ, size) for size in (_KEYS, 32 * _N, 32 * _N, 16)],
        *(7, (READ, 16), 4),
        *[(WRITTEN, size) for size in (4 * _N, 4 * _N, 8 * _N)],
    ],
    "scale": [
        *[(READ, size) for size in (_KEYS, 16 * _N, 16 * _N, 16)],
        *(7, (READ, _N), 2, (READ, 2 * _N * _LANES), _LANES),
        *[(WRITTEN, 2 * _N * _LANES)] * 2,
    ],
    "answer": [(READ, 2 * 3 * 4), (READ, 5 * 2 * 3 * 4), (READ, 4), (READ, 16), 4, 5, 2, 3, (WRITTEN, 16)],
    "label": [(READ, 48), (READ, 3), (READ, 16), (WRITTEN, 48)],
    "draw": [(READ, 16), (READ, 16), (WRITTEN, 40)],
    # A page of 2 samples and 2 classes: 2 wires of 7 points, and a proof of 10 elements.
    "examine": [*[(READ, size) for size in (16, 32, 160, 16, 28, 40)], 2, 2, (WRITTEN, 48)],
    "gate": [(READ, 32), (READ, 32), 1, (WRITTEN, 16)],
    "garble": [
        *((READ, _KEYS), _GATES, _OUTPUTS, 6, (READ, 16 * 7), (READ, 16 * 7), 7, 1, 5),
        *((READ, 16), 3, (WRITTEN, 2 * 16 * 5), (WRITTEN, 2 * 16 * 5)),
    ],
    "evaluate": [
        *((READ, _KEYS), _GATES, _OUTPUTS, 6, (READ, 16 * 7), (READ, 16 * 7), 7, 1, 5),
        *(3, (READ, 2 * 16 * 5), (WRITTEN, 2 * 16 * 5)),
    ],
}
ANY = {"stream": {2}, "hash_rows": {2}, "pads": {4}, "scale": {4}, "garble": {10}, "evaluate": {9}}
"""Where any number or size is right."""
WHOLE = {
    "draw": {2: 4},
    "examine": {4: 4},
    "garble": {4: 16 * 7, 5: 16 * 7, 11: 16 * 5},
    "evaluate": {4: 16 * 7, 5: 16 * 7, 10: 16 * 5},
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
        wires = np.flatnonzero(np.arange(wrong.size) % 8 < 5) if right is _GATES else np.arange(wrong.size)
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
