"""A server sends its clients documents that fill their memory, lists without an end, or "not yet" for ever.

One server is enough for that, and its operator may be after the teachers of the other one.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import anyio
import httpx2
import pytest

from sedml.errors import ServerError, UnreachableError
from sedml.service.client import AsyncTeacher
from sedml.service.client.checkup import examine
from sedml.service.client.connection import connected
from sedml.service.kits import ClientKit, ServerKit
from sedml.service.messages import JobList
from sedml.service.server.access import Caller
from sedml.service.server.http.serving import https_context
from sedml.service.server.jobs import lifecycle, listing
from sedml.service.server_messages import AccountList, Health
from support.client_parties import Parties
from support.deployment import REQUESTER, terms_for
from support.memory_peak import peak
from support.stage import deployed, kits, provisioned, stage

__all__ = ["deployed", "kits", "provisioned", "stage"]

MB = 1 << 20
SIZE = MB - 100
"""As much as a client takes."""


BOMBS = {
    "items without their names": b'{"jobs":[' + b"{}," * (SIZE // 3) + b"{}]}",
    "items of another kind": b'{"jobs":[' + b"0," * (SIZE // 2) + b"0]}",
    "names that mean nothing": b'{"jobs":[],' + b'"":0,' * (SIZE // 5) + b'"more":0}',
    "an item of such names": b'{"jobs":[{' + b'"":0,' * (SIZE // 5) + b'"id":0}]}',
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_list_that_makes_no_sense_takes_little_memory(kits, deployed, bomb):
    deployed.servers[0].fault("GET /v1/jobs", httpx2.Response(200, content=bomb))

    def ask() -> None:
        with pytest.raises(ServerError, match="makes no sense"):
            Parties(kits, False).teacher(1, "jobs")

    assert peak(ask) < 256 * MB


STEERING = "\x1b]0;gotcha\x07\x1b[2J"
TEXTS = {
    "GET /v1/about": {"server": "s0", "version": STEERING, "release": "0" * 64, "kernel": None},
    "GET /readyz": {"ready": True, "checks": {"uploads": STEERING}},
    "GET /v1/server": {
        **dict.fromkeys(("certificate_expires", "time", "peer_seen"), "2030-01-01T00:00:00Z"),
        **{"server": "s0", "version": STEERING, "api": 5, "account": "teacher-001", "role": "teacher"},
        **{"max_data_bytes": 1, "disk_free_bytes": 1},
    },
}


@pytest.mark.parametrize("path", TEXTS)
def test_what_a_server_says_does_not_steer_the_terminal_of_who_looks_at_it(kits, deployed, path):
    deployed.servers[0].fault(path, httpx2.Response(200, json=TEXTS[path]), times=100)
    checks = anyio.run(examine, kits / "teacher-001")
    told = "".join(text for check in checks for text in (check.what, check.found, check.do))
    assert told.isprintable()
    assert any("makes no sense" in check.found for check in checks) or "unknown code" in told


def test_a_document_of_many_megabytes_is_not_read(kits, deployed):
    bomb = b'{"jobs":[],' + b'"":0,' * MB + b'"more":0}'
    deployed.servers[0].fault("GET /v1/jobs", httpx2.Response(200, content=bomb))

    def ask() -> None:
        with pytest.raises(ServerError, match="makes no sense"):
            Parties(kits, False).teacher(1, "jobs")

    assert peak(ask) < 64 * MB


def test_a_list_without_an_end_is_left_when_it_gets_long(kits, deployed, monkeypatch):
    """Each job is another one, and has a megabyte of text."""
    monkeypatch.setattr("sedml.service.client.async_client._MOST_BYTES", 4 * MB)
    server, terms = deployed.servers[0], terms_for(8, deadline=int(time.time()) + 3600)
    lifecycle.create(server.node, REQUESTER, terms.id, terms)
    [job] = json.loads(listing.page(server.node, REQUESTER))["jobs"]
    job["problem"] = {"type": "x", "title": "x", "status": 1, "detail": "x" * (SIZE - 4000)}

    def page(_: httpx2.Response) -> httpx2.Response:
        return httpx2.Response(200, content=json.dumps({"jobs": [job | {"id": secrets.token_hex(16)}], "more": True}))

    server.fault("GET /v1/jobs", page, times=50)
    with pytest.raises(ServerError, match="without end"):
        Parties(kits, False).teacher(1, "jobs")
    assert sum("/v1/jobs" in str(one) for one in server.seen) == 5


def test_jobs_whose_classes_have_long_names_fit_into_what_clients_take(kits, deployed):
    """A requester must not be able to keep teachers from seeing the others' jobs."""
    names = tuple(f"class {number:03} {'x' * 49}" for number in range(500))
    asked = {
        "classes": 500,
        "class_names": names,
        "sigma": 2000.0,
        "cohort": "guarded",
        "deadline": int(time.time()) + 3600,
    }
    server, operator = deployed.servers[0], Caller("operator-s0", "operator")
    long = [terms_for(8, requester=f"requester-{number % 2 + 1}", **asked) for number in range(40)]
    for terms in long:
        lifecycle.create(server.node, Caller(terms.requester, "requester"), terms.id, terms)
    found, after, more = set[str](), "", True
    while more:
        page = listing.page(server.node, operator, after)
        assert len(page) < MB
        read = JobList.model_validate_json(page)
        found |= {status.id for status in read.jobs}
        after, more = read.jobs[-1].id, read.more
    assert found == {terms.id for terms in long}


def test_all_accounts_that_a_server_may_have_can_still_be_listed(kits, deployed):
    account = {"name": "a" * 63, "organisation": "b" * 63, "role": "teacher", "created_at": "2030-01-01T00:00:00Z"}
    content = json.dumps({"accounts": [account] * 10_000}).encode()
    assert len(content) > MB
    server = deployed.servers[0]
    server.fault("GET /v1/accounts", httpx2.Response(200, content=content))

    async def ask() -> AccountList:
        async with connected(ClientKit.load(kits / "operator-s0"), "s0") as connection:
            return await connection.get("/v1/accounts", AccountList)

    assert len(anyio.run(ask).accounts) == 10_000


@contextmanager
def answering(kit: Path, begin: bytes, answer: bytes):
    """A server with the certificate of a kit, which begins so and goes on with this for ever; where it listens."""
    context = https_context(ServerKit.load(kit).credentials)
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                connection.recv(1 << 16)
                connection.sendall(begin)
                while not over.is_set():
                    connection.sendall(answer)
                    over.wait(0.01)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


ENDLESS = {
    "not yet": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "a head byte by byte": (b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "a length byte by byte": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x"),
}


@pytest.mark.parametrize(("begin", "answer"), ENDLESS.values(), ids=ENDLESS)
def test_a_server_that_never_comes_to_its_answer_is_left(kits, begin, answer, monkeypatch):
    monkeypatch.setattr("sedml.service.client.connection._PATIENT", 0.3)
    monkeypatch.setattr("sedml.service.client.connection._SLOWNESS", 0.3)
    with answering(kits / "s0", begin, answer) as address:
        path = kits / "teacher-001" / "kit.toml"
        path.write_text(path.read_text().replace("s0.example:8440", address))

        async def ask() -> None:
            async with connected(AsyncTeacher(kits / "teacher-001").kit, "s0", patience=0) as server:
                await server.get("/healthz", Health)

        with pytest.raises(UnreachableError, match="no answer in time"):
            anyio.run(ask)
