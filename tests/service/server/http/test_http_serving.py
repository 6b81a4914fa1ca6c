"""The interface over real TLS connections: for good clients, and for those who mean to keep it from them."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from sedml.errors import BodyTooLargeError, InputError
from sedml.mpc.certificates import Credentials, issue_certificate, make_authority
from sedml.service.client.connection import opened
from sedml.service.kits import Access
from sedml.service.messages import Receipt
from sedml.service.server.http import App, guard, serving, timeouts
from sedml.service.server.http.connections import Connections
from sedml.service.server.http.listener import affordable, bind, open_listener
from support.background_server import in_background
from support.http_fake import BALLOT, BALLOT_NAME, JOB, TERMS, bearer, settings, token

BALLOT_HEADERS = bearer("teacher-1") | {"Sedml-Ballot": BALLOT_NAME}
PATIENCE = 120.0


def trusting(authority: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority.decode())
    context.set_alpn_protocols(["http/1.1"])
    return context


class Deployment:
    """A server in this process, and ways to talk to it."""

    def __init__(self, core, folder, credentials, **changes):
        kit = {"folder": folder, "credentials": credentials}
        self.node = core.node(settings(folder / "data", **changes), **kit)
        self.app = App(self.node)
        self.connections = self.app.web.connections
        self.context = trusting(credentials.authority)
        self.server = None

    @contextmanager
    def running(self):
        with in_background(self.node, self.app) as self.server:
            yield self

    def client(self):
        return httpx2.Client(base_url=f"https://127.0.0.1:{self.server.port}", verify=self.context, timeout=PATIENCE)

    def plain(self):
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=PATIENCE)

    def connect(self):
        return self.context.wrap_socket(self.plain(), server_hostname="s0")


def ask(client, method, path, **request):
    return client.request(method, path, extensions={"sni_hostname": "s0"}, **request)


def read_all(connection):
    """All that comes until the server closes; a reset is a close too."""
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except (ConnectionError, ssl.SSLError):
        pass
    return found


def read_answer(connection):
    """One answer, and no byte of the next."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += connection.recv(1)
    top = found.lower()
    size = int(top.partition(b"content-length: ")[2].split(b"\r\n")[0]) if b"content-length: " in top else 0
    while size:
        piece = connection.recv(size)
        assert piece
        found, size = found + piece, size - len(piece)
    return found


def problem(raw):
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    return int(head.split()[1]), json.loads(body)["type"].removeprefix("urn:sedml:")


def head(method, path, headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: s0", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@pytest.fixture
def server(core, tmp_path, credentials):
    core.terms[JOB] = TERMS
    with Deployment(core, tmp_path, credentials[0]).running() as deployment:
        yield deployment


@pytest.fixture
def hasty(core, tmp_path, credentials):
    """A server with little patience."""
    core.terms[JOB] = TERMS
    with Deployment(core, tmp_path, credentials[0], header_timeout=1.0, body_timeout=0.5).running() as deployment:
        yield deployment


def test_a_good_client_is_served(server, core):
    with server.client() as client:
        for _ in range(3):
            assert ask(client, "GET", "/healthz").json()["status"] == "ok"
        answer = ask(client, "PUT", f"/v1/jobs/{JOB}/ballot", headers=BALLOT_HEADERS, content=b"b" * BALLOT)
        assert answer.status_code == 201
        assert "server" not in answer.headers
        assert len(server.connections) == 1, "one connection was used for all"
    assert core.stored["ballot", JOB, "teacher-1"] == BALLOT_NAME.encode() + b"b" * BALLOT


def test_it_is_tls_13_and_asks_for_no_certificate(server):
    with server.connect() as connection:
        assert connection.version() == "TLSv1.3"
        assert connection.selected_alpn_protocol() == "http/1.1"
        connection.sendall(head("GET", "/healthz", {}))
        assert b"200 OK" in read_answer(connection)
    server.context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError), server.connect():
        pass


def test_whoever_expects_another_server_finds_out(server, credentials):
    with pytest.raises(ssl.SSLCertVerificationError):
        server.context.wrap_socket(server.plain(), server_hostname="s1")
    with pytest.raises(ssl.SSLCertVerificationError):
        trusting(make_authority().certificate).wrap_socket(server.plain(), server_hostname="s0")


def test_a_connection_that_says_nothing_is_closed(hasty):
    with hasty.connect() as connection:
        assert problem(read_all(connection)) == (408, "request-timeout")


def test_a_handshake_that_never_comes_is_ended(hasty):
    with hasty.plain() as connection:
        assert read_all(connection) == b""
    with hasty.plain() as connection:
        connection.sendall(b"\x16\x03\x01")
        assert read_all(connection) == b""


@pytest.mark.parametrize("earlier", [0, 1, 3])
def test_a_head_that_trickles_is_ended(hasty, earlier):
    """On a new connection and on one that was good before, however steadily the bytes come."""
    with hasty.connect() as connection:
        for _ in range(earlier):
            connection.sendall(head("GET", "/healthz", {}))
            assert b"200 OK" in read_answer(connection)
        connection.settimeout(0.05)
        endless = head("GET", "/healthz", {"X-Slow": "a" * 1_000})
        found = b""
        for byte in endless:
            try:
                connection.sendall(bytes([byte]))
                found = connection.recv(65536)
                break
            except TimeoutError:
                continue
            except (ConnectionError, ssl.SSLError):
                break
        else:
            pytest.fail("all of it was waited for")
        assert found == b"" or problem(found) == (408, "request-timeout")


def test_a_connection_that_waits_between_requests_may(hasty):
    with hasty.connect() as connection:
        connection.sendall(head("GET", "/healthz", {}))
        assert b"200 OK" in read_answer(connection)
        connection.settimeout(1.3)
        with pytest.raises(TimeoutError):
            connection.recv(65536)
        connection.settimeout(PATIENCE)
        connection.sendall(head("GET", "/healthz", {}))
        assert b"200 OK" in read_answer(connection)


def test_good_clients_are_served_while_others_hold_on(hasty):
    with ExitStack() as held, hasty.client() as client:
        for number in range(40):
            connection = held.enter_context(hasty.plain() if number % 2 else hasty.connect())
            connection.sendall(b"\x16" if number % 2 else b"GET /hea")
        for _ in range(20):
            assert ask(client, "GET", "/healthz").status_code == 200


def send_until_closed(connection, most):
    """How much of an endless body the server lets in."""
    sent = 0
    try:
        while sent < most:
            sent += connection.send(b"x" * 16384)
    except (ConnectionError, ssl.SSLError):
        pass
    return sent


MOST = 64 << 20
BUFFERS = 16 << 20
"""What the two kernels may hold of a connection that nobody reads."""


TOO_LONG = [
    (f"/v1/jobs/{JOB}/ballot", BALLOT_HEADERS, (413, "body-too-large")),
    (f"/v1/jobs/{JOB}/data", bearer("requester-1"), (413, "body-too-large")),
    ("/v1/accounts/teacher-3", bearer("operator-s0"), (413, "body-too-large")),
    (f"/v1/jobs/{JOB}/ballot", {}, (401, "missing-token")),
    ("/nowhere", {}, (404, "not-found")),
]


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_long_is_not_read_to_its_end(server, core, announced, monkeypatch):
    monkeypatch.setattr(guard, "_DROPPED", 1 << 20)
    length = {"Content-Length": str(MOST)} if announced else {"Transfer-Encoding": "chunked"}
    for path, headers, expected in TOO_LONG:
        with server.connect() as connection:
            connection.sendall(head("PUT", path, headers | length))
            if not announced:
                connection.sendall(f"{MOST:x}\r\n".encode())
            assert send_until_closed(connection, MOST) < BUFFERS
            assert problem(read_all(connection)) == expected
    assert not core.stored
    # By its own count, the server has taken next to nothing in: of the three with a token, what it drops.
    with server.client() as client:
        text = ask(client, "GET", "/metrics", headers=bearer("operator-s0")).text
    received = next(line for line in text.splitlines() if line.startswith("sedml_http_received_bytes_total"))
    assert float(received.split()[1]) <= TERMS.data_bytes + (4 << 20)


def test_a_usual_client_sees_why_its_body_was_refused(server):
    with server.client() as client:
        for headers, status in ((BALLOT_HEADERS, 413), ({}, 401)):
            answer = ask(client, "PUT", f"/v1/jobs/{JOB}/ballot", headers=headers, content=b"x" * (8 << 20))
            assert answer.status_code == status


def test_so_does_ours_which_sends_all_of_a_body_before_it_listens(server, monkeypatch):
    monkeypatch.setattr(guard, "_LINGER", PATIENCE)

    async def send():
        access = Access(f"https://127.0.0.1:{server.server.port}", token("teacher-1"))
        async with opened("s0", access, server.node.kit.credentials.authority, patience=0) as connection:
            headers = {"Sedml-Ballot": BALLOT_NAME}
            await connection.put(f"/v1/jobs/{JOB}/ballot", Receipt, bytes(12 << 20), headers=headers)

    with pytest.raises(BodyTooLargeError):
        anyio.run(send)


def test_nothing_is_sent_before_it_is_wanted(server):
    expect = {"Expect": "100-continue", "Content-Length": str(BALLOT)}
    with server.connect() as connection:
        connection.sendall(head("PUT", f"/v1/jobs/{JOB}/ballot", expect))
        assert problem(read_all(connection)) == (401, "missing-token")
    with server.connect() as connection:
        connection.sendall(head("PUT", f"/v1/jobs/{JOB}/ballot", BALLOT_HEADERS | expect))
        assert read_answer(connection).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"b" * BALLOT)
        assert read_answer(connection).startswith(b"HTTP/1.1 201 ")


def test_a_body_that_breaks_off(server, core, log):
    with server.connect() as connection:
        connection.sendall(head("PUT", f"/v1/jobs/{JOB}/ballot", BALLOT_HEADERS | {"Content-Length": str(BALLOT)}))
        connection.sendall(b"b" * (BALLOT - 1))
    with server.client() as client:
        assert ask(client, "PUT", f"/v1/jobs/{JOB}/ballot", headers=BALLOT_HEADERS, content=b"c" * BALLOT).is_success
    assert core.stored["ballot", JOB, "teacher-1"].endswith(b"c" * BALLOT)
    assert core.calls["voting_accept_ballots"] == 1


def test_a_body_that_stalls(hasty, core):
    with hasty.connect() as connection:
        connection.sendall(head("PUT", f"/v1/jobs/{JOB}/ballot", BALLOT_HEADERS | {"Content-Length": str(BALLOT)}))
        connection.sendall(b"b" * 10)
        assert problem(read_all(connection)) == (408, "request-timeout")
    assert not core.stored


def test_a_client_that_does_not_read_is_let_go(hasty, core, tmp_path):
    core.data[JOB] = tmp_path / "large"
    with core.data[JOB].open("wb") as file:
        file.truncate(256 << 20)
    with hasty.connect() as connection:
        connection.sendall(head("GET", f"/v1/jobs/{JOB}/data", bearer("teacher-1")))
        wait_until(lambda: not hasty.server.server_state.connections and core.calls["public_data_file_of"])
        assert len(read_all(connection)) < 256 << 20


def wait_until(condition, patience=PATIENCE):
    """Ask the server itself instead of guessing how long it takes."""
    deadline = time.monotonic() + patience
    tick = threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        tick.wait(0.02)


NO_REQUESTS = [
    (b"nonsense\r\n\r\n", 400),
    (b"GET /\xff HTTP/1.1\r\nHost: s0\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: s0\r\nContent-Length: -1\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: s0\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nHost: s0\r\nX: " + b"a" * 20_000, 400),
    # One that comes at once is refused by the guard.
    (b"GET / HTTP/1.1\r\nHost: s0\r\nX: " + b"a" * 30_000 + b"\r\n\r\n", 431),
]


def test_a_client_that_leaves_with_more_on_its_way_leaves_nothing_behind(hasty):
    """Nothing is read while a pipelined request waits, and so nobody sees that the client is gone."""
    body = b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    for _ in range(10):
        with hasty.connect() as connection:
            connection.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: s0\r\n" + body + b"GET /x")
            assert read_answer(connection).startswith(b"HTTP/1.1 405")
    wait_until(lambda: not hasty.connections)


def test_what_is_no_request_gets_a_problem(server):
    for raw, status in NO_REQUESTS:
        with server.connect() as connection:
            connection.sendall(raw)
            found, code = problem(read_answer(connection))
            assert code == "malformed-request"
            assert found in ({400, 431} if status == 431 else {400})


def test_a_body_that_is_malformed_half_way(server, core, log):
    chunked = head("PUT", f"/v1/jobs/{JOB}/ballot", BALLOT_HEADERS | {"Transfer-Encoding": "chunked"})
    with server.connect() as connection:
        connection.sendall(chunked + b"a\r\n0123456789\r\n")
        wait_until(lambda: core.calls["voting_expect_ballot"])
        connection.sendall(b"no chunk\r\n\r\n")
        assert problem(read_answer(connection)) == (400, "malformed-request")
        # The request has ended with that, although the client stays.
        wait_until(lambda: any(entry["event"] == "request" for entry in log))
    assert [(entry["event"], entry["status"]) for entry in log if entry["event"] != "listening"] == [("request", 499)]
    assert not core.stored


@pytest.mark.parametrize(("headers", "path"), [({}, "/nowhere"), (BALLOT_HEADERS, f"/v1/jobs/{JOB}/ballot")])
def test_a_body_in_crumbs_is_not_taken(server, core, headers, path, monkeypatch):
    """Each chunk costs the thread that serves everybody as much as some kilobytes do, whoever sends it."""
    taken = []
    events = timeouts._Connection.next_event

    def counted(self):
        event = events(self)
        taken.append(event)
        return event

    monkeypatch.setattr(timeouts._Connection, "next_event", counted)
    with server.connect() as connection:
        connection.sendall(head("PUT", path, headers | {"Transfer-Encoding": "chunked"}) + b"1\r\nx\r\n" * 4000)
        found, code = problem(read_all(connection))
    assert (found, code) in ((400, "malformed-request"), (404, "not-found"))
    assert len(taken) < 100
    assert not core.stored


def test_a_body_in_a_few_chunks_is_taken_however_small_they_are(server, core):
    chunks = b"".join(b"%x\r\n%s\r\n" % (size, b"b" * size) for size in [1] * 20 + [BALLOT - 20])
    request = head("PUT", f"/v1/jobs/{JOB}/ballot", BALLOT_HEADERS | {"Transfer-Encoding": "chunked"})
    with server.connect() as connection:
        for _ in range(5):  # each counts for itself
            connection.sendall(request + chunks + b"0\r\n\r\n")
            assert read_answer(connection).startswith(b"HTTP/1.1 20")


def test_unknown_connections_give_way_to_newer_ones(core, tmp_path, credentials):
    """Half of all may be unknown, and the oldest goes first; whoever has shown a token stays."""
    with Deployment(core, tmp_path, credentials[0], max_connections=8).running() as small, small.client() as known:
        assert ask(known, "GET", "/v1/jobs", headers=bearer("teacher-1")).status_code == 200
        with ExitStack() as held:
            unknown = []
            for count in range(1, 6):
                unknown.append(held.enter_context(small.connect() if count % 2 else small.plain()))
                wait_until(lambda now=count: len(small.connections) == 1 + min(now, 4))
            assert read_all(unknown[0]) == b""
            assert small.connections.refused == 1
            with small.client() as newer:
                assert ask(newer, "GET", "/healthz").status_code == 200
            assert ask(known, "GET", "/v1/jobs", headers=bearer("teacher-1")).status_code == 200
            text = ask(known, "GET", "/metrics", headers=bearer("operator-s0")).text
            assert "sedml_http_connections_refused_total 2.0" in text
        wait_until(lambda: len(small.connections) == 1)


def test_one_account_does_not_hold_all_connections(core, tmp_path, credentials):
    """What it has above its share counts as unknown."""
    tight = {"max_connections": 16, "max_requests_per_account": 1, "max_unknown_per_address": 2}
    with Deployment(core, tmp_path, credentials[0], **tight).running() as small, ExitStack() as held:
        for _ in range(6):
            client = held.enter_context(small.client())
            assert ask(client, "GET", "/v1/jobs", headers=bearer("teacher-1")).status_code == 200
        wait_until(lambda: len(small.connections) == 4)
        with small.client() as other:
            assert ask(other, "GET", "/v1/jobs", headers=bearer("teacher-2")).status_code == 200


def test_connections_need_files():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        assert affordable(100) == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1024
        assert affordable(1000) == 1000
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 1512
        if before[1] != resource.RLIM_INFINITY:
            assert affordable(before[1] + 1) == before[1] - 512
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_port_that_is_taken():
    with bind("127.0.0.1", 0) as bound:
        bound.listen()
        with pytest.raises(InputError, match="Cannot listen"):
            bind("127.0.0.1", bound.getsockname()[1])


def test_an_address_that_is_shared_never_makes_anybody_wait():
    """Whether it blocks is the same for all processes: one that takes a copy must not change it for the others."""
    with bind("127.0.0.1", 0) as bound:
        assert not os.get_blocking(bound.fileno())
        with bound.dup() as copy, open_listener(copy, Connections.of(settings(Path()))):
            assert not os.get_blocking(bound.fileno())


def test_requests_in_flight_are_finished(core, tmp_path, credentials, monkeypatch):
    core.terms[JOB] = TERMS
    begun, go_on = threading.Event(), threading.Event()
    listed = core.listing_page

    def slow(*args):
        begun.set()
        assert go_on.wait(PATIENCE)
        return listed(*args)

    monkeypatch.setattr("sedml.service.server.jobs.listing.page", slow)
    answers = []
    events = []
    deployment = Deployment(core, tmp_path, credentials[0])
    server = serving.HttpsServer(
        deployment.node,
        deployment.app,
        on_start=lambda: events.append("start"),
        on_stop=lambda: events.append(("stop", len(answers))),
    )
    deployment.server = server
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_until(lambda: server.started)

    def call():
        with deployment.client() as client:
            answers.append(ask(client, "GET", "/v1/jobs", headers=bearer("teacher-1")).status_code)

    caller = threading.Thread(target=call)
    caller.start()
    assert begun.wait(PATIENCE)
    server.stop()
    wait_until(lambda: not server.servers[0].is_serving())
    with pytest.raises(OSError):
        deployment.plain()
    go_on.set()
    caller.join()
    thread.join()
    assert answers == [200]
    assert events == ["start", ("stop", 1)]


def test_idle_clients_do_not_hold_up_the_end(core, tmp_path, credentials, monkeypatch):
    monkeypatch.setattr(timeouts, "_FAREWELL", 0.1)
    deployment = Deployment(core, tmp_path, credentials[0])
    with ExitStack() as clients, deployment.running():
        for _ in range(3):
            client = clients.enter_context(deployment.client())
            assert ask(client, "GET", "/healthz").is_success


def test_a_start_that_fails(core, tmp_path, credentials):
    deployment = Deployment(core, tmp_path, credentials[0])

    def fail():
        raise InputError("It does not start.", "Look.")

    with pytest.raises(InputError), in_background(deployment.node, deployment.app, on_start=fail):
        pass


def write_credentials(folder, credentials: Credentials):
    (folder / "server.pem").write_bytes(credentials.certificate)
    (folder / "server.key").write_bytes(credentials.key)
    (folder / "ca.pem").write_bytes(credentials.authority)


def replace_authority(credentials: Credentials, authority: bytes) -> Credentials:
    return Credentials(credentials.certificate, credentials.key, authority)


def serial(deployment):
    with deployment.connect() as connection:
        return connection.getpeercert()["serialNumber"]


def test_a_renewed_certificate_is_taken_up(core, tmp_path, log):
    authority = make_authority()
    old, new = issue_certificate(authority, "s0"), issue_certificate(authority, "s0")
    taken = []
    with Deployment(core, tmp_path, old).running() as deployment, deployment.client() as client:
        deployment.server.on_reload = taken.append
        assert ask(client, "GET", "/healthz").is_success
        before = serial(deployment)
        write_credentials(tmp_path, new)
        deployment.server.reload()
        assert serial(deployment) != before
        assert taken == [new]
        assert ask(client, "GET", "/healthz").is_success

        for bad in (
            issue_certificate(authority, "s1"),
            issue_certificate(authority, "s0", days=0),
            replace_authority(issue_certificate(make_authority(), "s0"), authority.certificate),
            Credentials(new.certificate, old.key, new.authority),
        ):
            current = serial(deployment)
            write_credentials(tmp_path, bad)
            deployment.server.reload()
            assert serial(deployment) == current, "a certificate that cannot be used leaves the old one in place"
        (tmp_path / "server.pem").unlink()
        deployment.server.reload()
        assert serial(deployment) == current
    assert [entry["event"] for entry in log].count("certificate not renewed") == 5


PROCESS = """
import sys
from pathlib import Path
import pytest
sys.path.insert(0, sys.argv[1])
from support.http_fake import FakeCore, settings
from sedml.mpc.certificates import Credentials
from sedml.service.server.http import App, HttpsServer
folder = Path(sys.argv[2])
core = FakeCore()
core.install(pytest.MonkeyPatch())
credentials = Credentials.load(folder / "server.pem", folder / "server.key", folder / "ca.pem")
node = core.node(settings(folder / "data"), folder=folder, credentials=credentials)
HttpsServer(
    node,
    App(node),
    on_start=lambda: print("started", flush=True),
    on_stop=lambda: print("stopped", flush=True),
    on_reload=lambda _: print("reloaded", flush=True),
).run()
print("returned", flush=True)
"""


def test_signals(tmp_path, credentials):
    write_credentials(tmp_path, credentials[0])
    command = [sys.executable, "-c", textwrap.dedent(PROCESS), str(Path(__file__).parents[3]), str(tmp_path)]

    def until(process, word):
        assert any(line.strip() == word for line in process.stdout), word

    with ExitStack() as stack:
        numbers = (signal.SIGTERM, signal.SIGINT)
        start = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in numbers]
        for process, number in zip([stack.enter_context(one) for one in start], numbers, strict=True):
            until(process, "started")
            process.send_signal(signal.SIGHUP)
            until(process, "reloaded")
            process.send_signal(number)
            until(process, "stopped")
            until(process, "returned")
            assert process.wait(PATIENCE) == 0
