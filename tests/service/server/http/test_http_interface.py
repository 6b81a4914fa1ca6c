"""The interface as it describes itself, and whether it keeps to that whatever it is sent."""

from __future__ import annotations

import re

import pytest
from schemathesis.core.failures import FailureGroup

from support.http_check import check_api
from support.http_fake import BALLOT, JOB, TERMS, token

OPERATIONS = {
    ("get", "/healthz"),
    ("get", "/v1/about"),
    ("get", "/readyz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
    ("get", "/v1/server"),
    ("get", "/v1/budget"),
    ("get", "/v1/budget/own"),
    ("put", "/v1/budget/own"),
    ("get", "/v1/jobs"),
    ("put", "/v1/jobs/{job}"),
    ("get", "/v1/jobs/{job}"),
    ("delete", "/v1/jobs/{job}"),
    ("put", "/v1/jobs/{job}/data"),
    ("get", "/v1/jobs/{job}/data"),
    ("put", "/v1/jobs/{job}/ballot"),
    ("get", "/v1/jobs/{job}/ballot"),
    ("post", "/v1/jobs/{job}/close"),
    ("get", "/v1/jobs/{job}/labels/{block}"),
    ("get", "/v1/accounts"),
    ("put", "/v1/accounts/{name}"),
    ("delete", "/v1/accounts/{name}"),
    ("put", "/v1/token"),
    ("get", "/v1/log"),
    ("get", "/v1/log/checkpoint"),
    ("put", "/v1/log/restored"),
}
OPEN = {"/healthz", "/readyz", "/v1/about", "/v1/log/checkpoint", "/openapi.json"}
RAW = {"data", "ballot", "labels/{block}"}


@pytest.fixture
def described(client):
    return client.get("/openapi.json").json()


def operations(described):
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def test_all_operations_are_described(described):
    assert {(method, path) for method, path, _ in operations(described)} == OPERATIONS
    ids = [operation["operationId"] for _, _, operation in operations(described)]
    assert len(set(ids)) == len(ids)
    for _, _, operation in operations(described):
        assert operation["tags"]
        assert operation["summary"]
        assert operation["description"].startswith("For: ")


def test_all_errors_are_described_as_problems(described):
    for _, path, operation in operations(described):
        for status, response in operation["responses"].items():
            if int(status) >= 400 and (path, status) != ("/readyz", "503"):
                schema = response["content"]["application/problem+json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Problem"}
                assert list(response["content"]) == ["application/problem+json"]
        needed = {"404", "422", "429", "500"} | ({"401", "403"} if path not in OPEN else set())
        assert needed <= set(operation["responses"])
    assert "HTTPValidationError" not in described["components"]["schemas"]


def test_tokens_are_described(described):
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    for _, path, operation in operations(described):
        assert operation.get("security", []) == ([] if path in OPEN else [{"token": []}])


def test_raw_bytes_are_described(described):
    for method, path, operation in operations(described):
        tail = path.removeprefix("/v1/jobs/{job}/")
        if tail not in RAW:
            continue
        if method == "put":
            body = operation["requestBody"]
            assert list(body["content"]) == ["application/octet-stream"]
            assert body["description"]
            assert {"400", "408", "413"} <= set(operation["responses"])
        elif tail != "ballot":
            assert list(operation["responses"]["200"]["content"]) == ["application/octet-stream"]


def test_every_reference_leads_somewhere(described):
    def references(value):
        if isinstance(value, dict):
            if "$ref" in value:
                yield value["$ref"]
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    names = {re.fullmatch(r"#/components/schemas/(\w+)", reference)[1] for reference in references(described)}
    assert names <= set(described["components"]["schemas"])
    assert {"Terms", "Enrolment", "NewToken", "Problem", "JobStatus"} <= names


def test_it_keeps_to_its_description(app, core):
    core.terms[JOB] = TERMS
    core.stored["ballot", JOB, "teacher-1"] = b"a" * (32 + BALLOT)
    tokens = [token(name) for name in ("teacher-1", "requester-1", "operator-s0", "nobody")]
    answered = check_api(app, tokens, job=JOB, name="teacher-1")
    assert {200, 400, 401, 403, 404, 422} <= answered.keys()


def test_the_check_notices_what_it_should(app, core, monkeypatch):
    def fail(*_):
        raise ValueError("unforeseen")

    monkeypatch.setattr("sedml.service.server.public_log.page", fail)
    with pytest.raises(FailureGroup, match="Server error"):
        check_api(app, [token("operator-s0")], examples=5)
