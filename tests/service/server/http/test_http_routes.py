"""Every route of the interface, as each role may use it."""

from __future__ import annotations

import pytest

from support.http_fake import BALLOT, BALLOT_NAME, JOB, TERMS, bearer

BALLOT_HEADERS = {"Sedml-Ballot": BALLOT_NAME}
ACCOUNT = {"role": "teacher", "token_hash": "ef" * 32}

ROUTES = [
    ("GET", "/v1/server", {}),
    ("GET", "/v1/budget", {}),
    ("GET", "/v1/budget/own", {}),
    ("PUT", "/v1/budget/own", {"json": {"limit": 2.0}}),
    ("GET", "/v1/jobs", {}),
    ("PUT", f"/v1/jobs/{JOB}", {"json": TERMS.model_dump()}),
    ("GET", f"/v1/jobs/{JOB}", {}),
    ("PUT", f"/v1/jobs/{JOB}/data", {"content": b"d" * 200_000}),
    ("GET", f"/v1/jobs/{JOB}/data", {}),
    ("PUT", f"/v1/jobs/{JOB}/ballot", {"content": b"b" * BALLOT, "headers": BALLOT_HEADERS}),
    ("GET", f"/v1/jobs/{JOB}/ballot", {}),
    ("POST", f"/v1/jobs/{JOB}/close", {}),
    ("GET", f"/v1/jobs/{JOB}/labels/0", {}),
    ("DELETE", f"/v1/jobs/{JOB}", {}),
    ("GET", "/v1/accounts", {}),
    ("PUT", "/v1/accounts/teacher-3", {"json": ACCOUNT}),
    ("DELETE", "/v1/accounts/teacher-3", {}),
    ("PUT", "/v1/token", {"json": {"token_hash": "ef" * 32}}),
    ("GET", "/v1/log", {}),
    ("PUT", "/v1/log/restored", {"json": {"size": 3, "root": "ab" * 32}}),
    ("GET", "/metrics", {}),
]


@pytest.fixture
def job(core):
    core.terms[JOB] = TERMS
    return JOB


def ask(client, who, method, path, **request):
    headers = request.pop("headers", {}) | (bearer(who) if who else {})
    return client.request(method, path, headers=headers, **request)


def test_a_job_from_its_creation_to_its_labels(client, core):
    created = ask(client, "requester-1", "PUT", f"/v1/jobs/{JOB}", json=TERMS.model_dump())
    assert created.status_code == 201
    assert created.json()["terms"] == TERMS.model_dump()
    assert ask(client, "requester-1", "PUT", f"/v1/jobs/{JOB}", json=TERMS.model_dump()).status_code == 200

    data = bytes(range(256)) * 781 + bytes(64)
    assert len(data) == TERMS.data_bytes
    assert ask(client, "requester-1", "PUT", f"/v1/jobs/{JOB}/data", content=data).status_code == 201
    fetched = ask(client, "teacher-1", "GET", f"/v1/jobs/{JOB}/data")
    assert fetched.content == data
    assert fetched.headers["content-type"] == "application/octet-stream"

    ballot = {"content": b"b" * BALLOT, "headers": BALLOT_HEADERS}
    cast = ask(client, "teacher-1", "PUT", f"/v1/jobs/{JOB}/ballot", **ballot)
    assert (cast.status_code, cast.json()["teacher"]) == (201, "teacher-1")
    assert ask(client, "teacher-1", "PUT", f"/v1/jobs/{JOB}/ballot", **ballot).status_code == 200
    other = ask(client, "teacher-1", "PUT", f"/v1/jobs/{JOB}/ballot", content=b"x" * BALLOT, headers=BALLOT_HEADERS)
    assert (other.status_code, other.json()["type"]) == (409, "urn:sedml:conflict")
    assert ask(client, "teacher-1", "GET", f"/v1/jobs/{JOB}/ballot").json() == cast.json()
    assert ask(client, "teacher-2", "GET", f"/v1/jobs/{JOB}/ballot").status_code == 404

    assert ask(client, "requester-1", "POST", f"/v1/jobs/{JOB}/close").json()["state"] == "closed"
    labels = ask(client, "requester-1", "GET", f"/v1/jobs/{JOB}/labels/0")
    assert labels.content == bytes(range(100))
    assert labels.headers["content-type"] == "application/octet-stream"
    assert ask(client, "operator-s0", "DELETE", f"/v1/jobs/{JOB}").json()["deleted"] is True


def test_accounts(client, core):
    assert ask(client, "operator-s0", "PUT", "/v1/accounts/teacher-3", json=ACCOUNT).status_code == 201
    assert ask(client, "operator-s0", "PUT", "/v1/accounts/teacher-3", json=ACCOUNT).status_code == 200
    other = ACCOUNT | {"token_hash": "aa" * 32}
    assert ask(client, "operator-s0", "PUT", "/v1/accounts/teacher-3", json=other).status_code == 409
    assert ask(client, "operator-s0", "DELETE", "/v1/accounts/teacher-3").json()["revoked_at"] is not None
    assert len(ask(client, "operator-s0", "GET", "/v1/accounts").json()["accounts"]) == 4
    assert ask(client, "teacher-1", "PUT", "/v1/token", json={"token_hash": "bb" * 32}).status_code == 200
    assert core.stored["token", "teacher-1"] == b"bb" * 32


def test_about_the_server(client, core):
    health = client.get("/healthz").json()
    assert (health["status"], health["server"], set(health)) == ("ok", "s0", {"status", "server", "version", "time"})
    assert client.get("/readyz").json() == {"ready": True, "checks": {"store": "ok"}}
    core.ready = False
    late = client.get("/readyz")
    assert (late.status_code, late.json()["ready"]) == (503, False)
    assert ask(client, "teacher-1", "GET", "/v1/server").json()["account"] == "teacher-1"
    assert [cohort["cohort"] for cohort in ask(client, "teacher-1", "GET", "/v1/budget").json()] == ["teachers"]
    core.audited = [("operator-s0", "enrol", f"teacher-{i}", "done") for i in range(3)]
    page = ask(client, "operator-s0", "GET", "/v1/log?start=2").json()
    assert [entry["number"] for entry in page["entries"]] == [2]
    assert client.get("/openapi.json").json()["openapi"].startswith("3.")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "missing-token"),
        ({"Authorization": "Basic dXNlcjpwYXNz"}, "missing-token"),
        ({"Authorization": "Bearer"}, "missing-token"),
        ({"Authorization": "Bearer sedml_somebody"}, "invalid-token"),
        (bearer("teacher-9"), "revoked"),
    ],
)
def test_nothing_without_a_good_token(client, core, job, headers, code):
    for method, path, request in ROUTES:
        answer = client.request(method, path, **(request | {"headers": request.get("headers", {}) | headers}))
        assert (answer.status_code, answer.json()["type"]) == (401, f"urn:sedml:{code}"), (method, path)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert set(core.calls) <= {"accounts_authenticate_all", "public_log_record"}


@pytest.mark.parametrize(
    ("who", "method", "path"),
    [
        ("teacher-1", "GET", "/metrics"),
        ("requester-1", "PUT", "/v1/log/restored"),
        ("teacher-1", "GET", "/v1/accounts"),
        ("teacher-1", "POST", f"/v1/jobs/{JOB}/close"),
        ("operator-s0", "GET", f"/v1/jobs/{JOB}/labels/0"),
    ],
)
def test_roles(client, core, job, who, method, path):
    answer = ask(client, who, method, path)
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:sedml:forbidden")
    template = path.replace(JOB, "{job}").replace("labels/0", "labels/{block}")
    assert core.audited == [(who, "access", f"{method} {template}", "forbidden")]


def test_terms_under_another_id(client, core):
    answer = ask(client, "requester-1", "PUT", f"/v1/jobs/{'0' * 32}", json=TERMS.model_dump())
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:sedml:terms-mismatch")


def test_every_answer_forbids_keeping_and_guessing(client):
    for path in ("/healthz", "/nowhere", "/v1/jobs"):
        answer = client.get(path)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_data_that_vanishes(client, core, job, tmp_path):
    core.data[JOB] = tmp_path / "gone"
    assert ask(client, "teacher-1", "GET", f"/v1/jobs/{JOB}/data").status_code == 404
