"""Which jobs a server takes on: within the operator's limits, exactly as many as it may, and at little cost."""

from __future__ import annotations

import json
import secrets
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sedml.errors import RateLimitedError, TaskError
from sedml.privacy import noise
from sedml.service.kits import ServerKit, token_hash
from sedml.service.server.access import Caller
from sedml.service.server.http import App
from sedml.service.server.jobs import lifecycle
from sedml.service.server.ops import accounts
from sedml.service.server_messages import Enrolment
from sedml.service.terms import Terms
from support.deployment import REQUESTER, START, Clock, Site, shared_kits, terms_for
from support.http_drive import ask_raw, pieces
from support.tiers import DATABASES

TOKEN = "sedml_requester"
LONG = 2.0
"""Seconds of processor time that no answer takes."""


@contextmanager
def opened(folder, **settings):
    site = Site(ServerKit.load(shared_kits() / "s0"), {"data_dir": folder, **settings}, Clock())
    site.start()
    try:
        yield site.node
    finally:
        site.node.close()


@pytest.fixture
def node(tmp_path):
    with opened(tmp_path) as node:
        yield node


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """With no limits of the operator's, so that the terms must be checked."""
    most = ("processor_share", "processor_burst", "max_open_jobs", "max_open_jobs_per_requester", "max_samples")
    most += ("max_classes", "max_teachers", "max_data_bytes", "max_deadline")
    limits = dict.fromkeys(most, 10**9) | {"min_sigma": 5e-324, "max_sigma": noise.MAX_SIGMA}
    with opened(tmp_path_factory.mktemp("creating"), **limits) as node:
        enrolment = Enrolment(role="requester", token_hash=token_hash(TOKEN))
        accounts.enrol(node, Caller("operator-s0", "operator"), REQUESTER.name, enrolment)
        yield App(node)


def put(app, document):
    """The answer to a job of these terms, under its own id where they are terms at all."""
    try:
        job = Terms(**document).id
    except (ValueError, TypeError):
        job = "0" * 32
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    return ask_raw(app, "PUT", f"/v1/jobs/{job}", headers, pieces(json.dumps(document).encode()))


NUMBERS = st.one_of(
    st.floats(),
    st.floats(-323, 308).map(lambda exponent: 10.0**exponent),
    st.integers(),
    st.sampled_from([5e-324, 2.2e-308, 1e-10, 0.0, -0.0, 1.0, 16_384.0, 131_072.0, 2**31, 2**63, 10**400]),
)
COUNTS = st.one_of(st.integers(1, 100), st.sampled_from([0, 4096, 100_000, 10**7, 10**8, 2**31, 2**53, 2**64]), NUMBERS)
SOON = int(START.timestamp())
FIELDS = {
    "classes": st.integers(2, 1000) | COUNTS,
    "samples": COUNTS,
    "threshold": st.from_regex(r"[0-9]{0,10}(\.[0-9]{0,10})?", fullmatch=True) | st.text(max_size=20),
    "sigma": st.floats(0.01, 16_384) | NUMBERS,
    "epsilon": st.floats(0.01, 1e6) | NUMBERS,
    "delta": st.floats(1e-300, 1, exclude_max=True) | NUMBERS,
    "min_teachers": COUNTS,
    "deadline": st.integers(SOON - 10, SOON + 400 * 86_400) | NUMBERS,
    "data_bytes": COUNTS,
    "cohort": st.text(max_size=70),
}
# Few at once: one that is malformed hides what the others do.
CHANGES = st.sets(st.sampled_from(sorted(FIELDS)), max_size=3).flatmap(
    lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in sorted(names)})
)


@given(CHANGES)
@example({"sigma": 1e-10})
@example({"sigma": 5e-324, "epsilon": 1e6})
@example({"sigma": 2.5e-154, "delta": 1 - 2**-53})
@example({"delta": 5e-324})
@example({"epsilon": 5e-324})
@example({"classes": 2**31})
@example({"threshold": "0.000000001"})
def test_no_terms_make_the_server_fail_or_think_for_long(app, changes):
    document = json.loads(terms_for(8).model_dump_json()) | changes
    start = process_time()
    answer = put(app, document)
    assert process_time() - start < LONG
    assert answer.status in (200, 201, 400, 409, 422), answer.body


@pytest.mark.parametrize("body", [b"[" * 60_000, b'{"a":' * 10_000, b'{"samples":' + b"9" * 60_000 + b"}"])
def test_odd_json_is_refused_at_once(app, body):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    start = process_time()
    assert ask_raw(app, "PUT", f"/v1/jobs/{'0' * 32}", headers, pieces(body)).status == 422
    assert process_time() - start < LONG


def test_terms_are_checked_without_a_table_of_noise(node, monkeypatch):
    """Its size and the time it takes grow with a number that a stranger chooses."""

    def build(_sigma):
        pytest.fail("a table was built")

    monkeypatch.setattr(noise, "_build", build)
    for number in range(20):
        terms = terms_for(8, sigma=16_000.0 + number)
        _, new = lifecycle.create(node, REQUESTER, terms.id, terms)
        assert new


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ({"max_sigma": 30.0}, {"sigma": 31.0}),
        ({"min_sigma": 30.0}, {"sigma": 29.0}),
        ({"min_teachers": 5}, {"min_teachers": 4}),
        ({"max_teachers": 5}, {"min_teachers": 6}),
        ({"max_samples": 5}, {"samples": 6}),
        ({"max_classes": 5}, {"classes": 6}),
        ({"max_deadline": "1d"}, {"deadline": SOON + 86_401}),
        ({}, {"sigma": 131_072.0}),
        ({}, {"sigma": 1e-10}),
        ({}, {"deadline": SOON + 367 * 86_400}),
    ],
)
def test_the_operator_says_what_a_job_may_ask_for(tmp_path, limits, asked):
    terms = terms_for(**{"samples": 4} | asked)
    with opened(tmp_path, **limits) as node, pytest.raises(TaskError) as refused:
        lifecycle.create(node, REQUESTER, terms.id, terms)
    assert refused.value.do


@pytest.fixture(params=DATABASES)
def place(request):
    """Where a server keeps its records, as settings."""
    if request.param == "sqlite":
        return {}
    return {"database": request.getfixturevalue("postgres").new(f"creating_{secrets.token_hex(4)}")}


@pytest.mark.parametrize(("most", "each"), [(8, 100), (100, 5), (8, 5)])
def test_no_race_makes_more_jobs_than_there_may_be(place, tmp_path, most, each):
    callers = [Caller(f"requester-{number}", "requester") for number in range(3)]
    tries, threads = 12, 12
    start = threading.Barrier(threads)

    def create(number):
        if number < threads:
            start.wait()
        caller = callers[number % 3]
        terms = terms_for(4, requester=caller.name)
        try:
            lifecycle.create(node, caller, terms.id, terms)
        except RateLimitedError:
            return None
        return caller.name

    limits = {"max_open_jobs": most, "max_open_jobs_per_requester": each}
    with opened(tmp_path, **limits, **place) as node, ThreadPoolExecutor(threads) as pool:
        made = Counter(filter(None, pool.map(create, range(3 * tries))))
    expected = min(most, 3 * min(each, tries))
    assert made.total() == expected
    assert max(made.values()) <= each


def test_the_same_job_sent_many_times_at_once_is_created_once(place, tmp_path):
    terms = terms_for(4)
    start = threading.Barrier(8)

    def create(_number):
        start.wait()
        return lifecycle.create(node, REQUESTER, terms.id, terms)[1]

    with opened(tmp_path, max_open_jobs=1, **place) as node:
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(create, range(8))) == 1
        assert not lifecycle.create(node, REQUESTER, terms.id, terms)[1], (
            "nor is it refused where there is no more room"
        )


def test_a_job_does_not_take_its_own_place(tmp_path, monkeypatch):
    """PostgreSQL may show the count what it did not show the look before it: the same job, sent again, on record."""
    terms, find, looks = terms_for(4), lifecycle.find, iter([None])
    with opened(tmp_path, max_open_jobs=1) as node:
        lifecycle.create(node, REQUESTER, terms.id, terms)
        monkeypatch.setattr(lifecycle, "find", lambda *asked: next(looks, find(*asked)))
        assert not lifecycle.create(node, REQUESTER, terms.id, terms)[1]


def test_a_requester_cannot_keep_others_out(tmp_path):
    other = Caller("requester-2", "requester")
    with opened(tmp_path, max_open_jobs_per_requester=2) as node:
        for _ in range(2):
            terms = terms_for(4)
            lifecycle.create(node, REQUESTER, terms.id, terms)
        terms = terms_for(4)
        with pytest.raises(RateLimitedError, match="You have 2 unfinished jobs"):
            lifecycle.create(node, REQUESTER, terms.id, terms)
        theirs = terms_for(4, requester=other.name)
        assert lifecycle.create(node, other, theirs.id, theirs)[1]
