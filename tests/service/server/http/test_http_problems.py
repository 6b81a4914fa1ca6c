"""Errors: always a problem document, with the right status, and never with anything that the client sent."""

from __future__ import annotations

import json
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sedml import errors
from sedml.service.messages import Problem
from sedml.service.problems import error_of
from sedml.service.server.http.refusals import problem_for
from sedml.service.server.jobs import listing
from support.http_drive import ask_raw
from support.http_fake import BALLOT_NAME, JOB, TERMS, bearer

SECRET = "sedml_PLANTEDSECRETVALUE"

STATUSES = {
    "missing-token": 401,
    "invalid-token": 401,
    "revoked": 401,
    "forbidden": 403,
    "not-found": 404,
    "conflict": 409,
    "job-state": 409,
    "deadline": 409,
    "too-few-teachers": 409,
    "replay": 409,
    "terms-mismatch": 422,
    "malformed-request": 422,
    "task": 422,
    "ring": 422,
    "predictions": 422,
    "body-too-large": 413,
    "body-truncated": 400,
    "request-timeout": 408,
    "rate-limited": 429,
    "budget-exceeded": 409,
    "store": 503,
    "ledger": 503,
}


def check(answer, status, code):
    assert answer.headers["content-type"] == "application/problem+json"
    problem = Problem.model_validate_json(answer.content)
    assert (answer.status_code, problem.status, problem.type) == (status, status, f"urn:sedml:{code}")
    assert problem.title
    assert problem.detail
    return problem


def test_errors_of_the_core(client, monkeypatch):
    for code, status in STATUSES.items():
        error = error_of(Problem(type=f"urn:sedml:{code}", title="What happened.", status=0, detail="What to do."))
        assert type(error) is not errors.ServerError
        monkeypatch.setattr(listing, "page", Mock(side_effect=error))
        answer = client.get("/v1/jobs", headers=bearer("teacher-1"))
        problem = check(answer, status, code)
        # Where a server keeps its records, and why they cannot be read, is for its operator's log alone.
        told = (problem.title, problem.detail) == ("What happened.", "What to do.")
        assert told is (code not in ("store", "ledger"))
        assert ("retry-after" in answer.headers) == (status == 429)


UNFORESEEN = [
    ValueError(SECRET),
    KeyError(SECRET),
    errors.ShareError(SECRET, SECRET),
    errors.KitError(SECRET, SECRET),
    errors.FileFormatError(SECRET, SECRET),
    errors.ServerError(SECRET, SECRET),
]


@pytest.mark.parametrize("error", UNFORESEEN, ids=lambda error: type(error).__name__)
def test_what_nobody_foresaw(client, monkeypatch, log, error):
    monkeypatch.setattr(listing, "page", Mock(side_effect=error))
    answer = client.get("/v1/jobs", headers=bearer("teacher-1"))
    problem = check(answer, 500, "internal")
    assert SECRET not in answer.text
    [entry] = [entry for entry in log if entry["event"] == "internal"]
    assert entry["incident"] in problem.detail
    assert type(error).__name__ in entry["exception"]
    if not isinstance(error, errors.SedmlError):
        assert SECRET not in json.dumps(log)


def test_an_error_is_that_of_its_most_specific_class():
    assert problem_for(errors.DeadlineError("a", "b")).type == "urn:sedml:deadline"
    assert problem_for(errors.JobStateError("a", "b")).type == "urn:sedml:job-state"
    assert problem_for(errors.BudgetExceededError("a", "b")).status == 409


def test_paths_and_methods_that_are_not_there(client):
    for method, path, status, code in (
        ("GET", "/", 404, "not-found"),
        ("GET", "/v2/jobs", 404, "not-found"),
        ("GET", "/docs", 404, "not-found"),
        ("GET", "/redoc", 404, "not-found"),
        ("GET", "/v1/jobs/", 404, "not-found"),
        ("POST", "/v1/jobs", 405, "malformed-request"),
        ("PATCH", f"/v1/jobs/{JOB}", 405, "malformed-request"),
        ("TRACE", "/v1/jobs", 405, "malformed-request"),
        ("WHATEVER", "/v1/jobs", 405, "malformed-request"),
    ):
        check(client.request(method, path, headers=bearer("operator-s0")), status, code)


def test_allow_names_all_methods_of_a_path(client):
    expected = "DELETE, GET, HEAD, OPTIONS, PUT"
    assert client.post(f"/v1/jobs/{JOB}").headers["allow"] == expected
    options = client.options(f"/v1/jobs/{JOB}")
    assert (options.status_code, options.content, options.headers["allow"]) == (204, b"", expected)
    assert client.options("/v1/jobs").headers["allow"] == "GET, HEAD, OPTIONS"
    check(client.options("/nowhere"), 404, "not-found")


def test_head_is_get_without_a_body(client, core, tmp_path):
    core.terms[JOB] = TERMS
    core.data[JOB] = tmp_path / "data"
    core.data[JOB].write_bytes(b"d" * 1000)
    for path in ("/healthz", "/v1/jobs", f"/v1/jobs/{JOB}/data", "/metrics"):
        full = client.get(path, headers=bearer("operator-s0"))
        head = client.head(path, headers=bearer("operator-s0"))
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"] == full.headers["content-type"]
        if path != "/metrics":
            assert head.headers["content-length"] == full.headers["content-length"]
    assert client.head("/v1/jobs").status_code == 401
    assert client.head(f"/v1/jobs/{JOB}/close", headers=bearer("requester-1")).status_code == 405


TRICKS = [
    "/v1/jobs/../accounts",
    "/v1/jobs/..%2faccounts",
    "/v1/jobs/%2e%2e/accounts",
    f"/v1/jobs/{JOB}%2fdata",
    f"/v1/jobs/{JOB}/dat%61",
    f"/v1/jobs/{JOB}%00",
    f"/v1/jobs/{JOB}%0a",
    f"/v1/jobs/{JOB}//data",
    f"/v1/jobs/{JOB}\\data",
    f"/v1/jobs/{'a' * 10_000}",
    "/v1/jobs/жжж",
    "/v1/jobs/%ff%fe",
    "/v1/jobs/%",
    f"/v1/log?start={'1' * 5000}",
]
NO_VALUES = [
    f"/v1/jobs/{JOB.upper()}",
    f"/v1/jobs/{'a' * 33}",
    f"/v1/jobs/{JOB}/labels/-1",
    f"/v1/jobs/{JOB}/labels/1e3",
    f"/v1/jobs/{JOB}/labels/{'9' * 100}",
    f"/v1/jobs/{JOB}/labels/0x10",
    "/v1/log?start=-1",
    "/v1/log?start=9999999999999999999999",
    "/v1/log?start=%00",
]


def test_paths_that_try_something(app, core, tmp_path):
    core.terms[JOB] = TERMS
    core.data[JOB] = tmp_path / "data"
    core.data[JOB].touch()

    def get(path):
        raw, _, query = path.partition("?")
        answer = ask_raw(app, "GET", raw.encode(), bearer("operator-s0"), query=query.encode())
        return answer.status, json.loads(answer.body)["type"]

    for path in TRICKS:
        assert get(path) == (404, "urn:sedml:not-found"), path
    assert not core.calls, "what cannot be a path of ours is looked at no further"
    for path in NO_VALUES:
        assert get(path) == (422, "urn:sedml:malformed-request"), path
    assert set(core.calls) == {"accounts_authenticate_all"}


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tail=st.binary(max_size=60), prefix=st.sampled_from([b"/v1/jobs/", b"/v1/accounts/", b"/v1/", b"/", b""]))
def test_no_path_breaks_it(app, tail, prefix):
    answer = ask_raw(app, "PUT", prefix + tail, bearer("operator-s0"))
    assert answer.status < 500
    if answer.status >= 400:
        Problem.model_validate_json(answer.body)


BAD_DOCUMENTS = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"\xff\xfe{}",
    b'{"role": "teacher"}',
    json.dumps({"role": SECRET, "token_hash": SECRET}).encode(),
    json.dumps({"role": "teacher", "token_hash": SECRET}).encode(),
    json.dumps({"role": "teacher", "token_hash": "ab" * 32, SECRET: SECRET}).encode(),
    json.dumps({"role": {"a": SECRET}, "token_hash": [SECRET]}).encode(),
    b'{"role": "teacher", "token_hash": NaN}',
    b'{"role": "\\ud800", "token_hash": "\\u0000"}',
    b"[" * 5000,
    b'{"role":' * 5000,
    b'{"role": ' + b"9" * 5000 + b"}",
]


def test_documents_that_do_not_fit(client):
    for body in BAD_DOCUMENTS:
        answer = client.put("/v1/accounts/teacher-3", headers=bearer("operator-s0"), content=body)
        check(answer, 422, "malformed-request")
        assert SECRET not in answer.text


def test_a_document_that_does_not_fit_is_told_where(client):
    terms = TERMS.model_dump() | {"classes": 1, "threshold": SECRET, "deadline": None}
    del terms["samples"]
    answer = client.put(f"/v1/jobs/{JOB}", headers=bearer("requester-1"), json=terms)
    detail = check(answer, 422, "malformed-request").detail
    for hint in ("classes", "threshold", "deadline", "samples is missing"):
        assert hint in detail
    assert SECRET not in answer.text


@pytest.mark.parametrize(
    ("headers", "part"),
    [({}, "missing"), ({"Sedml-Ballot": SECRET}, "pattern"), ({"Sedml-Ballot": BALLOT_NAME + "0"}, "pattern")],
)
def test_headers_that_do_not_fit(client, core, headers, part):
    core.terms[JOB] = TERMS
    answer = client.put(f"/v1/jobs/{JOB}/ballot", headers=bearer("teacher-1") | headers, content=b"b")
    assert part in check(answer, 422, "malformed-request").detail
    assert SECRET not in answer.text
    assert core.calls["voting_expect_ballot"] == 0


def test_heads_that_are_too_large(client):
    check(client.get("/healthz", headers={"X-Long": "a" * 20_000}), 431, "malformed-request")
    check(client.get("/healthz", headers={f"X-{i}": "a" for i in range(80)}), 431, "malformed-request")


@pytest.mark.parametrize(
    "headers", [{"Content-Type": "text/plain"}, {"Content-Encoding": "gzip", "Content-Type": "application/json"}]
)
def test_bodies_of_another_type(client, headers):
    answer = client.put("/v1/token", headers=bearer("teacher-1") | headers, content=b"{}")
    check(answer, 415, "malformed-request")


def test_an_answer_that_fails_half_way_is_cut_short(app, core, monkeypatch, tmp_path, log):
    from sedml.service.server.http import bodies

    core.terms[JOB] = TERMS
    core.data[JOB] = tmp_path / "data"
    core.data[JOB].write_bytes(b"d" * 3000)
    monkeypatch.setattr(bodies, "_ANSWER_CHUNK", 1000)

    class Broken:
        def __init__(self, file):
            self.file, self.reads = file, 0

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def fileno(self):
            return self.file.fileno()

        def read(self, size):
            self.reads += 1
            if self.reads == 2:
                raise OSError(SECRET)
            return self.file.read(size)

    monkeypatch.setattr(bodies, "_open", lambda path: Broken(path.open("rb")))
    answer = ask_raw(app, "GET", f"/v1/jobs/{JOB}/data".encode(), bearer("teacher-1"))
    assert (answer.status, answer.body, answer.complete) == (200, b"d" * 1000, False)
    assert [entry["event"] for entry in log] == ["internal", "request"]
    assert SECRET not in json.dumps(log)
