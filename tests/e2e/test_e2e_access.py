"""Who may do what, at a real server: every route, every kind of caller, and nothing changes that should not."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from sedml.service.client import Operator
from sedml.service.kits import new_token, token_hash
from support.deployment import terms_for
from support.live_servers import Live
from support.server_process import Answer, Server

ALL = frozenset({"teacher", "requester", "operator"})
NOBODY = "0" * 32  # a job that does not exist
JOB = f"/v1/jobs/{NOBODY}"

# By method and path: the roles that may, and the status and code that these get, with a request that changes nothing.
RIGHTS: dict[tuple[str, str], tuple[frozenset[str], int, str]] = {
    ("GET", "/metrics"): (frozenset({"operator"}), 200, ""),
    ("GET", "/v1/server"): (ALL, 200, ""),
    ("GET", "/v1/budget"): (ALL, 200, ""),
    ("GET", "/v1/budget/own"): (frozenset({"teacher"}), 200, ""),
    ("PUT", "/v1/budget/own"): (frozenset({"teacher"}), 409, "privacy"),
    ("GET", "/v1/log"): (ALL, 200, ""),
    ("PUT", "/v1/log/restored"): (frozenset({"operator"}), 404, "not-found"),
    ("GET", "/v1/jobs"): (ALL, 200, ""),
    ("PUT", "/v1/jobs/{job}"): (frozenset({"requester"}), 422, "terms-mismatch"),
    ("GET", "/v1/jobs/{job}"): (ALL, 404, "not-found"),
    ("DELETE", "/v1/jobs/{job}"): (frozenset({"requester", "operator"}), 404, "not-found"),
    ("POST", "/v1/jobs/{job}/close"): (frozenset({"requester"}), 404, "not-found"),
    ("PUT", "/v1/jobs/{job}/data"): (frozenset({"requester"}), 404, "not-found"),
    ("GET", "/v1/jobs/{job}/data"): (ALL, 404, "not-found"),
    ("PUT", "/v1/jobs/{job}/ballot"): (frozenset({"teacher"}), 404, "not-found"),
    ("GET", "/v1/jobs/{job}/ballot"): (frozenset({"teacher"}), 404, "not-found"),
    ("GET", "/v1/jobs/{job}/labels/{block}"): (frozenset({"requester"}), 404, "not-found"),
    ("GET", "/v1/accounts"): (frozenset({"operator"}), 200, ""),
    ("PUT", "/v1/accounts/{name}"): (frozenset({"operator"}), 409, "conflict"),
    ("DELETE", "/v1/accounts/{name}"): (frozenset({"operator"}), 409, "conflict"),
    ("PUT", "/v1/token"): (ALL, 409, "conflict"),
}
OPEN = {("GET", path) for path in ("/healthz", "/readyz", "/openapi.json", "/v1/about", "/v1/log/checkpoint")}


@pytest.fixture(scope="module")
def strangers(sqlite_servers: Live) -> dict[str, dict[str, str | None]]:
    """By server: tokens that are none, or not of this server, or not any more; with the code that they get."""
    gone = "teacher-018"
    for name in ("s0", "s1"):
        Operator(sqlite_servers.kit(f"operator-{name}")).revoke_account(gone)
    return {
        name: {
            "missing-token": None,
            "invalid-token": new_token(),
            "invalid-token of the other server": sqlite_servers.token("teacher-001", other),
            "invalid-token in hexadecimal": token_hash(sqlite_servers.token("teacher-001", name)),
            "revoked": sqlite_servers.token(gone, name),
        }
        for name, other in (("s0", "s1"), ("s1", "s0"))
    }


def ask(live: Live, server: Server, method: str, path: str, token: str | None) -> Answer:
    """A request that is well-formed, and could change nothing even if it were allowed."""
    # An operator may not revoke itself, nor may anybody have the token of another.
    taken = token_hash(live.token("teacher-002", server.name))
    values = {"{job}": NOBODY, "{block}": "0", "{name}": f"operator-{server.name}"}
    headers, body = {}, None
    if path.endswith("/ballot"):
        headers = {"Sedml-Ballot": "1" * 64}
    if path == "/v1/jobs/{job}":
        body = terms_for(8).model_dump(mode="json") if method == "PUT" else None
    elif path == "/v1/log/restored":
        body = {"size": 3, "root": "ab" * 32}
    elif path.startswith("/v1/accounts/"):
        body = {"role": "teacher", "token_hash": taken} if method == "PUT" else None
    elif path == "/v1/token":
        body = {"token_hash": taken}
    elif path == "/v1/budget/own":
        body = {"limit": 1e-6} if method == "PUT" else None  # too small for any cohort
    elif method == "PUT":
        body = bytes(32)
    for name, value in values.items():
        path = path.replace(name, value)
    return server.ask(method, path, token, body, headers)


@pytest.mark.parametrize("name", ["s0", "s1"])
def test_every_route_is_for_whom_it_is_for(served: Live, strangers, name):
    server = getattr(served, name)
    described = server.ask("GET", "/openapi.json").document["paths"]
    routes = {(method.upper(), path) for path, methods in described.items() for method in methods}
    assert routes == RIGHTS.keys() | OPEN
    callers = {role: served.token(holder, name) for role, holder in holders(name).items()}
    before = served.rows()
    for (method, path), (allowed, status, code) in RIGHTS.items():
        for role, token in callers.items():
            found = ask(served, server, method, path, token)
            wanted = (status, code) if role in allowed else (403, "forbidden")
            assert (found.status, found.code) == wanted, (method, path, role)
        for why, token in strangers[name].items():
            found = ask(served, server, method, path, token)
            assert (found.status, found.code) == (401, why.split()[0]), (method, path, why)
            assert found.headers["www-authenticate"] == "Bearer"
    for method, path in OPEN:
        for token in (None, *strangers[name].values(), *callers.values()):
            assert server.ask(method, path, token).status == 200
    assert served.rows() == before


def holders(name: str) -> dict[str, str]:
    return {"teacher": "teacher-001", "requester": "requester-1", "operator": f"operator-{name}"}


def test_nobody_reaches_the_job_of_another_requester(served: Live):
    """requester-2 is told that there is no such job, wherever it asks; for teachers and operators there is."""
    job = served.create(8).id
    before = served.rows()
    for server in served.servers:
        for method, path in RIGHTS:
            if "{job}" not in path or path.endswith("/ballot"):
                continue
            token = served.token("requester-2", server.name)
            path = path.replace("{job}", job).replace("{block}", "0")
            body = bytes(32) if method == "PUT" else None
            if path == f"/v1/jobs/{job}" and method == "PUT":
                body = served.status(job, server)["terms"]
                answer = server.ask(method, path, token, body)
                assert (answer.status, answer.code) == (403, "forbidden")
                continue
            answer = server.ask(method, path, token, body)
            assert (answer.status, answer.code) == (404, "not-found"), (method, path)
        seen = server.ask("GET", "/v1/jobs", served.token("requester-2", server.name)).document
        assert seen == {"jobs": [], "more": False}
        for name in ("teacher-001", f"operator-{server.name}"):
            assert server.ask("GET", f"/v1/jobs/{job}", served.token(name, server.name)).status == 200
    assert served.rows() == before


def test_an_operator_sees_no_share_of_anything(served: Live):
    """Not a ballot, a seed or a token, by any route that it may use."""
    terms = served.create(64)
    served.vote(terms.id, np.zeros((3, 64), int))
    served.finish(terms.id)
    served.check_logs()  # which gathers all secrets that there are
    assert len(served.secrets) > 50
    for server in served.servers:
        token = served.token(f"operator-{server.name}", server.name)
        for path in ("/metrics", "/v1/server", "/v1/budget", "/v1/log", "/v1/jobs", "/v1/accounts"):
            answer = server.ask("GET", path, token)
            assert answer.status == 200
            assert served.secrets.found_in(answer.body) == [], path
        assert terms.id in {job["id"] for job in server.ask("GET", "/v1/jobs", token).document["jobs"]}
        assert b'sedml_jobs{state="done"}' in server.ask("GET", "/metrics", token).body


def test_a_token_counts_in_its_header_alone(served: Live):
    token = served.token("operator-s0", "s0")
    for path, headers in (
        (f"/v1/accounts?token={token}", {}),
        (f"/v1/accounts?access_token={token}", {}),
        ("/v1/accounts", {"Cookie": f"token={token}; Authorization={token}"}),
        ("/v1/accounts", {"X-Api-Key": token}),
        ("/v1/accounts", {"Proxy-Authorization": f"Bearer {token}"}),
    ):
        assert served.s0.ask("GET", path, headers=headers).code == "missing-token"
    served.check_logs()


def test_secrets_in_the_wrong_place_are_neither_logged_nor_sent_back(served: Live):
    """A token as the path, the query, a header, a name, a field, a ballot; and what comes back of it."""
    teacher, operator = served.token("teacher-001", "s0"), served.token("operator-s0", "s0")
    seed = served.kit("teacher-001").secret.hex()
    job = served.create(8).id
    requests = [
        ("GET", f"/{operator}", None, None, {}),
        ("GET", f"/v1/jobs/{teacher}", teacher, None, {}),
        ("GET", f"/v1/jobs/{seed}", teacher, None, {}),
        ("GET", f"/v1/accounts/{operator}", operator, None, {}),
        ("GET", f"/v1/log?start={operator}", operator, None, {}),
        ("GET", "/v1/server", teacher, None, {operator: "1", "X-Note": seed}),
        ("PUT", f"/v1/jobs/{job}/ballot", teacher, bytes.fromhex(seed), {"Sedml-Ballot": seed}),
        ("PUT", f"/v1/jobs/{job}/ballot", teacher, bytes.fromhex(seed) * 3, {"Sedml-Ballot": "0" * 64}),
        ("PUT", "/v1/accounts/somebody", operator, {"role": teacher, "token_hash": teacher}, {}),
        ("PUT", "/v1/accounts/somebody", operator, {teacher: seed}, {}),
        ("PUT", "/v1/accounts/somebody", operator, f'"{teacher}"', {}),
        ("PUT", "/v1/accounts/somebody", operator, f"not json {teacher}", {}),
        ("PUT", "/v1/token", teacher, {"token_hash": teacher}, {}),
        (teacher.replace("_", "-"), "/v1/server", teacher, None, {}),
    ]
    served.check_logs()
    before = served.rows()
    for method, path, token, body, headers in requests:
        answer = served.s0.ask(method, path, token, body, headers)
        assert 400 <= answer.status < 500 or path == "/v1/server", (method, path, answer.status)
        assert served.secrets.found_in(answer.body + repr(answer.headers).encode()) == []
    assert served.rows() == before
    served.check_logs()


# Requests of which two parsers may see different ends, and what is no HTTP/1.1 at all.
NO_REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost : a\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n\r\n",
    b"GET /healthz\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01" + bytes(100),
    b"\r\n" * 100 + b"GET",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: 1\r\n" * 5000 + b"\r\n",
    b"CONNECT s1:443 HTTP/1.1\r\nHost: a\r\n\r\n",
]


@pytest.mark.parametrize("request_", NO_REQUESTS, ids=range(len(NO_REQUESTS)))
def test_what_is_hardly_a_request_breaks_nothing(served: Live, request_):
    with served.s0.connect() as connection, contextlib.suppress(OSError):
        connection.sendall(request_)
        assert not connection.recv(1 << 16).startswith(b"HTTP/1.1 5")
    assert served.s0.ask("GET", "/v1/server", served.token("teacher-001", "s0")).status == 200
