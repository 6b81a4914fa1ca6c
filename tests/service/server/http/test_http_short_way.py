"""The short way gives the answers of the long one, whatever is asked of it."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from sedml.service.messages import SUBMISSION_HEADER
from sedml.service.server.http import short_way
from sedml.service.server.http.app import make_app
from support.http_fake import BALLOT, JOB, TERMS, FakeCore, bearer, token
from support.http_fake import settings as generous

BODIES = st.sampled_from([b"b" * BALLOT, b"c" * BALLOT, b"b" * (BALLOT - 1), b"b" * (BALLOT + 1), b"", b"b" * 70_000])
TOKENS = st.sampled_from([token(name) for name in ("teacher-1", "teacher-2", "teacher-9", "requester-1", "nobody")])
SCHEMES = st.sampled_from(["Bearer {}", "bearer {}", "Bearer  {}", "Basic {}", "{}", "Bearer {} more", ""])
SUBMISSIONS = st.sampled_from(["a" * 32, "b" * 32, "A" * 32, "a" * 31, "", None])
ENDS = ("{0}/ballot", "{0}", "{1}/ballot", "{1}", "{0}/ballot?x=1", "{0}/ballot/", "{2}/ballot", "{0}x")
PATHS = st.sampled_from(["/v1/jobs/" + end.format(JOB, "0" * 32, JOB.upper()) for end in ENDS])
METHODS = st.sampled_from(["PUT", "GET", "HEAD", "POST", "OPTIONS"])
TYPES = st.sampled_from(["application/octet-stream", "application/json", None])


@pytest.fixture
def two(monkeypatch, tmp_path):
    """The same interface twice, over one core that is emptied in between: with and without the short way."""
    core = FakeCore()
    core.install(monkeypatch)
    core.terms[JOB] = TERMS
    apps = [make_app(core.node(generous(tmp_path))) for _ in range(2)]

    async def long_way(*_):
        return False

    apps[1].state.short_way.takes = long_way
    with TestClient(apps[0]) as short, TestClient(apps[1]) as long:
        yield core, short, long


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(METHODS, PATHS, SCHEMES, TOKENS, SUBMISSIONS, TYPES, BODIES))
@example(("PUT", f"/v1/jobs/{JOB}/ballot", "Bearer {}", token("teacher-1"), "a" * 32, None, b"b" * BALLOT))
@example(("GET", f"/v1/jobs/{JOB}", "Bearer {}", token("teacher-1"), None, None, b""))
@example(("PUT", f"/v1/jobs/{JOB}/ballot", "Bearer {}", token("teacher-9"), "a" * 32, None, b"b" * BALLOT))
def test_both_ways_give_the_same_answer(two, log, asked):
    core, *clients = two
    method, path, scheme, shown, submission, media, body = asked
    headers = {"Authorization": scheme.format(shown)}
    headers |= {SUBMISSION_HEADER: submission} if submission is not None else {}
    headers |= {"Content-Type": media} if media is not None else {}
    answers = []
    for client in clients:
        core.stored.clear()
        core.audited.clear()
        core.calls.clear()
        log.clear()
        for _ in range(2):  # the second finds what the first has left
            answer = client.request(method, path, headers=headers, content=body)
        lines = [{key: value for key, value in line.items() if key != "ms"} for line in log]
        answers.append(
            (answer.status_code, dict(answer.headers), answer.content, dict(core.stored), dict(core.calls), lines)
        )
    assert answers[0] == answers[1]


def test_what_clients_send_takes_the_short_way(two, monkeypatch):
    _, short, _ = two
    monkeypatch.setattr("fastapi.FastAPI.__call__", None)  # the long way is closed
    headers = bearer("teacher-1") | {SUBMISSION_HEADER: "a" * 32, "Content-Type": "application/octet-stream"}
    assert short.put(f"/v1/jobs/{JOB}/ballot", headers=headers, content=b"b" * BALLOT).status_code == 201
    assert short.get(f"/v1/jobs/{JOB}", headers=bearer("teacher-1")).status_code == 200


def test_a_second_token_or_name_is_not_chosen_between():
    """Which of two counts is for the framework to say."""
    scope = {"query_string": b"", "raw_path": f"/v1/jobs/{JOB}".encode(), "method": "GET"}
    one = (b"authorization", b"Bearer one")
    assert short_way._asked(scope | {"headers": [one]}) is not None
    assert short_way._asked(scope | {"headers": [one, (b"authorization", b"Bearer two")]}) is None
