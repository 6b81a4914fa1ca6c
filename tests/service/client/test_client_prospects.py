"""A requester is warned before a vote whose labels would be mostly wrong, mostly missing, or never made."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import SedmlWarning
from sedml.privacy.calibration import sigma_for
from sedml.service.client.prospects import doubts, if_all_agree
from sedml.service.kits import ClientKit
from sedml.service.server.access import Caller
from sedml.service.server.ops import accounts
from sedml.service.terms import Terms


def terms_of(teachers=100, classes=10, samples=100, epsilon=5.0, threshold="0.6", **values):
    sigma = sigma_for(samples, epsilon, 1e-5, classes)
    return Terms(
        **{"sigma": sigma} | values,
        requester="r",
        classes=classes,
        samples=samples,
        threshold=threshold,
        epsilon=epsilon,
        delta=1e-5,
        min_teachers=teachers,
        deadline=1,
        data_bytes=1,
        data_sha256="0" * 64,
    )


@given(
    teachers=st.integers(1, 300),
    classes=st.integers(2, 40),
    sigma=st.floats(0.5, 150),
    share=st.floats(0.1, 1.0),
)
def test_the_estimate_is_what_the_noise_leaves_of_a_unanimous_vote(teachers, classes, sigma, share):
    terms = terms_of(teachers, classes, sigma=sigma, threshold=f"{share:.3f}")
    found, draws = if_all_agree(terms, teachers), 12_000  # 0.04 is nine standard errors, in each of many examples
    rng = np.random.default_rng(teachers)
    # Ties of whole numbers, of which there are many at a small sigma, go to each as often.
    noisy = rng.normal(0, sigma, (draws, classes))
    noisy[:, 0] += teachers
    passed = np.round(noisy).max(axis=1) >= found.threshold
    right = passed & (noisy.argmax(axis=1) == 0)
    assert abs(found.answered - passed.mean()) < 0.04
    assert abs(found.right - right.mean()) < 0.04


def test_few_teachers_with_much_noise_are_warned_of_with_the_share_and_the_number_it_takes():
    ((what, do),) = doubts(terms_of(5, samples=100, epsilon=20.0), 5)
    text = f"{what} {do}"
    assert "At most 35% of the labels would be right, even if all 5 teachers agreed" in text
    assert "About 14 teachers" in text
    # As many as it says are enough, and enough are not warned of.
    assert doubts(terms_of(14, samples=100, epsilon=20.0), 14) == []
    assert doubts(terms_of(250, samples=1000, epsilon=8.0), 250) == []


@given(teachers=st.integers(2, 50), more=st.integers(1, 200), sigma=st.floats(0.5, 150))
def test_more_teachers_never_make_it_worse(teachers, more, sigma):
    terms = terms_of(teachers, sigma=sigma)
    assert if_all_agree(terms, teachers).accuracy <= if_all_agree(terms, teachers + more).accuracy + 1e-9


@pytest.mark.parametrize(
    ("terms", "enrolled", "text"),
    [
        (terms_of(1, sigma=0.1), 5, "a single teacher"),
        (terms_of(10, sigma=1.0), 4, "needs the votes of 10 teachers, and 4 are enrolled"),
        (terms_of(10, sigma=1.0), 1, "1 is enrolled"),
        (
            terms_of(10, sigma=0.5, threshold="14"),
            50,
            "14 votes, and the job may run with 10",
        ),
        (terms_of(10, sigma=1.0, threshold="14"), 10, "0% of the samples would get a label"),
        (terms_of(10, sigma=90.0), None, "of the labels would be right"),
        (terms_of(1, sigma=9.0), None, "even if the only teacher was right"),
    ],
)
def test_what_speaks_against_a_job(terms, enrolled, text):
    assert any(text in what for what, _ in doubts(terms, enrolled))


def test_a_job_that_makes_sense_is_not_doubted():
    assert doubts(terms_of(100, sigma=5.0), 120) == []
    assert doubts(terms_of(100, sigma=5.0), None) == []


def test_the_requester_is_warned_before_anything_is_put_on_record(both_ways, deployed, data_file):
    with warnings.catch_warnings():
        warnings.simplefilter("error", SedmlWarning)
        with pytest.raises(SedmlWarning, match="of the labels would be right"):
            both_ways.create(data_file)
    assert deployed.s0.jobs == []
    with pytest.warns(SedmlWarning, match="needs the votes of 5 teachers, and 4 are enrolled"):
        both_ways.create(data_file, min_teachers=5)
    operator = Caller("operator-s1", "operator")
    accounts.revoke(deployed.s1.node, operator, "teacher-004")
    with pytest.warns(SedmlWarning, match="needs the votes of 4 teachers, and 3 are enrolled"):
        both_ways.create(data_file, min_teachers=4)


def test_how_many_teachers_there_are_is_not_for_teachers(deployed, kits):
    from sedml.service.server.ops.health import info

    assert info(deployed.s0.node, Caller("requester-1", "requester")).teachers == 4
    assert info(deployed.s0.node, Caller("operator-s0", "operator")).teachers == 4
    assert info(deployed.s0.node, Caller("teacher-001", "teacher")).teachers is None
    assert ClientKit.load(kits / "teacher-004").name == "teacher-004"
