"""A server's old key is refused once its certificate was replaced: on the link, and by clients that have the list."""

from __future__ import annotations

import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import anyio
import pytest
import stamina
from cryptography import x509

from sedml.errors import ChannelError, KitError, PeerIdentityError, ServerIdentityError, UnreachableError
from sedml.mpc.certificates import Authority, make_authority
from sedml.mpc.channel import accept, connect, listen
from sedml.mpc.revocation import list_number, revoke
from sedml.service.client.connection import opened
from sedml.service.kits import REVOKED, Access, ClientKit, ServerKit, keep_revoked, renew_certificate
from sedml.service.server.http.serving import https_context, renew

TASK = bytes(16)


@pytest.fixture
def old(kits):
    """What whoever took the old key of each server has; both servers have new ones, and the list."""
    taken = {name: ServerKit.load(kits / name).credentials for name in ("s0", "s1")}
    for name in taken:
        renew_certificate(kits / name, kits / "authority")
    shutil.copy(kits / "authority" / REVOKED, kits / "s0" / REVOKED)
    return taken


def meet(s0, s1):
    """What each end of a link comes to."""
    with listen("127.0.0.1", 0) as listener, ThreadPoolExecutor(2) as threads:
        here = threads.submit(accept, listener, TASK, s0, timeout=120.0)
        there = threads.submit(connect, listener.getsockname(), TASK, s1, timeout=120.0)
        ends = []
        for one in (here, there):
            try:
                ends.append(one.result())
            except ChannelError as error:
                ends.append(error)
        for end in ends:
            if not isinstance(end, Exception):
                end.close()
        return ends


def now(kits, name):
    return ServerKit.load(kits / name).credentials


def test_the_new_certificates_are_taken(kits, old):
    assert [type(end).__name__ for end in meet(now(kits, "s0"), now(kits, "s1"))] == ["TlsChannel", "TlsChannel"]


@pytest.mark.parametrize("thief", ["s0", "s1"])
def test_a_replaced_key_is_refused_on_the_link(kits, old, thief):
    pair = {name: now(kits, name) for name in ("s0", "s1")} | {thief: old[thief]}
    ends = dict(zip(("s0", "s1"), meet(pair["s0"], pair["s1"]), strict=True))
    honest = "s1" if thief == "s0" else "s0"
    assert isinstance(ends[honest], PeerIdentityError)
    assert "revoked" in ends[honest].what
    assert isinstance(ends[thief], ChannelError)


def test_without_the_list_it_would_be_taken(kits, old):
    (kits / "s1" / REVOKED).unlink()
    assert [type(end).__name__ for end in meet(old["s0"], now(kits, "s1"))] == ["TlsChannel", "TlsChannel"]


def test_a_server_that_runs_takes_up_a_list_with_its_certificate(kits, old):
    """As at SIGHUP."""
    listed = (kits / "s1" / REVOKED).read_bytes()
    (kits / "s1" / REVOKED).unlink()
    kit = ServerKit.load(kits / "s1")
    assert not isinstance(meet(old["s0"], kit.credentials)[1], Exception)
    (kits / "s1" / REVOKED).write_bytes(listed)
    assert isinstance(meet(old["s0"], renew(https_context(kit.credentials), kit))[1], PeerIdentityError)


def visit(credentials, trusted):
    """A client that trusts this calls S0, which has these credentials, and hangs up after the handshake."""

    def shake_hands(listener, context):
        connection, _ = listener.accept()
        with suppress(OSError), context.wrap_socket(connection, server_side=True):
            pass

    async def call(port):
        async with opened("s0", Access(f"https://127.0.0.1:{port}", ""), trusted, 0) as server:
            await server.content("/healthz", 1000)

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as threads:
        listener.settimeout(120.0)
        threads.submit(shake_hands, listener, https_context(credentials))
        with stamina.set_testing(True, attempts=1):
            anyio.run(call, listener.getsockname()[1])


def test_a_client_with_the_list_refuses_a_replaced_key_and_tells_it_nothing(kits, old):
    folder = kits / "teacher-001"
    with pytest.raises(UnreachableError):  # it was content with the certificate, and nothing answered
        visit(old["s0"], ClientKit.load(folder).authority)
    shutil.copy(kits / "authority" / REVOKED, folder / REVOKED)
    with pytest.raises(ServerIdentityError, match="revoked"):
        visit(old["s0"], ClientKit.load(folder).authority)
    with pytest.raises(UnreachableError):
        visit(now(kits, "s0"), ClientKit.load(folder).authority)


def test_every_certificate_that_was_replaced_stays_on_the_list(kits):
    serials = []
    for _ in range(3):
        serials.append(x509.load_pem_x509_certificate(now(kits, "s0").certificate).serial_number)
        renew_certificate(kits / "s0", kits / "authority")
    listed = (kits / "authority" / REVOKED).read_bytes()
    assert [one.serial_number for one in x509.load_pem_x509_crl(listed)] == serials
    assert list_number(listed) == 3


def test_a_kit_keeps_the_newest_list_of_its_authority(kits):
    folder, lists = kits / "teacher-001", []
    for _ in range(2):
        renew_certificate(kits / "s0", kits / "authority")
        lists.append((kits / "authority" / REVOKED).read_bytes())
    assert keep_revoked(folder, lists[0])
    assert keep_revoked(folder, lists[1])
    assert not keep_revoked(folder, lists[0])
    assert (folder / REVOKED).read_bytes() == lists[1]


def test_a_list_of_somebody_else_is_refused(kits):
    stranger = make_authority("SEDML deployment")
    forged = revoke(Authority(stranger.certificate, stranger.key), now(kits, "s0").certificate)
    for bad in (forged, b"no list"):
        with pytest.raises(KitError, match="did not sign"):
            keep_revoked(kits / "teacher-001", bad)
        assert not (kits / "teacher-001" / REVOKED).exists()
        (kits / "s1" / REVOKED).write_bytes(bad)
        with pytest.raises(KitError, match="not a list of revoked certificates"):
            ServerKit.load(kits / "s1")


def test_a_server_whose_own_certificate_was_revoked_says_so(kits):
    kept = shutil.copytree(kits / "s0", kits / "kept")
    renew_certificate(kits / "s0", kits / "authority")
    shutil.copy(kits / "authority" / REVOKED, kept / REVOKED)
    with pytest.raises(KitError, match="was revoked"):
        ServerKit.load(kept)


def test_a_kit_that_has_lost_its_certificate_gets_one(kits):
    (kits / "s0" / "server.pem").unlink()
    renew_certificate(kits / "s0", kits / "authority")
    assert ServerKit.load(kits / "s0").name == "s0"
    assert not (kits / "authority" / REVOKED).exists()
