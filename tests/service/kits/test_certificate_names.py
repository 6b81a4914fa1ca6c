"""Programs that know a server by its host name alone can verify it; servers and clients still know S0 from S1."""

import http.client
import json
import ssl
import urllib.request

import anyio
import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import InputError, KitError, PeerIdentityError, ServerIdentityError
from sedml.mpc.certificates import Authority, host_names, issue_certificate, make_authority
from sedml.mpc.channel import connect
from sedml.service.client.connection import opened
from sedml.service.kits import Access, ServerKit, provision, renew_certificate
from sedml.service.server_messages import Health
from support.running_pair import running_pair

ADDRESSES = ("s0.example:8440", "10.0.0.6:8441")
OWN = ["127.0.0.1", "::1"]


@pytest.fixture
def named(tmp_path):
    provision(tmp_path / "named", ADDRESSES, None, 0, 0, names={"s0": ["s0.internal", "10.0.0.5", "S0.Example"]})
    return tmp_path / "named"


def test_a_certificate_has_the_hosts_that_were_given(named):
    assert ServerKit.load(named / "s0").host_names == ["s0.example", "s0.internal", "localhost", "10.0.0.5", *OWN]
    assert ServerKit.load(named / "s1").host_names == ["localhost", "10.0.0.6", *OWN]
    for name in ("s0", "s1"):
        assert ServerKit.load(named / name).credentials.name == name


def test_a_renewed_certificate_keeps_them_and_may_have_more(named):
    before = ServerKit.load(named / "s0").host_names
    renew_certificate(named / "s0", named / "authority")
    assert ServerKit.load(named / "s0").host_names == before
    renew_certificate(named / "s0", named / "authority", names=["new.example"])
    assert set(ServerKit.load(named / "s0").host_names) == {*before, "new.example"}
    (named / "s0" / "server.pem").unlink()
    renew_certificate(named / "s0", named / "authority", names=["s0.example"])
    assert ServerKit.load(named / "s0").host_names == ["s0.example", "localhost", *OWN]


def test_plain_programs_verify_a_server_by_its_host_and_the_kits_authority_alone(named, tmp_path):
    with running_pair(named, tmp_path / "data") as nodes:
        context = ssl.create_default_context(cafile=named / "operator-s0" / "ca.pem")
        port = nodes[0].kit.port
        for host in ("localhost", "127.0.0.1"):
            with urllib.request.urlopen(f"https://{host}:{port}/healthz", context=context) as answer:
                assert json.load(answer)["server"] == "s0"
        for host, good in (("s0.example", True), ("s0.internal", True), ("10.0.0.5", True), ("s1.example", False)):
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.connect()
            if good:
                with context.wrap_socket(connection.sock, server_hostname=host) as secure:
                    assert secure.version() == "TLSv1.3"
            else:
                with pytest.raises(ssl.SSLCertVerificationError):
                    context.wrap_socket(connection.sock, server_hostname=host)
            connection.close()


def test_who_shares_a_host_with_s0_is_not_taken_for_it(named, tmp_path):
    """Both have localhost and 127.0.0.1 in their certificates; that makes neither of them the other."""
    with running_pair(named, tmp_path / "data") as nodes:
        s0, s1 = (node.kit for node in nodes)

        async def ask(name, port):
            async with opened(name, Access(f"https://127.0.0.1:{port}", ""), s0.credentials.authority, 0) as server:
                return await server.get("/healthz", Health)

        assert anyio.run(ask, "s0", s0.port).server == "s0"
        for name, port in (("s0", s1.port), ("s1", s0.port)):
            with pytest.raises(ServerIdentityError):
                anyio.run(ask, name, port)
        with pytest.raises(PeerIdentityError):
            connect(("127.0.0.1", s0.link_port), bytes(16), s0.credentials, peer="s0", timeout=120.0)


@pytest.mark.parametrize("host", ["s0", "S0", " s0 "])
def test_no_certificate_of_s1_ever_names_s0(tmp_path, named, host):
    with pytest.raises(InputError, match="another server"):
        issue_certificate(make_authority(), "s1", hosts=[host])
    with pytest.raises(InputError, match="another server"):
        renew_certificate(named / "s1", named / "authority", names=[host])
    with pytest.raises(InputError, match="another server"):
        provision(tmp_path / "swapped", ("s1.example:1", "s1:2"), None, 0, 0, names={"s1": [host]})
    assert not (tmp_path / "swapped").exists()


def test_machines_may_be_called_as_their_servers_are(tmp_path):
    provision(tmp_path / "kits", ("s0:8440", "s1:8440"), None, 0, 0)
    assert ServerKit.load(tmp_path / "kits" / "s0").host_names == ["localhost", *OWN]


def test_a_kit_with_a_certificate_of_both_is_refused(named, monkeypatch):
    authority = Authority(*((named / "authority" / name).read_bytes() for name in ("ca.pem", "ca.key")))
    monkeypatch.setattr("sedml.mpc.certificates._SERVERS", set())
    both = issue_certificate(authority, "s1", hosts=["s0"])
    (named / "s1" / "server.pem").write_bytes(both.certificate)
    (named / "s1" / "server.key").write_bytes(both.key)
    with pytest.raises(KitError, match="of s0 too"):
        ServerKit.load(named / "s1")


_AUTHORITY = make_authority()


@given(st.lists(st.text(max_size=12), max_size=3))
def test_whatever_is_given_as_a_host_is_in_the_certificate_or_refused(hosts):
    try:
        made = issue_certificate(_AUTHORITY, "s1", hosts=hosts)
    except InputError:
        return
    assert made.name == "s1"
    found = host_names(made.certificate)
    assert "s0" not in found
    assert len(found) <= len(hosts)
    assert x509.load_pem_x509_certificate(made.certificate).subject.rfc4514_string() == "CN=s1"
