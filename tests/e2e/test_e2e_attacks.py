"""Bad requests, bad bodies, bad certificates and bad company: refused, nothing changed, everybody else served."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import socket
import ssl

import numpy as np
import pytest

from sedml.service.client.teacher import _fill_in
from sedml.service.terms import Terms
from support.live_servers import Live
from support.server_process import Answer, Server, read_answer, until

SAMPLES = 64  # of the job `terms`


def exchange(server: Server, request: bytes, *, end: bool = False) -> Answer | None:
    """Raw bytes, and what comes back; with `end` nothing more is sent. None if the server hangs up."""
    connection = http.client.HTTPConnection("127.0.0.1", server.kit.port)
    with server.connect() as connection.sock:
        connection._HTTPConnection__state = "Request-sent"
        try:
            connection.sock.sendall(request)
            return None if end else read_answer(connection)
        except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
            return None


def head(method: str, path: str, token: str, **headers: object) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: s0", f"Authorization: Bearer {token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


# ---- Votes ------------------------------------------------------------------------------------------------------


def test_a_ballot_counts_once_and_cannot_be_replaced(served: Live, terms: Terms):
    kit = served.kit("teacher-001")
    on_record = _fill_in(kit.secret, terms, np.random.default_rng(1).integers(-1, 3, (3, SAMPLES))[0])
    other = _fill_in(kit.secret, terms, np.zeros(SAMPLES, np.int64))
    path = f"/v1/jobs/{terms.id}/ballot"
    for role, server in enumerate(served.servers):
        token = kit.servers[server.name].token

        def put(half: bytes, submission: str, server=server, token=token):
            return server.ask("PUT", path, token, half, {"Sedml-Submission": submission})

        replayed = put(on_record.halves[role], on_record.submission)
        assert replayed.status == 200
        assert replayed.document == server.ask("GET", path, token).document
        for half, submission in (
            (other.halves[role], other.submission),
            (other.halves[role], on_record.submission),
            (on_record.halves[role], other.submission),
        ):
            refused = put(half, submission)
            assert (refused.status, refused.code) == (409, "conflict")
        assert server.ask("GET", path, token).document == replayed.document
        assert served.status(terms.id, server)["votes"] == 2


def test_a_job_is_called_by_the_hash_of_its_terms(served: Live, terms: Terms):
    """Whoever alters a term gets another job or none; it cannot be slipped under the same id."""
    changes = {"epsilon": 19.0, "threshold": "0.1", "sigma1": 19.0, "min_teachers": 1, "title": "x", "nonce": "0" * 32}
    for server in served.servers:
        token = served.token("requester-1", server.name)
        for name, value in changes.items():
            altered = terms.model_copy(update={name: value})
            answer = server.ask("PUT", f"/v1/jobs/{terms.id}", token, altered.model_dump_json())
            assert (answer.status, answer.code) == (422, "terms-mismatch"), name
        answer = server.ask("PUT", f"/v1/jobs/{terms.id}", token, terms.model_dump(mode="json") | {"more": 1})
        assert (answer.status, answer.code) == (422, "malformed-request")
        for unpayable in ({"sigma1": 1.0}, {"epsilon": 0.1}):
            cheap = terms.model_copy(update=unpayable | {"nonce": "1" * 32})
            answer = server.ask("PUT", f"/v1/jobs/{cheap.id}", token, cheap.model_dump_json())
            assert answer.code in {"task", "budget-exceeded"}


# ---- Bodies -----------------------------------------------------------------------------------------------------


def test_a_body_of_the_wrong_size_is_refused(served: Live, terms: Terms):
    """A very large one by its announcement alone; none of it is stored."""
    path, half = f"/v1/jobs/{terms.id}/ballot", "9" * 32
    for role, server in enumerate(served.servers):
        token, size = served.token("teacher-005", server.name), terms.ballot.sizes[role]
        typed = {"Sedml_Submission": half, "Content_Type": "application/octet-stream"}
        for length, expected in (
            (size + 1, (413, "body-too-large")),
            (10**15, (413, "body-too-large")),
            (size - 1, (400, "body-truncated")),
            (0, (400, "body-truncated")),
        ):
            body = bytes(length if length < 1000 else 0)
            answer = exchange(server, head("PUT", path, token, Content_Length=length, **typed) + body)
            assert (answer.status, answer.code) == expected, length
        chunks = f"{size + 1:x}\r\n".encode() + bytes(size + 1) + b"\r\n0\r\n\r\n"
        answer = exchange(server, head("PUT", path, token, Transfer_Encoding="chunked", **typed) + chunks)
        assert (answer.status, answer.code) == (413, "body-too-large")
        chunks = f"{size - 1:x}\r\n".encode() + bytes(size - 1) + b"\r\n0\r\n\r\n"
        answer = exchange(server, head("PUT", path, token, Transfer_Encoding="chunked", **typed) + chunks)
        assert (answer.status, answer.code) == (400, "body-truncated")
        # Half a body, and goodbye.
        exchange(server, head("PUT", path, token, Content_Length=size, **typed) + bytes(size // 2), end=True)
        typed["Content_Type"] = "application/json"
        answer = exchange(server, head("PUT", path, token, Content_Length=size, **typed) + bytes(size))
        assert answer.status == 415
        assert server.ask("GET", path, token).code == "not-found"


def test_an_upload_that_breaks_off_leaves_no_trace(served: Live):
    data = bytes(1 << 20)
    wanted = served.create(SAMPLES).model_copy(
        update={"data_bytes": len(data), "data_sha256": hashlib.sha256(data).hexdigest()}
    )
    for server in served.servers:
        token, path = served.token("requester-1", server.name), f"/v1/jobs/{wanted.id}"
        assert server.ask("PUT", path, token, wanted.model_dump_json()).status == 201
        before = served.rows()
        start = head("PUT", f"{path}/data", token, Content_Length=len(data), Content_Type="application/octet-stream")
        exchange(server, start + data[: len(data) // 2], end=True)
        until(lambda before=before: served.rows() == before, "the half is removed")
        wrong = server.ask("PUT", f"{path}/data", token, b"x" + data[1:])
        assert (wrong.status, wrong.code) == (422, "terms-mismatch")
        assert server.ask("GET", f"{path}/data", token).code == "not-found"
        assert served.rows() == before
        assert server.ask("PUT", f"{path}/data", token, data).status == 201


@pytest.mark.parametrize(
    "path",
    [
        "/v1/jobs/../accounts",
        "/v1/jobs/%2e%2e/accounts",
        "/v1/jobs/%2E%2E%2faccounts",
        "/v1/jobs/..%5caccounts",
        "/v1/jobs/..;/accounts",
        "//v1/accounts",
        "/v1//accounts",
        "/./v1/accounts",
        "/v1/accounts/",
        "/v1/accounts/.",
        "/V1/accounts",
        "/v1/accounts%00",
        "/v1/accounts%20",
        "/v1/%61ccounts",
        "/v1/accounts\\..\\jobs",
        "/v1/jobs/{job}/data/../../../../etc/passwd",
        "/v1/jobs/{job}/labels/-1",
        "/v1/jobs/{job}/labels/1e9",
        "/v1/jobs/{job}/labels/99999999999999999999",
        "/v1/jobs/{job}%0d%0aX-Injected:%201/data",
        "/v1/jobs/{JOB}",
        "/v1/jobs/{job}' OR '1'='1",
        "https://elsewhere.example/v1/accounts",
        "*",
        "/" + "a" * 4000,
    ],
)
def test_a_path_is_what_it_says(served: Live, path):
    token = served.token("operator-s0", "s0")
    job = "0123456789abcdef" * 2
    text = path.replace("{job}", job).replace("{JOB}", job.upper()).replace(" ", "%20" if "OR" not in path else "+")
    answer = exchange(served.s0, head("GET", text, token))
    assert answer is not None
    assert answer.status in {400, 403, 404, 422}, answer.status
    assert b"accounts" not in answer.body.replace(b"sedml account", b"")
    assert "x-injected" not in answer.headers


@pytest.mark.parametrize(
    "request_",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n X: folded\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"GET /healthz\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\nHost: a\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01" + bytes(100),
        b"\r\n" * 100 + b"GET",
        b"GET /" + b"a" * 100_000,
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n" + b"X: 1\r\n" * 5000 + b"\r\n",
        b"CONNECT s1:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_what_is_not_http_is_no_reason_to_fail(served: Live, request_):
    answer = exchange(served.s0, request_)
    assert answer is None or answer.status < 500
    assert served.s0.ask("GET", "/v1/server", served.token("teacher-001", "s0")).status == 200


def test_many_clients_that_never_finish_do_not_keep_others_out(served: Live):
    """A hundred of each kind hold on to their connection while a job is created, voted on and run."""
    token = served.token("teacher-006", "s0")
    with contextlib.ExitStack() as stack:
        for server in served.servers:
            for number in range(100):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.kit.port)))
                if number % 4 == 0:
                    stack.enter_context(server.connect())
                if number % 4 == 1:
                    stack.enter_context(server.connect()).sendall(b"GET /v1/server HT")
                if number % 4 == 2:
                    start = head("PUT", f"/v1/jobs/{'0' * 32}", token, Content_Length=1000)
                    stack.enter_context(server.connect()).sendall(start + b"{")
        votes = np.random.default_rng(2).integers(-1, 3, (3, SAMPLES))
        made = served.create(SAMPLES)
        served.vote(made.id, votes)
        served.check_labels(made, votes, served.finish(made.id))
