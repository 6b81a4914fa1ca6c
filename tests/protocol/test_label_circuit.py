"""The circuit of a sample in the clear, against plain arithmetic: any shares, any noise, any threshold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sedml.protocol.block import _threshold_bits
from sedml.protocol.block_shape import Shape
from sedml.protocol.inputs import from_planes, to_planes
from sedml.protocol.label_circuit import circuit_of, value_bits
from sedml.protocol.task import Block, Task
from support.clear_circuits import evaluate
from support.harness import numbers
from support.labelling import edges_of_noise, fold, plain


def computed(task: Task, shares, noises) -> np.ndarray:
    """The labels that the circuit gives, -1 for none."""
    widths, half = task.widths, 1 << (task.widths.noise - 1)
    samples = shares[0].shape[1]
    threshold = _threshold_bits(Shape(task, Block(0, 0, samples)))
    planes = [to_planes(share, widths.counts) for share in shares]
    planes += [to_planes(noise + half, widths.noise) for noise in noises]
    there, *index = evaluate(
        task.circuit, np.concatenate([*planes, np.repeat(threshold[:, np.newaxis], samples, axis=1)])
    )
    label = sum((bit.astype(np.int64) << place for place, bit in enumerate(index)), np.zeros(samples, np.int64))
    assert not label[there == 0].any()  # without a label its index is hidden too
    return np.where(there == 1, label, -1)


@given(
    classes=st.integers(2, 40),
    teachers=st.integers(1, 5000),
    sigma=st.sampled_from([0.1, 0.7, 1.0, 3.0, 40.0, 80.0, 700.0]),
    threshold=st.sampled_from(["one", "within", "all", "high", "out of reach"]),
    kind=st.sampled_from(["any", "edges", "ties"]),
    key=st.integers(0, 2**32 - 1),
)
@example(classes=2, teachers=1, sigma=0.1, threshold="one", kind="edges", key=0)
@settings(max_examples=40)
def test_it_is_the_plain_function_whatever_goes_in(classes, teachers, sigma, threshold, kind, key):
    rng, samples = numbers(key), 40
    high = {"one": 1, "within": rng.integers(1, teachers, endpoint=True), "all": teachers, "high": 3 * teachers}
    task = Task(classes, samples, teachers, int(high.get(threshold, 10**9)), sigma)
    low, top = edges_of_noise(task)
    size = 1 << task.widths.counts
    shares = rng.integers(0, size, (2, classes, samples))
    noises = rng.integers(low, top + 1, (2, classes, samples))
    if kind == "edges":
        noises = rng.choice([low, top, 0, -1], noises.shape)
        total = rng.choice([0, 1, size // 2 - 1, size // 2, size - 1], shares[0].shape)
        shares[1] = (total - shares[0]) % size
    if kind == "ties":
        noises = rng.integers(max(low, -1), 2, noises.shape)
        shares[1] = (rng.integers(-1, min(3, teachers), shares[0].shape) - shares[0]) % size
    assert (computed(task, shares, noises) == plain(task, shares, noises)).all()


@pytest.mark.parametrize("width", [2, 3, 5])
def test_neighbours_stay_neighbours_whatever_the_shift(width):
    """A vote more or less moves a folded count by one at most, for all sums; honest counts are left alone."""
    size = 1 << width
    every = fold(np.arange(size), width)
    assert (abs(every - np.roll(every, 1)) <= 1).all()
    assert (every[: size // 2] == np.arange(size // 2)).all()
    assert every[-1] == 0  # one vote short is none


def test_all_sums_of_a_small_ring_and_all_noise():
    task = Task(2, 16 * 16, 1, 1, 0.1)
    assert task.widths.counts == 2
    low, top = edges_of_noise(task)
    pairs = np.array([(a, b) for a in range(4) for b in range(4)])
    noises = numbers(1).integers(low, top + 1, (2, 2, 256))
    for a, b in pairs:
        shares = np.empty((2, 2, 256), np.int64)
        shares[0], shares[1] = a, np.array([b, (b + 1) % 4])[:, np.newaxis]
        assert (computed(task, shares, noises) == plain(task, shares, noises)).all()


@pytest.mark.parametrize(("sigma", "ands"), [(40.0, 490), (80.0, 529)])
def test_ten_classes_and_250_teachers_take_as_many_ands_as_is_said(sigma, ands):
    assert Task(10, 1, 250, 150, sigma).ands == ands


@given(classes=st.integers(2, 30), counts=st.integers(2, 12), noise=st.integers(1, 12))
@settings(max_examples=30)
def test_the_ands_follow_the_formula(classes, counts, noise):
    """To add, for the duels with their indices, for T and for each bit of the index."""
    circuit, value = circuit_of(classes, counts, noise), value_bits(counts, noise)
    c, lanes, indices, level = counts - 1, classes, 0, 0
    while lanes > 1:
        indices += level * (lanes // 2)
        lanes, level = -(-lanes // 2), level + 1
    adding = classes * (c + noise + max(noise + 1, c))
    assert circuit.ands == adding + 2 * value * (classes - 1) + indices + value + level
    assert circuit.outputs.size == 1 + level
    assert circuit.inputs == 2 * classes * (counts + noise) + value


@given(st.integers(2, 20), st.integers(1, 20))
def test_a_noisy_count_fits_its_bits_and_needs_them(counts, noise):
    highest = 2 * (2**noise - 1) + 2 ** (counts - 1) - 1
    assert 2 ** (value_bits(counts, noise) - 1) <= highest + 1 < 2 ** value_bits(counts, noise)  # a T that none reaches


@given(width=st.integers(1, 24), classes=st.integers(1, 9), key=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_planes_are_the_bits_of_numbers(width, classes, key):
    values = numbers(key).integers(0, 1 << width, (classes, 7))
    planes = to_planes(values, width)
    assert planes.shape == (width * classes, 7)
    assert (planes[:classes] == values % 2).all()
    assert (from_planes(planes, width) == values).all()
