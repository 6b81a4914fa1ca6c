"""What the operator sees: figures and log lines, without a name, an id or an address where it does not belong."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sedml.errors import StoreError
from sedml.service.server.http.app import App
from support.http_fake import BALLOT, BALLOT_NAME, JOB, TERMS, bearer, settings, token


@pytest.fixture
def used(client, core):
    """A client after a handful of requests."""
    core.terms[JOB] = TERMS
    ballot = {"Sedml-Ballot": BALLOT_NAME}
    client.put(f"/v1/jobs/{JOB}/ballot", headers=bearer("teacher-1") | ballot, content=b"b" * BALLOT)
    client.put(f"/v1/jobs/{JOB}/ballot", headers=bearer("teacher-2") | ballot, content=b"b" * BALLOT)
    client.put(f"/v1/jobs/{JOB}/ballot", headers=bearer("teacher-1") | ballot, content=b"b")
    client.get("/v1/jobs?secret=sedml_query")
    client.get("/some/secret/path")
    client.request("SECRETMETHOD", "/v1/jobs")
    client.get("/v1/accounts/teacher-77", headers=bearer("operator-s0"))
    return client


def figures(client):
    answer = client.get("/metrics", headers=bearer("operator-s0"))
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }, answer.text


def test_requests_are_counted(used):
    found, _ = figures(used)
    ballot = ("method", "PUT"), ("route", "/v1/jobs/{job}/ballot")
    assert found["sedml_http_requests_total", *ballot, ("status", "201")] == 2
    assert found["sedml_http_requests_total", *ballot, ("status", "400")] == 1
    assert found["sedml_http_request_seconds_count", *ballot] == 3
    assert found["sedml_http_refused_total", ("code", "body-truncated")] == 1
    assert found["sedml_http_refused_total", ("code", "missing-token")] == 1
    assert found["sedml_http_requests_total", ("method", "GET"), ("route", "unknown"), ("status", "404")] == 1
    assert found["sedml_http_requests_total", ("method", "other"), ("route", "/v1/jobs"), ("status", "405")] == 1
    assert found["sedml_http_received_bytes_total",] == 2 * BALLOT + 1
    assert found["sedml_http_requests_in_flight",] == 1


def test_figures_of_the_core(used):
    found, _ = figures(used)
    assert found["sedml_jobs", ("state", "open")] == 2
    assert found["sedml_ballots_total",] == 7
    assert found["sedml_peer_seen_seconds",] == 0.5


def test_figures_and_log_name_nobody_and_nothing_secret(used, log):
    _, text = figures(used)
    lines = json.dumps(log)
    for word in (JOB, BALLOT_NAME, "teacher-77", "secret", "SECRET", "sedml_query", "testclient", token("teacher-1")):
        assert word not in text
        assert word not in lines
    assert "teacher-1" not in text
    assert "operator-s0" not in text


def test_log_lines(used, log):
    first = log[0]
    ms = first.pop("ms")
    assert 0 <= ms < 10_000
    assert first == {
        "event": "request",
        "log_level": "info",
        "method": "PUT",
        "route": "/v1/jobs/{job}/ballot",
        "status": 201,
        "code": None,
        "caller": "teacher-1",
        "role": "teacher",
    }
    refused = log[2]
    assert (refused["status"], refused["code"]) == (400, "body-truncated")
    stranger = log[4]
    assert (stranger["route"], stranger["caller"], stranger["role"]) == ("unknown", None, None)


def test_two_servers_in_one_process_do_not_mix(core, tmp_path):
    one, two = (App(core.node(settings(tmp_path))).web.metrics for _ in range(2))
    one.count("/v1/jobs", "GET", 200, 0.1, 10, None)
    assert b'route="/v1/jobs"' in one.text()
    assert b'route="/v1/jobs"' not in two.text()


def test_figures_when_the_store_is_away(client, monkeypatch):
    def fail(*_):
        raise StoreError("Away.", "Wait.")

    monkeypatch.setattr("sedml.service.server.ops.health.figures", fail)
    answer = client.get("/metrics", headers=bearer("operator-s0"))
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:sedml:store")
