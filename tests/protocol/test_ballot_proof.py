"""The proof of a page: complete, sound as far as its field is large, the same in plain integers, NumPy and C."""

from __future__ import annotations

import random
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.mpc import kernel as dispatch
from sedml.mpc import prg
from sedml.protocol.ballots import field, proof
from sedml.protocol.ballots.field import DEGREE, P
from sedml.protocol.ballots.shape import MASKS, PageShape
from support import ballot_reference as plain
from support.harness import fixed_seed, numbers

E = plain.Extension(P, DEGREE, 3)
SHAPES = [PageShape(1, 2, 1), PageShape(7, 3, 1), PageShape(5, 2, 2), PageShape(4, 3, 5), PageShape(2, 2, 12)]

shapes = st.builds(PageShape, st.integers(1, 60), st.integers(2, 12), st.integers(1, 9))


def drawn(key: int, *shape: int) -> np.ndarray:
    return field.draw(fixed_seed(key), "test", int(np.prod(shape))).reshape(shape)


def right_rows(shape: PageShape, key: int) -> np.ndarray:
    """Rows that are right: counts of at most m votes."""
    spread = [1 / (shape.classes + 1)] * (shape.classes + 1)
    return numbers(key).multinomial(shape.votes, spread, size=shape.samples)[:, :-1].astype(np.uint32)


def passes(x: np.ndarray, shape: PageShape, key: int = 5) -> bool:
    """Whether the proof that a teacher makes of x is accepted, whatever x is."""
    masks, rho, z = drawn(key, MASKS, shape.wires), drawn(key + 1, shape.wires, DEGREE), drawn(key + 2, DEGREE)
    flat = np.ascontiguousarray(x, np.uint32).reshape(-1)
    seen = proof.evaluate(flat, masks, proof.prove(flat, masks, rho, shape), z, shape)
    return bool((seen[-1] == proof.expected(seen[:-1], rho, shape)).all())


@contextmanager
def using(which):
    with pytest.MonkeyPatch.context() as patch:
        for module in (field, proof, prg):
            patch.setattr(module, "kernel", lambda: which)
        yield


# The field


def test_the_field_is_one_and_votes_cannot_wrap_in_it():
    assert all(P % d for d in range(2, 46_200))
    assert P % (1 << 24) == 1
    # x^4 - 3 has no factor: 3 is no square, and p is 1 modulo 4.
    assert pow(3, (P - 1) // 2, P) == P - 1
    assert P % 4 == 1


@given(st.integers(0, 2**32), st.integers(1, 20))
def test_products_are_those_of_plain_integers(key, count):
    a, b = drawn(key, count, 4), drawn(key + 1, count, 4)
    expected = [E.times(tuple(map(int, x)), tuple(map(int, y))) for x, y in zip(a, b, strict=True)]
    assert field.multiply(a, b).tolist() == [list(value) for value in expected]
    running = field.running_products(a)
    assert all(running[k].tolist() == list(E.product(*(tuple(map(int, x)) for x in a[: k + 1]))) for k in range(count))


def test_sums_of_products_stay_exact_where_they_are_largest():
    large = np.full((3, 1 << 20), P - 1)
    assert (field.matmul(large, large.T) == (1 << 20) % P).all()  # (-1)^2, so many times
    with pytest.raises(ValueError, match="too many"):
        field.matmul(np.zeros((1, (1 << 20) + 1)), np.zeros(((1 << 20) + 1, 1)))


def test_what_is_drawn_is_uniform_and_does_not_depend_on_how_much_is_drawn():
    long = field.draw(fixed_seed(1), "x", 200_000)
    assert (field.draw(fixed_seed(1), "x", 1000) == long[:1000]).all()
    assert (long < P).all()
    assert not (field.draw(fixed_seed(1), "y", 1000) == long[:1000]).any()
    found = np.bincount((long.astype(np.uint64) * 64 // P).astype(int), minlength=64)
    assert ((found - 3125) ** 2 / 3125).sum() < 130  # 63 degrees of freedom


def test_too_large_numbers_are_drawn_again_whatever_the_stream(monkeypatch):
    """A stream that begins with a thousand numbers that are too large gives what comes after them."""
    stream = np.r_[np.full(1000, 2**31 - 1, np.uint32), np.arange(5000, dtype=np.uint32)]
    monkeypatch.setattr(field, "kernel", lambda: None)
    monkeypatch.setattr(field, "expand", lambda seed, label, size: stream[: size // 4].copy().view(np.uint8))
    assert field.draw(fixed_seed(1), "x", 400).tolist() == list(range(400))


# Against plain integers


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_proof_and_check_are_those_of_plain_integers(shape):
    layout = plain.Layout(shape.wires, shape.values, shape.votes, MASKS)
    assert len(layout.quotient_points) == shape.quotient
    x, masks, rho, z = drawn(1, shape.entries), drawn(2, MASKS, shape.wires), drawn(3, shape.wires, 4), drawn(4, 4)
    rows = x.reshape(shape.samples, shape.classes).tolist()
    wires = plain.wires_of(layout, plain.checked(rows), masks.tolist())
    rhos, point = [tuple(r) for r in rho.tolist()], tuple(z.tolist())
    quotient = plain.prove(E, layout, wires, rhos)
    found = proof.prove(x, masks, rho, shape)
    assert found.tolist() == [list(value) for value in quotient]
    seen = [*plain.told(E, layout, wires, point), plain.quotient_at(E, layout, quotient, point)]
    assert proof.evaluate(x, masks, found, z, shape).tolist() == [list(value) for value in seen]
    gates = plain.expected(E, layout, seen[:-1], rhos)
    assert proof.expected(np.array(seen[:-1], np.uint32), rho, shape).tolist() == list(gates)


@settings(max_examples=40)
@given(shapes, st.integers(0, 2**32))
def test_the_kernel_gives_the_same_bytes(shape, key):
    fast = pytest.importorskip("sedml.mpc._kernel", reason="the kernel in C is not built", exc_type=ImportError)
    found = []
    for which in (fast, None):
        with using(which):
            x, masks, quotient = (
                drawn(key, shape.entries),
                drawn(key + 1, MASKS, shape.wires),
                drawn(key + 2, shape.quotient, 4),
            )
            seen = proof.evaluate(x, masks, quotient, drawn(key + 3, 4), shape)
            gates = proof.expected(seen[:-1], drawn(key + 4, shape.wires, 4), shape)
            found.append((x, seen, gates))
    assert all((one == other).all() and one.dtype == other.dtype for one, other in zip(*found, strict=True))


def test_the_kernel_refuses_what_does_not_fit():
    fast = pytest.importorskip("sedml.mpc._kernel", reason="the kernel in C is not built", exc_type=ImportError)
    shape = PageShape(7, 3, 1)
    scales = proof._scales(shape.points), proof._scales(shape.quotient)
    fit = [drawn(1, 21), drawn(2, 4, shape.wires), drawn(3, shape.quotient, 4), drawn(4, 4), *scales]
    out = np.zeros((shape.wires + 1, 4), np.uint32)
    fast.examine(*fit, 7, 3, out)
    for place in range(len(fit)):
        short = [one[:-1] if at == place else one for at, one in enumerate(fit)]
        with pytest.raises(ValueError, match=r"a (buffer|number)"):
            fast.examine(*short, 7, 3, out)
    for samples, classes in ((8, 3), (7, 2), (0, 3), (7, -3), (21, 1)):
        with pytest.raises(ValueError, match=r"a (buffer|number)"):
            fast.examine(*fit, samples, classes, out)
    with pytest.raises(ValueError, match="a buffer"):
        fast.examine(*fit, 7, 3, out[:-1])
    for votes in (0, -1, 1 << 30):
        with pytest.raises(ValueError, match="a number"):
            fast.gate(drawn(1, 4), drawn(2, 4), votes, out[0])
    assert dispatch.kernel_in_use()


# Complete and sound


@given(shapes, st.integers(0, 2**32))
def test_right_rows_pass(shape, key):
    assert passes(right_rows(shape, key), shape, key)


HALF = (P + 1) // 2
ROOT = pow(3, (P - 1) // 4, P)  # of -1
WRONG = {
    "two votes on a sample": [(3, 0, 1), (3, 3, 1)],
    "a vote of weight 2": [(3, 3, 2)],
    "a vote of weight -1": [(3, 3, -1)],
    "a vote taken from another class": [(3, 0, -1), (3, 3, 1)],
    "half a vote": [(3, 3, HALF)],
    "two halves of a vote": [(3, 3, HALF), (3, 0, HALF)],
    "a thousand and -999": [(3, 3, 1000), (3, 0, -999)],
    "one more here, one less on another sample": [(3, 0, 1), (3, 3, 1), (4, 0, -1), (4, 4, 1)],
    "all classes": [(3, label, 1) for label in range(5)],
    "the first sample": [(0, 4, 2)],
    "the last sample": [(11, 0, 2)],
    "squares that cancel": [(3, 3, 1), (3, 0, ROOT), (3, 1, 1)],
    "a row that wraps around to nothing": [(3, 0, 1), (3, 3, P - 1)],
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG.keys())
def test_wrong_rows_do_not_pass(changes):
    shape = PageShape(12, 5, 1)
    x = np.zeros((12, 5), np.uint32)
    x[np.arange(12), np.arange(12) % 5] = 1
    assert passes(x, shape)
    for sample, label, value in changes:
        x[sample, label] = value % P
    assert not any(passes(x, shape, key) for key in range(5))


@given(shapes, st.integers(0, 2**32), st.data())
def test_a_single_wrong_number_does_not_pass(shape, key, data):
    x = right_rows(shape, key)
    sample, label = data.draw(st.integers(0, shape.samples - 1)), data.draw(st.integers(0, shape.classes - 1))
    value = data.draw(st.integers(shape.votes + 1, P - 1))
    x[sample, label] = value
    assert not passes(x, shape, key)


@given(st.integers(2, 9), st.integers(2, 8), st.integers(0, 2**32))
def test_entries_that_are_right_and_add_up_to_too_many_do_not_pass(votes, classes, key):
    shape = PageShape(6, classes, votes)
    x = right_rows(shape, key)
    x[2] = 0
    x[2, :2] = votes, 1
    assert not passes(x, shape, key)


def test_the_best_cheat_passes_as_often_as_the_bound_says():
    """In a field of 101 elements: H is made up so that it is right at as many points z as can be."""
    tiny, rng = plain.Extension(101, 1, 1), random.Random(5)
    layout, tries, passed = plain.Layout(2, 3, 1, 1), 3000, 0
    degree = (layout.votes + 1) * (layout.masks + layout.values - 1)
    for _ in range(tries):
        rho, masks = [(rng.randrange(101),) for _ in range(2)], [[rng.randrange(101) for _ in range(2)]]
        wires = plain.wires_of(layout, [0, 1, 0, 0, 2, 0], masks)
        # P - V H vanishes where the cheat wants it to, at as many points as H has values and no more than its degree.
        wanted = rng.sample(range(len(layout.points), 101), len(layout.quotient_points))
        values = []
        for t in wanted:
            whole = plain.expected(tiny, layout, plain.told(tiny, layout, wires, (t,)), rho)
            values.append((whole[0] * pow(plain.vanishing(tiny, layout, (t,))[0], -1, 101),))
        z = (rng.randrange(len(layout.points), 101),)
        seen = plain.expected(tiny, layout, plain.told(tiny, layout, wires, z), rho)
        quotient = tiny.times(plain.vanishing(tiny, layout, z), tiny.through(wanted, values, z))
        passed += seen == quotient
    bound = (1 + degree) / (101 - len(layout.points))
    assert 0.5 * (degree - layout.values) / 101 < passed / tries < bound + 4 * (bound / tries) ** 0.5
