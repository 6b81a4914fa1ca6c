"""Terms that mathematics allows and nobody can have meant."""

import contextlib
import inspect
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sedml
from sedml.errors import SedmlError, SedmlWarning, TaskError
from sedml.privacy.terms_checks import LEAST_DELTA, MOST_DELTA, check_asked_terms

GOOD = {"teachers": 250, "samples": 1000, "threshold": 0.6, "sigma": 40.0, "epsilon": 2.0, "delta": 1e-5}


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"threshold": 1.0},
        {"threshold": 150},
        {"threshold": 150.0},
        {"threshold": np.int64(250)},
        {"threshold": np.float32(0.5)},
        {"delta": 1 / 250},
        {"delta": LEAST_DELTA},
        {"teachers": 2, "delta": 0.09},
        {"epsilon": 50},
        {"delta": None, "threshold": None, "sigma": None, "samples": None, "epsilon": None},
    ],
)
def test_sensible_terms_pass_in_silence(terms):
    check_asked_terms(**(GOOD | terms))


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({"threshold": 1}, "Write 1.0 for all of them"),
        ({"threshold": np.int8(1)}, "one vote or as all teachers"),
        ({"threshold": 371}, "250, and noise with sigma = 40 lifts no count that far"),
        ({"threshold": 251, "sigma": 0.1}, "above the number of votes"),
        ({"delta": MOST_DELTA}, "well below"),
        ({"delta": 0.5}, "such as 1e-5"),
        ({"delta": 1e-300}, "nine sigmas"),
        ({"delta": 0.0}, "above 0 and below 1"),
        ({"delta": 1.0}, "above 0 and below 1"),
        ({"delta": -1e-5}, "above 0 and below 1"),
        ({"delta": math.nan}, "above 0 and below 1"),
        ({"delta": "1e-5"}, "type str"),
        ({"delta": True}, "type bool"),
        ({"epsilon": 0.0}, "allows nothing"),
        ({"epsilon": -1}, "allows nothing"),
        ({"epsilon": math.nan}, "allows nothing"),
        ({"epsilon": "2"}, "type str"),
        ({"teachers": 0}, "The number of teachers is 0"),
        ({"teachers": 2.0}, "type float"),
        ({"samples": 0}, "The number of samples is 0"),
        ({"samples": -1}, "The number of samples is -1"),
    ],
)
def test_terms_that_cannot_have_been_meant_are_refused(terms, text):
    with pytest.raises(TaskError) as caught:
        check_asked_terms(**(GOOD | terms))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({"threshold": 300}, "only noise can lift a count that far"),
        ({"threshold": 300.0}, "The threshold of 300 votes is above the number of votes, 250"),
        ({"delta": 0.01}, "Use a delta of 0.0001 or less"),
        ({"teachers": 1}, "only one teacher"),
        ({"teachers": 1, "threshold": 1}, "only one teacher"),
    ],
)
def test_terms_that_can_hardly_have_been_meant_are_warned_of(terms, text):
    with pytest.warns(SedmlWarning) as caught:
        check_asked_terms(**(GOOD | terms))
    assert text in str(caught[0].message)
    assert len(caught) == 1


def anything():
    return st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=4),
        st.sampled_from([np.float32(0.5), np.int16(3), [1], object(), 1e-300, 1]),
    )


@given(st.fixed_dictionaries({name: anything() for name in GOOD if name != "sigma"}))
def test_any_terms_pass_or_are_refused(terms):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SedmlWarning)
        with contextlib.suppress(SedmlError):
            check_asked_terms(**terms, sigma=40.0)


def test_a_warning_names_the_line_of_the_caller():
    line = inspect.currentframe().f_lineno + 2
    with pytest.warns(sedml.SedmlWarning) as caught:
        sedml.aggregate([[0, 1]], classes=2, threshold=0.6, sigma=0.1)
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)
    copied = pickle.loads(pickle.dumps(caught[0].message))
    assert (copied.what, copied.do) == (caught[0].message.what, caught[0].message.do)
