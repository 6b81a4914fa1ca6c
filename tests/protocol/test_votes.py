"""Predictions of every form become the same votes; bad ones are refused without showing a vote."""

from __future__ import annotations

import math
import traceback

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sedml.errors import PredictionsError, TaskError
from sedml.protocol import votes as votes_module
from sedml.protocol.votes import ABSTAIN, as_votes, histogram

SECRET = 987654

unhurried = settings(deadline=None)

INTEGER_DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u2"]
FLOAT_DTYPES = ["f2", "f4", "f8", "g", ">f8"]


class Tensor:
    """Stands in for a torch tensor or a pandas frame."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype=dtype)


class CudaTensor:
    def __array__(self, dtype=None, copy=None):
        raise TypeError(f"can't convert device tensor([{SECRET}]) to numpy")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    # So that small arrays, too, are cut along both axes.
    monkeypatch.setattr(votes_module, "_BLOCK", 8)


@st.composite
def tasks(draw):
    classes = draw(st.integers(2, 12))
    shape = draw(hnp.array_shapes(min_dims=2, max_dims=2, max_side=9))
    return draw(hnp.arrays(np.int64, shape, elements=st.integers(-1, classes - 1))), classes


def refused(predictions, classes=3):
    with pytest.raises(PredictionsError) as caught:
        as_votes(predictions, classes)
    shown = "".join(traceback.format_exception(caught.value))
    assert str(SECRET) not in str(caught.value) + repr(caught.value) + caught.value.what + caught.value.do
    assert str(SECRET) not in shown
    assert caught.value.__context__ is None
    assert caught.value.do
    return str(caught.value)


@unhurried
@given(tasks())
def test_every_form_gives_the_same_votes(task):
    votes, classes = task
    forms = [
        votes,
        votes.tolist(),
        tuple(map(tuple, votes.tolist())),
        list(votes),
        [row.astype(np.int8) if k % 2 else row.astype(np.float32) for k, row in enumerate(votes)],
        np.asfortranarray(votes),
        np.repeat(votes, 2, axis=1)[:, ::2],
        Tensor(votes),
        [Tensor(row) for row in votes],
        np.where(votes < 0, -7, votes),
        *(votes.astype(dtype) for dtype in [*INTEGER_DTYPES, *FLOAT_DTYPES] if np.dtype(dtype).kind != "u"),
    ]
    for form in forms:
        result = as_votes(form, classes)
        assert np.array_equal(result, votes)
        assert result.dtype == np.int8


@unhurried
@given(tasks(), st.sampled_from([d for d in INTEGER_DTYPES if "u" in d]))
def test_unsigned_class_ids(task, dtype):
    votes, classes = task
    ids = np.maximum(votes, 0)
    assert np.array_equal(as_votes(ids.astype(dtype), classes), ids)


@unhurried
@given(tasks(), st.sampled_from(["?", "i1", "u1", "i8", "f2", "f4", "f8"]))
def test_one_hot_scores_round_trip(task, dtype):
    votes, classes = task
    ids = np.maximum(votes, 0)
    scores = np.eye(classes)[ids].astype(dtype)
    assert np.array_equal(as_votes(scores, classes), ids)
    assert np.array_equal(as_votes(list(scores), classes), ids)
    assert np.array_equal(as_votes(scores.tolist(), classes), ids)


@unhurried
@given(
    hnp.arrays(
        np.float32,
        hnp.array_shapes(min_dims=3, max_dims=3, min_side=2, max_side=6),
        elements=st.sampled_from([-1.5, 0.0, 0.25, 3.0]),
    )
)
def test_scores_vote_for_the_first_maximum(scores):
    votes = as_votes(scores, scores.shape[2])
    for (k, q), vote in np.ndenumerate(votes):
        row = scores[k, q].tolist()
        assert vote == row.index(max(row))


def test_bool_is_two_classes():
    assert as_votes([[True, False], [False, False]], 2).tolist() == [[1, 0], [0, 0]]
    assert "3 classes" in refused(np.zeros((2, 2), bool), 3)


@pytest.mark.parametrize(
    ("classes", "dtype"),
    [
        (2, "i1"),
        (128, "i1"),
        (129, "i2"),
        (32768, "i2"),
        (32769, "i4"),
        (2**31 - 1, "i4"),
        (np.int64(3), "i1"),
    ],
)
def test_dtype_is_the_narrowest_that_fits(classes, dtype):
    votes = as_votes([[int(classes) - 1, -1, 0]], classes)
    assert votes.dtype == np.dtype(dtype)
    assert votes.tolist() == [[int(classes) - 1, -1, 0]]


def test_the_result_is_a_new_array():
    given_ids = np.array([[1, 0]], np.int8)
    votes = as_votes(given_ids, 2)
    votes[:] = ABSTAIN
    assert given_ids.tolist() == [[1, 0]]


@unhurried
@given(st.data(), tasks(), st.sampled_from(["i4", "i8", "u4", "u8", "f4", "f8", "g"]))
def test_out_of_range_names_position_and_range_but_not_the_vote(data, task, dtype):
    votes, classes = task
    ids = np.maximum(votes, 0).astype(dtype)
    bad = data.draw(hnp.arrays(bool, votes.shape).filter(np.any))
    ids[bad] = SECRET
    k, q = np.argwhere(bad)[0]
    text = refused(ids, classes)
    assert f"sample {q + 1} of {votes.shape[1]} " in text
    assert len(votes) == 1 or f"teacher {k + 1} of {len(votes)}, " in text
    assert f"({bad.sum()} such in all)" in text
    assert f"from 0 to {classes - 1}" in text
    assert refused(ids.tolist(), classes) == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "negative number to abstain"),
        (math.inf, "whole number"),
        (-math.inf, "whole number"),
        (SECRET + 0.5, "whole number"),
        (-SECRET - 0.5, "whole number"),
        (1e300, "out of range"),
    ],
)
def test_floats_that_are_no_class_ids(value, words):
    ids = np.zeros((4, 11))
    ids[2, 9] = ids[3, 1] = value
    text = refused(ids)
    assert words in text
    assert "teacher 3 of 4, sample 10 of 11" in text
    assert "2 such" in text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_scores_must_be_finite(value, dtype):
    scores = np.zeros((4, 5, 3), dtype)
    scores[1, 4, 2] = scores[1, 4, 0] = scores[3, 0, 1] = value
    text = refused(scores)
    assert "teacher 2 of 4, sample 5 of 5" in text
    assert "2 such" in text


@pytest.mark.parametrize(
    ("predictions", "words"),
    [
        (SECRET, "0 dimension"),
        ([SECRET, 1], "1 dimension"),
        (np.full((1, 1, 3, 1), SECRET), "4 dimension"),
        ([], "no teachers"),
        (np.zeros((0, 5)), "no teachers"),
        (np.zeros((0, 5, 3)), "no teachers"),
        ([[], []], "no samples"),
        (np.zeros((2, 0, 3)), "no samples"),
        (np.full((2, 2, 4), SECRET), "4 scores per sample but the task has 3"),
        (np.zeros((2, 2, 0)), "0 scores"),
        ([[0, 1], [SECRET]], "Teacher 2 of 2 has 1 prediction, teacher 1 has 2"),
        ([np.zeros(3), np.zeros(3), np.zeros(4)], "Teacher 3 of 3"),
        ([[[0, 1, 0], [SECRET, 0]]], "cannot be made into an array"),
        ([[0, 1], SECRET], "cannot be made into an array"),
        ([np.array(SECRET), [0]], "cannot be made into an array"),
        (CudaTensor(), "detach().cpu()"),
        ([[str(SECRET), "1"]], "words, and the classes have no names"),
        (np.array([[b"987654"]]), "not numbers"),
        (str(SECRET), "0 dimension"),
        ([[None, SECRET]], "Python objects"),
        ([[10**30 + SECRET]], "Python objects"),
        (None, "0 dimension"),
        ({"a": SECRET}, "0 dimension"),
        (np.array([[{SECRET}]]), "Python objects"),
        (np.array([[SECRET + 0j]]), "complex"),
        (np.array([[SECRET]], "m8[s]"), "not numbers"),
        (np.array([[SECRET]], "M8[s]"), "not numbers"),
        (np.array([[(SECRET,)]], [("a", int)]), "not numbers"),
        (np.ma.masked_equal([[SECRET, 1]], 1), "masked"),
        ([np.ma.masked_equal([SECRET, 1], 1)], "masked"),
    ],
)
def test_unusable_predictions(predictions, words):
    assert words in refused(predictions)


@pytest.mark.parametrize("classes", [1, 0, -3, 2**31, pytest.param(10**5000, id="huge"), True, 2.0, "10", None])
def test_classes_must_make_sense(classes):
    with pytest.raises(TaskError):
        as_votes([[0, 1]], classes)
    with pytest.raises(TaskError):
        histogram(np.zeros((1, 1), np.int8), classes)


def test_memory_errors_are_not_blamed_on_the_predictions():
    class Huge:
        def __array__(self, dtype=None, copy=None):
            raise MemoryError

    with pytest.raises(MemoryError):
        as_votes(Huge(), 3)


@unhurried
@given(tasks())
def test_histogram_equals_counting_by_hand(task):
    votes, classes = task
    counts = histogram(as_votes(votes, classes), classes)
    assert counts.dtype == np.int64
    assert counts.shape == (classes, votes.shape[1])
    for q in range(votes.shape[1]):
        for i in range(classes):
            assert counts[i, q] == sum(1 for vote in votes[:, q].tolist() if vote == i)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_histogram_of_nothing(shape):
    assert histogram(np.zeros(shape, np.int8), 3).tolist() == np.zeros((3, shape[1]), int).tolist()


@pytest.mark.parametrize(
    "votes",
    [
        np.array([[0, 3]]),
        np.array([[-2]]),
        np.array([[SECRET]]),
        np.array([0]),
        np.array([[0.0]]),
        np.array([[True]]),
    ],
)
def test_histogram_refuses_what_as_votes_did_not_make(votes):
    with pytest.raises(PredictionsError, match="as_votes") as caught:
        histogram(votes, 3)
    assert str(SECRET) not in str(caught.value)
