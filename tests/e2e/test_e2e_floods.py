"""Crowds at the doors of both servers, on real sockets: whoever is expected is served meanwhile."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from sedml.errors import ChannelError
from sedml.mpc.certificates import Credentials, issue_certificate, make_authority
from sedml.mpc.channel import connect
from sedml.service.terms import Terms
from support.deployment import terms_for
from support.flood import Flood, client_hello
from support.live_servers import Live
from support.server_process import WITHIN, until

SAMPLES = 64
ASKING = client_hello("sedml-link/1")
SAYINGS = {
    "mixed": [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", ASKING, client_hello()],
    "asking": [ASKING],
}


@pytest.mark.parametrize("saying", SAYINGS.values(), ids=SAYINGS)
def test_a_crowd_at_the_link_does_not_hold_up_a_job(served: Live, saying: list[bytes]):
    """Hundreds who stall before or amid the handshake, and come again as soon as they are cut off.

    They are all at S1's own address, and one of them shows a certificate that says it is S1.
    """
    votes = np.random.default_rng(3).integers(-1, 3, (3, SAMPLES))
    made = served.create(SAMPLES)
    served.vote(made.id, votes)
    own, port = served.s0.kit.credentials, served.s0.kit.link_port
    foreign = issue_certificate(make_authority(), "s1")
    believing = Credentials(foreign.certificate, foreign.key, own.authority)
    stop = threading.Event()

    def pretend() -> None:
        while not stop.is_set():
            with contextlib.suppress(ChannelError):
                connect(("127.0.0.1", port), b"0" * 16, believing, peer="s0", timeout=5.0).close()

    pretender = threading.Thread(target=pretend)
    flood = Flood(port, 400, lambda number: saying[number % len(saying)])
    with contextlib.ExitStack() as stack:
        stack.enter_context(flood.running())
        pretender.start()
        stack.callback(pretender.join)
        stack.callback(stop.set)
        labels = served.finish(made.id)
    served.check_labels(made, votes, labels)
    assert flood.opened > 400


# ---- Accounts that hold on ----------------------------------------------------------------------------------------


@pytest.fixture
def hold(served: Live) -> Iterator[Callable[..., list[ssl.SSLSocket]]]:
    """Send the beginnings of so many requests of one account to S1, and neither send the rest nor read an answer."""
    with contextlib.ExitStack() as held:

        def begin(count: int, account: str, method: str, path: str, **headers: object) -> list[ssl.SSLSocket]:
            lines = [f"{method} {path} HTTP/1.1", "Host: s1", f"Authorization: Bearer {served.token(account, 's1')}"]
            lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
            request = ("\r\n".join(lines) + "\r\n\r\n").encode()
            connections = [held.enter_context(served.s1.connect()) for _ in range(count)]
            for connection in connections:
                connection.sendall(request)
            return connections

        yield begin


def job_of(served: Live, requester: str, data: bytes | None, **changes: object) -> Terms:
    """A job at S1 alone, which gets the larger half of each ballot, with its data or without."""
    given = {
        "min_teachers": 3,
        "deadline": int(time.time()) + 3600,
        "data_bytes": len(data or b"") or 1 << 30,
        "data_sha256": hashlib.sha256(data or b"").hexdigest(),
    }
    terms = terms_for(**{"samples": SAMPLES} | given | changes, requester=requester, nonce=secrets.token_hex(16))
    token = served.token(requester, "s1")
    answer = served.s1.ask("PUT", f"/v1/jobs/{terms.id}", token, terms.model_dump_json())
    assert answer.status == 201, answer.document
    if data is not None:
        answer = served.s1.ask("PUT", f"/v1/jobs/{terms.id}/data", token, data)
        assert answer.status == 201, answer.document
    return terms


def test_one_requester_with_idle_uploads_does_not_keep_others_out(served: Live, hold):
    idle = job_of(served, "requester-1", None)
    hold(8, "requester-1", "PUT", f"/v1/jobs/{idle.id}/data", content_length=idle.data_bytes)
    job_of(served, "requester-2", b"some data")


def test_one_teacher_with_idle_ballots_does_not_keep_others_out(served: Live, hold):
    """Not even from a large vote on the same job."""
    terms = job_of(served, "requester-2", b"large", samples=10_000_000, sigma=16_384.0)
    size = terms.ballot.sizes[1]
    path, name = f"/v1/jobs/{terms.id}/ballot", "ab" * 32
    idle = hold((512 << 20) // size + 4, "teacher-001", "PUT", path, content_length=size, sedml_ballot=name)
    assert select.select(idle, [], [], WITHIN)[0], "some are refused, so no more are taken"
    [other] = hold(1, "teacher-002", "PUT", path, content_length=size, sedml_ballot=name, expect="100-continue")
    assert other.recv(1000).startswith(b"HTTP/1.1 100 ")


def test_unread_downloads_take_little_memory(served: Live, hold):
    data = bytes(32 << 20)
    terms = job_of(served, "requester-2", data)
    path = f"/v1/jobs/{terms.id}/data"
    before = served.s1.resident
    hold(150, "teacher-001", "GET", path)
    assert len(served.s1.ask("GET", path, served.token("teacher-002", "s1")).body) == len(data)
    assert served.s1.resident - before < 80 << 20


# ---- Strangers ----------------------------------------------------------------------------------------------------


def test_idle_connections_take_little_memory_and_give_it_back(served: Live):
    """Some without a handshake, some with one; good clients are served meanwhile."""
    server = served.s0
    before = server.resident
    with contextlib.ExitStack() as held:
        for _ in range(900):
            held.enter_context(socket.create_connection(("127.0.0.1", server.kit.port)))
        for _ in range(300):
            held.enter_context(server.connect())
        assert server.ask("GET", "/v1/jobs", served.token("teacher-001", "s0")).status == 200
        assert server.resident - before < 150 << 20
    until(lambda: server.resident - before < 32 << 20, "the memory is given back")
