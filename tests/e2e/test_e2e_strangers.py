"""Certificates of others, at the servers' doors and on their link: whoever cannot prove who it is gets nothing."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from sedml.errors import ChannelError, PeerIdentityError, ServerIdentityError, UnreachableError
from sedml.mpc.channel import connect, issue_certificate, make_authority
from sedml.mpc.channel.certificates import Authority, Credentials
from sedml.service.client import Teacher
from sedml.service.kits import ServerKit
from sedml.service.terms import Terms
from support.live_servers import Live

SAMPLES = 64  # of the job `terms`

# ---- Certificates -----------------------------------------------------------------------------------------------


@pytest.fixture
def kit_with(served: Live, tmp_path):
    """The kit of a teacher, with something in it replaced."""

    def make(*, ports: dict[int, int] | None = None, authority: bytes | None = None):
        folder = shutil.copytree(served.kits / "teacher-003", tmp_path / "teacher-003")
        text = (folder / "kit.toml").read_text()
        for server in served.servers:
            text = text.replace(f":{server.kit.port}", f":<{server.kit.role}>")
        for server in served.servers:
            port = (ports or {}).get(server.kit.role, server.kit.port)
            text = text.replace(f":<{server.kit.role}>", f":{port}")
        (folder / "kit.toml").write_text(text)
        if authority is not None:
            (folder / "ca.pem").write_bytes(authority)
        return Teacher(folder, patience=0)

    return make


def test_a_client_that_meets_the_wrong_server_tells_it_nothing(served: Live, terms: Terms, kit_with):
    """S1 at the address of S0 is not S0, whatever its certificate is good for otherwise."""
    seen = [len(server.log.read_bytes()) for server in served.servers]
    teacher = kit_with(ports={0: served.s1.kit.port, 1: served.s0.kit.port})
    with pytest.raises(ServerIdentityError):
        teacher.vote(terms.id, predictions=np.zeros(SAMPLES, int))
    for server, start in zip(served.servers, seen, strict=True):
        assert b'"request"' not in server.log.read_bytes()[start:]


def test_a_client_believes_its_own_authority_alone(served: Live, terms: Terms, kit_with):
    with pytest.raises(ServerIdentityError):
        kit_with(authority=make_authority().certificate).vote(terms.id, predictions=np.zeros(SAMPLES, int))


@pytest.mark.parametrize("days", [0, 1])
def test_an_expired_certificate_gets_no_token(served: Live, terms: Terms, kit_with, days, tmp_path):
    """With one that is not expired the same trap catches the token, so it would have caught it."""
    folder = served.kits / "authority"
    authority = Authority((folder / "ca.pem").read_bytes(), (folder / "ca.key").read_bytes())
    expected = ServerIdentityError if days == 0 else UnreachableError
    with trap(issue_certificate(authority, "s0", days=days), tmp_path) as (port, caught), pytest.raises(expected):
        kit_with(ports={0: port}).vote(terms.id, predictions=np.zeros(SAMPLES, int))
    assert (served.token("teacher-003", "s0").encode() in b"".join(caught)) == (days > 0)


@contextlib.contextmanager
def trap(credentials: Credentials, folder) -> Iterator[tuple[int, list[bytes]]]:
    """Shows a certificate, and writes down what it is told."""
    file = folder / "trap.pem"
    file.write_bytes(credentials.key + credentials.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    caught: list[bytes] = []

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = listener.accept()
                with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as secure:
                    caught.append(secure.recv(1 << 16))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], caught
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2])
def test_nothing_older_than_tls_13_is_spoken(served: Live, version):
    context = ssl.create_default_context(cadata=served.s0.kit.credentials.authority.decode())
    context.maximum_version = version
    for server in served.servers:
        with (
            socket.create_connection(("127.0.0.1", server.kit.port)) as plain,
            pytest.raises(ssl.SSLError),
            context.wrap_socket(plain, server_hostname=server.name),
        ):
            pass
    answer = b""
    with socket.create_connection(("127.0.0.1", served.s0.kit.port)) as plain, contextlib.suppress(ConnectionError):
        plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: s0\r\n\r\n")
        answer = plain.recv(1000)
    assert b"HTTP" not in answer


# ---- The link ---------------------------------------------------------------------------------------------------


def test_strangers_at_the_link_are_refused_while_jobs_run(served: Live):
    """Whoever is not S1, or says nothing: eight of them hold on while a job is run to its end."""
    own, port = ServerKit.load(served.kits / "s0").credentials, served.s0.kit.link_port
    foreign = issue_certificate(make_authority(), "s1")
    before = served.rows()
    believing = Credentials(foreign.certificate, foreign.key, own.authority)
    for credentials in (own, believing, foreign):
        with pytest.raises(ChannelError) as refused:
            connect(("127.0.0.1", port), b"0" * 16, credentials, peer="s0", timeout=120.0).close()
        assert isinstance(refused.value, PeerIdentityError), refused.value
    nameless = ssl.create_default_context(cadata=own.authority.decode())
    nameless.set_alpn_protocols(["sedml-link/1"])
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        nameless.wrap_socket(plain, server_hostname="s0") as secure,
        pytest.raises((ssl.SSLError, ConnectionError)),  # which a client of TLS 1.3 learns only when it reads
    ):
        secure.recv(1)
    assert served.rows() == before
    with contextlib.ExitStack() as stack:
        for number in range(8):
            stalled = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            stalled.sendall(b"\x16\x03\x01" * (number % 2) + b"GET / HTTP/1.1\r\n\r\n" * (number == 7))
        votes = np.random.default_rng(3).integers(-1, 3, (3, SAMPLES))
        made = served.create(SAMPLES)
        served.vote(made.id, votes)
        served.check_labels(made, votes, served.finish(made.id))
