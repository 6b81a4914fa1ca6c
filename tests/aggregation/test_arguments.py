"""Whatever somebody may reasonably pass to `sedml.aggregate` gives a result, or an error that says what to do."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import sedml
from sedml.errors import FileFormatError, InputError, PredictionsError, SedmlError, SedmlWarning
from sedml.privacy.planning import plan_job
from sedml.privacy.utility import agreement_model

TERMS = {"classes": 3, "threshold": 0.6, "sigma": 0.1}
VOTES = np.array([[0, 1, 2, -1]] * 5)
LABELS = [0, 1, 2, -1]


class Frame:
    """Like a data frame of polars or pandas."""

    def __init__(self, array):
        self.array = array

    def __len__(self):
        return len(self.array)

    def to_numpy(self):
        return self.array


class PandasLike(Frame):
    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.array, dtype)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".tsv", ".parquet"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_read(tmp_path, suffix, kind):
    path = tmp_path / f"predictions{suffix}"
    if suffix == ".npy":
        np.save(path, VOTES)
    elif suffix == ".npz":
        np.savez(path, predictions=VOTES)
    elif suffix == ".parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({str(q): VOTES[:, q] for q in range(4)}), path)
    else:
        np.savetxt(path, VOTES, fmt="%d", delimiter="," if suffix == ".csv" else "\t")
    assert sedml.aggregate(kind(path), **TERMS).labels.tolist() == LABELS


@pytest.mark.parametrize("path", ["nowhere.npy", "predictions", "predictions.pkl", Path(), ""])
def test_a_path_that_cannot_be_read_is_explained(path):
    with pytest.raises(FileFormatError):
        sedml.aggregate(path, **TERMS)


@pytest.mark.parametrize(
    "predictions",
    [
        VOTES.tolist(),
        tuple(map(tuple, VOTES.tolist())),
        list(VOTES),
        VOTES.astype(float),
        VOTES.astype(np.int8),
        Frame(VOTES),
        PandasLike(VOTES),
        [Frame(row) for row in VOTES],
        np.eye(4)[VOTES][:, :, :3],
    ],
)
def test_arrays_lists_and_frames(predictions):
    found = sedml.aggregate(predictions, **TERMS).labels.tolist()
    assert found[:3] == LABELS[:3]


def test_tensors_with_and_without_a_gradient():
    torch = pytest.importorskip("torch")
    assert sedml.aggregate(torch.tensor(VOTES), **TERMS).labels.tolist() == LABELS
    scores = torch.eye(3)[torch.tensor(VOTES[:, :3])].requires_grad_()
    assert sedml.aggregate(scores, **TERMS).labels.tolist() == LABELS[:3]
    assert sedml.aggregate(list(scores), **TERMS).labels.tolist() == LABELS[:3]


@pytest.mark.parametrize(
    "predictions",
    [
        None,
        5,
        "",
        b"01",
        {},
        {"a": [1, 2]},
        {1, 2},
        [],
        [[]],
        [1, 2],
        ["01", "10"],
        [["0", "1"]] * 3,
        [["cat"]] * 3,
        [[None, 1]] * 3,
        [[0, 1], [0]],
        [[0, [1]], [0, 1]],
        iter([[0, 1]]),
        (row for row in VOTES),
        np.array(VOTES, object),
        np.array(3),
        VOTES * 1j,
        VOTES + 0.5,
        np.full((3, 3), np.nan),
        np.zeros((2, 2, 2, 2)),
        Frame(None),
        object(),
        len,
        int,
    ],
)
def test_what_is_no_predictions_is_explained(predictions):
    with pytest.raises(InputError) as caught:
        sedml.aggregate(predictions, **TERMS)
    assert isinstance(caught.value, PredictionsError | FileFormatError)
    assert caught.value.do


natural = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 300),
    st.floats(-2, 60),
    st.sampled_from([math.nan, math.inf, 1e-300, 1e-5, 0.6, 1.0, np.float32(0.5), np.int16(3), np.array(2), 10**30]),
    st.text(max_size=6),
    st.sampled_from(["fused", "paper"]),
    st.lists(st.integers(0, 3), max_size=3),
    st.builds(object),
)
predictions = st.one_of(
    natural,
    hnp.arrays(
        st.sampled_from([np.int8, np.int64, np.float32, bool, "U1", object]),
        hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
    ),
    st.recursive(st.integers(-1, 3), lambda inner: st.lists(inner, max_size=4), max_leaves=12),
)
OPTIONS = ("delta", "budget", "fingerprints", "progress")


@settings(max_examples=100, deadline=None)
@given(
    given=st.one_of(predictions, st.just(VOTES)),
    terms=st.one_of(st.just(TERMS), st.fixed_dictionaries(dict.fromkeys(TERMS, natural))),
    options=st.one_of(st.just({}), st.dictionaries(st.sampled_from(OPTIONS), natural, max_size=2)),
)
def test_any_natural_argument_gives_a_result_or_an_explained_error(given, terms, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SedmlWarning)
        try:
            result = sedml.aggregate(given, **terms, **options)
        except SedmlError as error:
            assert error.what  # noqa: PT017
            assert error.do  # noqa: PT017
        else:
            assert result.labels.dtype == np.int64


@pytest.mark.parametrize("broken", [{"progress": 5}, {"fingerprints": 5}, {"fingerprints": "abcd"}, {"delta": "1e-5"}])
def test_nothing_is_charged_for_arguments_that_cannot_be_used(tmp_path, broken):
    pytest.importorskip("sqlalchemy")
    budget = sedml.CohortBudget(tmp_path / "ledger.sqlite", "clinics", 1000.0, 1e-5)
    with pytest.raises(SedmlError):
        sedml.aggregate(VOTES, **TERMS, budget=budget, **broken)
    assert not (tmp_path / "ledger.sqlite").exists()


def test_reprs_are_one_short_line_without_arrays():
    result = sedml.aggregate(np.repeat(VOTES, 500, axis=1), **(TERMS | {"sigma": 40.0}), delta=1e-5)
    found = plan_job(agreement_model(40, 3), epsilon=3.0, delta=1e-5, samples=200)
    for shown in (result, result.stats, result.privacy, found):
        text = repr(shown)
        assert "\n" not in text
        assert "array" not in text
        assert len(text) < (600 if shown is found else 150), text
    assert f"{result.answered:,} of 2,000 samples have a label, epsilon " in repr(result)
    assert repr(sedml.aggregate(VOTES, **TERMS)) == "<Result: 3 of 4 samples have a label>"
