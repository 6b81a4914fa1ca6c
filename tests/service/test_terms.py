"""The terms of a job: what they promise is checked, and those of older releases are refused with a sentence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sedml.errors import TaskError
from sedml.privacy.accounting import job_report
from sedml.service.terms import Terms, charge_at, check_terms, job_cost, task_of

TERMS = {
    "requester": "r",
    "classes": 10,
    "samples": 100,
    "threshold": "0.6",
    "sigma": 40.0,
    "epsilon": 2.0,
    "delta": 1e-5,
    "min_teachers": 50,
    "deadline": 1,
    "data_bytes": 1,
    "data_sha256": "0" * 64,
}


@pytest.mark.parametrize("older", [1, 2])
def test_terms_of_older_releases_are_refused(older):
    document = json.dumps(TERMS | {"format": older, "sigma1": 40.0, "sigma2": 40.0, "protocol": "fused"})
    with pytest.raises(ValidationError, match="of an older release"):
        Terms.model_validate_json(document)


def test_terms_from_before_there_were_releases_in_them_keep_their_id():
    """So that a server goes on with the jobs that it had when it was upgraded."""
    document = TERMS | {"format": 4, "nonce": "ab" * 16}
    assert Terms(**document).id == "a8a3a2a8c27334345a5a2bb02561e29f"
    assert "releases" not in Terms(**document).model_dump_json()


@pytest.mark.parametrize("gone", ["sigma1", "sigma2", "protocol"])
def test_what_is_gone_is_no_term(gone):
    with pytest.raises(ValidationError, match=gone):
        Terms(**TERMS | {gone: 1.0})


@settings(max_examples=20, deadline=None)
@given(samples=st.integers(1, 2000), sigma=st.floats(10.0, 80.0))
def test_the_terms_promise_what_the_requester_and_one_operator_together_can_learn(samples, sigma):
    cost = job_report(samples, sigma, 1e-5, classes=10)
    terms = Terms(**TERMS | {"samples": samples, "sigma": sigma, "epsilon": cost.epsilon})
    assert job_cost(terms) == cost
    check_terms(terms)
    assert charge_at(terms, 5.0).rho > 0
    # What holds only as long as neither operator works with the requester is not enough.
    with pytest.raises(TaskError, match="its terms promise"):
        check_terms(terms.model_copy(update={"epsilon": cost.epsilon_apart}))


def test_the_task_has_the_terms_and_the_roster():
    terms = Terms(**TERMS)
    task, other = task_of(terms, 60, "a"), task_of(terms, 60, "b")
    assert (task.classes, task.samples, task.teachers, task.threshold, task.sigma) == (10, 100, 60, 36, 40.0)
    assert task.id != other.id
