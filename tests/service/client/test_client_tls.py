"""HTTPS over loopback: who is believed to be a server, and what is said when nobody is there."""

import contextlib
import json
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import httpx2
import pytest
import stamina
from pydantic import BaseModel
from stamina.instrumentation import set_on_retry_hooks

from sedml.errors import ForbiddenError, KitError, ServerError, ServerIdentityError, UnreachableError
from sedml.mpc.certificates import issue_certificate, make_authority
from sedml.service.client.connection import opened
from sedml.service.client.secure import proxy_for
from sedml.service.kits import Access

TOKEN = "sedml_" + "t" * 43
AUTHORITY = make_authority()
S0 = issue_certificate(AUTHORITY, "s0")


class Hello(BaseModel):
    text: str


@pytest.fixture(autouse=True)
def twice_at_once():
    set_on_retry_hooks([])
    with stamina.set_testing(True, attempts=2, cap=True):
        yield
    set_on_retry_hooks(None)


class Server(ThreadingHTTPServer):
    """Answers every request with what it is told to, and counts them."""

    daemon_threads = True

    def __init__(self, context) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests, self.bodies = [], []
        self.answer, self.context = (200, {}, b'{"text": "hello"}'), context

    def finish_request(self, request, address):
        with contextlib.suppress(OSError):
            if self.context is None:
                super().finish_request(request, address)
                return
            with self.context.wrap_socket(request, server_side=True) as wrapped:
                super().finish_request(wrapped, address)

    def shutdown_request(self, request):
        with contextlib.suppress(OSError):
            super().shutdown_request(request)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        version = self.connection.version() if isinstance(self.connection, ssl.SSLSocket) else None
        self.server.requests.append((self.path, self.headers.get("Authorization"), version))
        if "Content-Length" in self.headers:
            self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        status, headers, body = self.server.answer
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.do_GET()

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def serving(credentials, tmp_path, *, newest=ssl.TLSVersion.TLSv1_3):
    context = None
    if credentials is not None:
        file = tmp_path / "server.pem"
        file.write_bytes(credentials.key + credentials.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = newest
        context.load_cert_chain(file)
    server = Server(context)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(server, path="/v1/server", authority=AUTHORITY.certificate, token=TOKEN):
    port = server if isinstance(server, int) else server.server_address[1]

    async def call():
        access = Access(f"https://127.0.0.1:{port}", token)
        async with opened("s0", access, authority) as connection:
            return await connection.get(path, Hello)

    return anyio.run(call)


def test_a_long_body_arrives_whole_with_its_length(tmp_path):
    body = bytes(range(256)) * 10_000

    async def call(port):
        async with opened("s0", Access(f"https://127.0.0.1:{port}", TOKEN), AUTHORITY.certificate) as connection:
            return await connection.put("/v1/jobs", Hello, body)

    with serving(S0, tmp_path) as server:
        assert anyio.run(call, server.server_address[1]).text == "hello"
        assert server.requests == [("/v1/jobs", f"Bearer {TOKEN}", "TLSv1.3")]
        assert server.bodies == [body]


def test_the_server_of_the_kit_is_spoken_to_by_its_name_over_tls_13(tmp_path):
    with serving(S0, tmp_path) as server:
        assert ask(server).text == "hello"
        assert server.requests == [("/v1/server", f"Bearer {TOKEN}", "TLSv1.3")]


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        (issue_certificate(AUTHORITY, "s1"), "Hostname mismatch"),
        (issue_certificate(AUTHORITY, "127.0.0.1"), "Hostname mismatch"),
        (issue_certificate(make_authority(), "s0"), "unable to get local issuer certificate"),
        (issue_certificate(AUTHORITY, "s0", days=0), "expired"),
    ],
    ids=["the other server", "an address", "another authority", "expired"],
)
def test_whoever_cannot_prove_to_be_the_server_is_told_nothing(tmp_path, credentials, reason):
    with serving(credentials, tmp_path) as server:
        with pytest.raises(ServerIdentityError, match=reason) as caught:
            ask(server)
        assert server.requests == []
    assert "cannot prove that it is s0" in caught.value.what


def test_neither_an_older_tls_nor_none_at_all_will_do(tmp_path):
    with serving(S0, tmp_path, newest=ssl.TLSVersion.TLSv1_2) as server, pytest.raises(ServerIdentityError):
        ask(server)
    with serving(None, tmp_path) as server:
        with pytest.raises(ServerIdentityError):
            ask(server)
        assert server.requests == []


def test_a_certificate_that_this_machine_trusts_otherwise_is_not_enough(tmp_path, monkeypatch):
    file = tmp_path / "ca.pem"
    file.write_bytes(AUTHORITY.certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with serving(S0, tmp_path) as server, pytest.raises(ServerIdentityError):
        ask(server, authority=make_authority().certificate)


def test_nobody_there(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with pytest.raises(UnreachableError, match="connection refused") as caught:
        ask(port)
    assert f"https://127.0.0.1:{port}" in caught.value.what
    assert "firewalls" in caught.value.do


def test_a_server_that_hangs_up_is_unreachable_not_an_impostor():
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up():
            for _ in range(2):
                listener.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(UnreachableError):
            ask(listener.getsockname()[1])
        thread.join()


def test_a_connection_that_is_reset_while_tls_waits_for_more_is_nothing_against_the_server(monkeypatch):
    """As when a server is killed in the middle of a handshake."""

    def reset(_request: httpx2.Request) -> httpx2.Response:
        try:
            raise ssl.SSLWantReadError
        except ssl.SSLWantReadError:
            raise httpx2.ConnectError("reset")  # noqa: B904 - this is how it comes

    monkeypatch.setattr("sedml.service.client.connection.https", lambda *_: httpx2.MockTransport(reset))
    with pytest.raises(UnreachableError):
        ask(1)


def test_what_a_server_says_cannot_steer_a_terminal(tmp_path):
    problem = {"type": "urn:sedml:forbidden", "title": "No.\x1b[2J\r\n", "status": 403, "detail": "x" * 9000}
    with serving(S0, tmp_path) as server:
        server.answer = 403, {}, json.dumps(problem).encode()
        with pytest.raises(ForbiddenError) as caught:
            ask(server)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 3000


@pytest.mark.parametrize(
    "answer",
    [
        (200, {}, b"no document"),
        (200, {}, b'{"other": 1}'),
        (302, {"Location": "https://127.0.0.1:1/"}, b""),
        (500, {}, b"oops"),
        (418, {}, b'{"type": "urn:sedml:no-such-code", "title": "Tea.", "status": 418, "detail": "Drink."}'),
        (200, {"Content-Encoding": "gzip"}, b"no gzip"),
    ],
    ids=["no json", "another document", "redirect", "no explanation", "unknown code", "bad encoding"],
)
def test_an_answer_that_is_none_is_an_error_of_the_server(tmp_path, answer):
    with serving(S0, tmp_path) as server:
        server.answer = answer
        with pytest.raises(ServerError) as caught:
            ask(server)
        assert len(server.requests) == 1
    assert type(caught.value) is ServerError


def test_an_answer_without_end_is_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr("sedml.service.client.connection._MAX_DOCUMENT", 1000)
    with serving(S0, tmp_path) as server:
        server.answer = 200, {}, b'{"text": "' + b"x" * 2000 + b'"}'
        with pytest.raises(ServerError, match=r"S0 .* answer"):
            ask(server)


def test_no_error_shows_a_token_or_chains_one_that_could(tmp_path):
    with serving(S0, tmp_path) as server:
        server.answer = 500, {}, b"oops"
        with pytest.raises(ServerError) as caught:
            ask(server)
    assert TOKEN not in repr(caught.value)
    with pytest.raises(UnreachableError) as caught:
        ask(1)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_a_kit_with_a_broken_authority_is_explained():
    with pytest.raises(KitError, match=r"ca\.pem"):
        ask(1, authority=b"nonsense")


def test_the_proxy_of_the_environment_is_used_but_not_for_this_machine(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert proxy_for("s0.example") == "http://proxy.example:3128"
    assert [proxy_for(host) for host in ("127.0.0.1", "localhost", "::1", "inside.example")] == [None] * 4
    monkeypatch.delenv("https_proxy")
    assert proxy_for("s0.example") is None
