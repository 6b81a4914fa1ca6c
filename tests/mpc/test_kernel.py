"""The compiled kernel against the NumPy code: the same bytes, with narrow and with wide AES."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc.garbling import half_gates
from sedml.mpc.ot import extension, hashing, transpose
from sedml.mpc.ot.trees import DEPTH, LEAVES, TREES
from sedml.mpc.prg import expand
from sedml.protocol.garbled import circuit_of
from support.harness import fixed_seed, numbers

fast = pytest.importorskip("sedml_kernel", reason="the kernel is not installed: pip install ./kernel")

both = pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
few = settings(max_examples=15, deadline=None)


@pytest.fixture(autouse=True)
def chosen(wide):
    before = fast.use_wide(wide)
    yield
    fast.use_wide(before)


def bytes_of(key: int, *shape: int) -> np.ndarray:
    return expand(fixed_seed(key), "kernel", int(np.prod(shape))).reshape(shape)


def without(monkeypatch) -> None:
    """From now on as if there were no kernel."""
    for module in (extension, hashing, transpose, half_gates):
        monkeypatch.setattr(module, "kernel", lambda: None)


@both
@given(key=st.integers(0, 2**32 - 1), words=st.integers(1, 40), carry=st.booleans())
@few
def test_columns(wide, key, words, carry):
    seeds, words = bytes_of(key, TREES, LEAVES, 16), 2 * words
    counter = b"\x07" * 8 + b"\xff" * 8 if carry else bytes_of(key + 1, 16).tobytes()
    v, w = np.empty((2, TREES, DEPTH, words), np.uint64)
    corrections, u = extension._own_columns(extension._streams(seeds, counter), v)
    extension._known_columns(extension._streams(seeds, counter), w)
    keys = fast.schedule(seeds)
    own, known, sums = np.empty_like(v), np.empty_like(w), np.empty((TREES, words), np.uint64)
    fast.fold(keys, 0, counter, words, own, sums)
    fast.fold(keys, 1, counter, words, known, None)
    assert (own == v).all()
    assert (known == w).all()
    assert (sums[0] == u).all()
    assert (sums[1:] ^ sums[0] == corrections).all()


@both
@given(key=st.integers(0, 2**32 - 1), words=st.integers(1, 30), more=st.integers(0, 3))
@few
def test_rows(wide, key, words, more):
    columns = bytes_of(key, 128, 8 * (words + more)).view(np.uint64)
    rows = np.empty((64 * words, 2), np.uint64)
    fast.transpose(columns, words + more, words, rows)
    bits = np.unpackbits(columns.view(np.uint8), axis=1, bitorder="little")[:, : 64 * words]
    want = np.ascontiguousarray(np.packbits(bits.T, axis=1, bitorder="little"))
    assert (want.view(np.uint64) == rows).all()


@both
@given(key=st.integers(0, 2**32 - 1), count=st.integers(0, 70), first=st.integers(0, 2**40))
@few
def test_hashes(wide, key, count, first):
    rows = bytes_of(key, count, 16).view(np.uint64)
    out = np.empty_like(rows)
    fast.hash_rows(fast.schedule(b"sedml ot hashing"), rows, first, out)
    with pytest.MonkeyPatch.context() as patch:
        without(patch)
        assert (hashing.hash_rows(rows, first) == out).all()


@both
@given(key=st.integers(0, 2**32 - 3), samples=st.integers(1, 11), classes=st.integers(2, 6))
@few
def test_garbled_circuits(wide, key, samples, classes):
    circuit = circuit_of(classes, 5, 6)
    delta, zeros = (
        bytes_of(key, 16).view(np.uint64).copy(),
        bytes_of(key + 1, circuit.inputs, samples, 16).view(np.uint64),
    )
    delta[0] |= np.uint64(1)
    values = numbers(key).integers(0, 2, (circuit.inputs, samples, 1)).astype(np.uint64)

    def played() -> list[np.ndarray]:
        tables = np.empty((2 * circuit.ands * samples, 2), np.uint64)
        out = half_gates.Garbler(circuit, samples, delta).garble(zeros, 3, tables)
        kept = tables.copy()
        return [kept, out, half_gates.Evaluator(circuit, samples).evaluate(zeros ^ values * delta, 3, tables)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(half_gates, "kernel", lambda: fast)
        found = played()
        without(patch)
        for mine, want in zip(found, played(), strict=True):
            assert (mine == want).all()


@both
@pytest.mark.parametrize(
    "call",
    [
        lambda: fast.schedule(bytes(15)),
        lambda: fast.fold(bytes(5), 0, bytes(16), 2, np.empty(256, np.uint64), None),
        lambda: fast.fold(bytes(32 * 16 * 176), 0, bytes(16), 3, np.empty(384, np.uint64), None),
        lambda: fast.fold(bytes(32 * 16 * 176), 2, bytes(16), 2, np.empty(256, np.uint64), None),
        lambda: fast.transpose(np.empty((128, 2), np.uint64), 2, 3, np.empty((192, 2), np.uint64)),
        lambda: fast.hash_rows(bytes(176), bytes(32), 0, np.empty(31, np.uint8)),
        lambda: fast.garble(
            bytes(176), bytes(32), bytes(16), bytes(16), 0, 0, np.empty(64, np.uint8), np.empty(32, np.uint8)
        ),
        lambda: fast.evaluate(bytes(176), bytes(32), bytes(32), 0, 0, np.empty(32, np.uint8), np.empty(32, np.uint8)),
    ],
)
def test_buffers_of_the_wrong_size_are_refused(wide, call):
    with pytest.raises(ValueError, match=r"bytes|words|first"):
        call()


@both
def test_what_is_read_only_is_not_written(wide):
    with pytest.raises((BufferError, ValueError, TypeError)):
        fast.hash_rows(bytes(176), bytes(16), 0, bytes(16))
