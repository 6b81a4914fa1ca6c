"""Credentials: what they hold, what they hide, what makes them useless."""

from __future__ import annotations

import dataclasses
import ssl
import tempfile
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sedml.errors import FileFormatError, InputError
from sedml.mpc.certificates import (
    Credentials,
    client_context,
    issue_certificate,
    make_authority,
    server_context,
    throwaway_credentials,
)


def test_repr_hides_everything_but_the_name(servers):
    assert repr(servers.s0) == "Credentials(name='s0')"
    assert repr(servers.authority) == "Authority()"


def test_a_certificate_names_its_server_and_nothing_more(servers):
    certificate = x509.load_pem_x509_certificate(servers.s1.certificate)
    issuer = x509.load_pem_x509_certificate(servers.s1.authority)
    certificate.verify_directly_issued_by(issuer)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["s1"]
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)


def test_throwaway_credentials_come_from_one_authority_and_never_twice():
    s0, s1 = throwaway_credentials()
    assert (s0.name, s1.name) == ("s0", "s1")
    assert s0.authority == s1.authority
    assert s0.key != s1.key
    assert throwaway_credentials()[0].authority != s0.authority


@pytest.mark.parametrize("make_context", [server_context, client_context])
def test_contexts_insist_on_tls_1_3_and_a_certificate(servers, make_context):
    context = make_context(servers.s0)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_3
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert len(context.get_ca_certs()) == 1


def test_the_key_is_on_disk_for_a_moment_only_and_for_us_only(servers, tmp_path, monkeypatch):
    modes = []
    load = ssl.SSLContext.load_cert_chain

    def spy(context, path, **options):
        modes.append((path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777))
        load(context, path, **options)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", spy)
    server_context(servers.s0)
    assert modes == [(0o600, 0o700)]
    assert list(tmp_path.iterdir()) == []


def test_credentials_are_read_from_files(servers, tmp_path):
    paths = [tmp_path / name for name in ("certificate.pem", "key.pem", "authority.pem")]
    contents = (servers.s0.certificate, servers.s0.key, servers.s0.authority)
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    assert Credentials.load(*paths) == servers.s0
    with pytest.raises(FileFormatError, match="nowhere"):
        Credentials.load(paths[0], Path("nowhere.pem"), paths[2])


@pytest.mark.parametrize("certificate", [b"", b"rubbish", make_authority().certificate])
def test_a_certificate_must_name_a_server(servers, certificate):
    with pytest.raises(InputError, match="names no server"):
        dataclasses.replace(servers.s0, certificate=certificate)


def encrypted(key: bytes) -> bytes:
    return serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )


@pytest.mark.parametrize("make_context", [server_context, client_context])
def test_parts_that_do_not_belong_together_are_refused(servers, make_context):
    unfit = [
        dataclasses.replace(servers.s0, key=servers.s1.key),
        dataclasses.replace(servers.s0, key=b"rubbish"),
        dataclasses.replace(servers.s0, key=encrypted(servers.s0.key)),
        dataclasses.replace(servers.s0, authority=b"rubbish \xff"),
        dataclasses.replace(servers.s0, authority=b""),
    ]
    for credentials in unfit:
        with pytest.raises(InputError, match="cannot be used together") as caught:
            make_context(credentials)
        assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize("name", ["", "*", "S0", "s0 s1", "-s0", "s" * 64, "ß"])
def test_not_every_name_can_be_certified(servers, name):
    with pytest.raises(InputError, match="name"):
        issue_certificate(servers.authority, name)


def test_an_authority_without_its_key_issues_nothing(servers):
    with pytest.raises(InputError, match="authority"):
        issue_certificate(dataclasses.replace(servers.authority, key=b"rubbish"), "s0")
