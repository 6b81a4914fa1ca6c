"""Splits are disjoint, complete, repeatable, and as uneven as they were asked to be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import InputError
from sedml.learn.splits import split_public, split_teachers

KINDS = ["even", "skewed"]
LABELS = np.random.default_rng(3).integers(0, 10, 6000)


@st.composite
def problems(draw):
    labels = np.array(draw(st.lists(st.integers(0, 5), min_size=1, max_size=60)))
    return labels, draw(st.integers(1, labels.size))


@given(problems(), st.sampled_from(KINDS), st.sampled_from([1e-3, 0.1, 1.0, 50.0, 1e6]), st.integers(0, 2**32))
def test_every_sample_goes_to_one_teacher_and_every_teacher_gets_one(problem, kind, alpha, seed):
    labels, K = problem
    parts = split_teachers(labels, K, kind, alpha=alpha, seed=seed)
    assert len(parts) == K
    assert all(part.size for part in parts)
    assert sorted(np.concatenate(parts).tolist()) == list(range(labels.size))
    if kind == "even":
        sizes = [part.size for part in parts]
        assert max(sizes) - min(sizes) <= 1


@given(st.integers(2, 200), st.data(), st.integers(0, 2**32))
def test_public_and_test_part_share_all_samples(samples, data, seed):
    public = data.draw(st.integers(1, samples - 1))
    first, second = split_public(samples, public, seed=seed)
    assert first.size == public
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(samples))


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_decides(kind):
    def split(seed):
        return np.concatenate(split_teachers(LABELS, 20, kind, seed=seed)).tolist()

    assert split(1) == split(1)
    assert split(1) != split(2)
    assert split_public(50, seed=1)[0].tolist() == split_public(50, seed=1)[0].tolist()
    assert split_public(50, seed=1)[0].tolist() != split_public(50, seed=2)[0].tolist()


def test_even_parts_mix_the_classes():
    for part in split_teachers(LABELS, 20):
        assert part.size == 300
        assert np.bincount(LABELS[part], minlength=10).min() > 10


def test_a_smaller_alpha_is_more_skewed():
    def classes_seen(alpha):
        return np.mean([np.unique(LABELS[part]).size for part in split_teachers(LABELS, 20, "skewed", alpha=alpha)])

    assert classes_seen(0.05) < 4 < 9 < classes_seen(100)


def test_a_fraction_may_be_public():
    assert [part.size for part in split_public(599, 0.5)] == [300, 299]
    assert [part.size for part in split_public(10000, 9000.0)] == [9000, 1000]


@pytest.mark.parametrize(
    ("labels", "teachers", "options", "says"),
    [
        ([0, 1], 3, {}, "3 teachers but 2 training samples"),
        ([], 1, {}, "type float"),
        (np.array([], int), 1, {}, "0 training samples"),
        ([0, 1], 0, {}, "0 teachers"),
        ([0, 1], 1.5, {}, "1.5 teachers"),
        ([0, 1], True, {}, "True teachers"),
        ([0.0, 1.0], 1, {}, "type float64"),
        ([[0, 1]], 1, {}, "shape (1, 2)"),
        ([0, 1], 1, {"kind": "fair"}, "'fair'"),
        ([0, 1], 1, {"alpha": 0}, "alpha of 0"),
        ([0, 1], 1, {"alpha": float("nan")}, "alpha of nan"),
        ([0, 1], 1, {"alpha": "1"}, "alpha of 1"),
    ],
)
def test_bad_splits_are_refused(labels, teachers, options, says):
    with pytest.raises(InputError) as caught:
        split_teachers(labels, teachers, **options)
    assert says in caught.value.what
    assert caught.value.do


@pytest.mark.parametrize("public", [0, 10, 11, -1, 0.0, 1.0, 1.5, 0.01, float("nan"), "5", True, None])
def test_bad_public_parts_are_refused(public):
    with pytest.raises(InputError, match="public part"):
        split_public(10, public)
