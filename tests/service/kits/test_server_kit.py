"""A server's kit: its parts must belong together, and to the server that it names."""

import json
import os
import shlex
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization

from sedml.errors import KitError
from sedml.mpc.certificates import make_authority
from sedml.service.kits import ServerKit, authority_fingerprint, check_private, provision
from sedml.service.kits.folder import exposed
from sedml.service.kits.inspection import expiries


def test_a_kit_says_who_and_where(kits):
    s0, s1 = ServerKit.load(kits / "s0"), ServerKit.load(str(kits / "s1"))
    assert [(kit.name, kit.role, kit.host, kit.port) for kit in (s0, s1)] == [
        ("s0", 0, "0.0.0.0", 8440),
        ("s1", 1, "0.0.0.0", 8441),
    ]
    assert (s0.link_host, s0.link_port) == ("0.0.0.0", 8540)
    assert (s1.link_host, s1.link_port) == ("s0.example", 8540)
    assert s0.credentials.name == "s0"
    assert len(s0.storage_key) == 32
    assert s0.storage_key != s1.storage_key
    year = datetime.now(UTC) + timedelta(days=365)
    assert abs(expiries(s0.credentials)["server"] - year) < timedelta(hours=1)


def test_no_repr_shows_a_secret(kits):
    kit = ServerKit.load(kits / "s0")
    shown = repr(kit)
    assert "s0" in shown
    hidden = [kit.storage_key.hex(), repr(kit.storage_key), "PRIVATE", kit.accounts[0].token_hash]
    assert not [secret for secret in hidden if secret in shown]


def test_the_fingerprint_is_openssl_s(kits):
    import ssl
    from hashlib import sha256

    authority = (kits / "authority" / "ca.pem").read_bytes()
    assert authority_fingerprint(authority) == sha256(ssl.PEM_cert_to_DER_cert(authority.decode())).hexdigest()


@pytest.mark.parametrize("name", ["kit.toml", "ca.pem", "server.pem", "server.key", "storage.key", "accounts.json"])
def test_a_missing_file_is_named(kits, name):
    (kits / "s0" / name).unlink()
    with pytest.raises(KitError, match=f"{name} is missing"):
        ServerKit.load(kits / "s0")


def test_settings_are_not_part_of_the_identity(kits):
    (kits / "s0" / "server.toml").unlink()
    assert ServerKit.load(kits / "s0").name == "s0"


def test_the_certificate_of_the_other_server_is_refused(kits):
    for name in ("server.pem", "server.key"):
        (kits / "s0" / name).write_bytes((kits / "s1" / name).read_bytes())
    with pytest.raises(KitError, match="certificate of s1, and this is the kit of s0"):
        ServerKit.load(kits / "s0")


def test_a_key_of_another_certificate_is_refused(kits):
    (kits / "s0" / "server.key").write_bytes((kits / "s1" / "server.key").read_bytes())
    with pytest.raises(KitError, match="not the key of the certificate"):
        ServerKit.load(kits / "s0")


def test_an_authority_that_did_not_issue_the_certificate_is_refused(kits):
    (kits / "s0" / "ca.pem").write_bytes(make_authority("SEDML deployment").certificate)
    with pytest.raises(KitError, match="not issued by the authority"):
        ServerKit.load(kits / "s0")


def test_a_certificate_or_key_that_is_none_is_refused(kits):
    folder = kits / "s0"
    key = (folder / "server.key").read_bytes()
    sealed = serialization.load_pem_private_key(key, None).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    for content in (b"rubbish", b"", sealed):
        (folder / "server.key").write_bytes(content)
        with pytest.raises(KitError, match="not a private key without a password"):
            ServerKit.load(folder)
    (folder / "server.key").write_bytes(key)
    for content in (b"rubbish \xff", (folder / "ca.pem").read_bytes(), key):
        (folder / "server.pem").write_bytes(content)
        with pytest.raises(KitError, match=r"server\.pem is not the certificate of a server") as caught:
            ServerKit.load(folder)
        assert "PRIVATE" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"00" * 31, b"00" * 33, b"g" * 64, b"\xff" * 64])
def test_a_malformed_storage_key_is_refused(kits, content):
    (kits / "s0" / "storage.key").write_bytes(content)
    with pytest.raises(KitError, match=r"storage\.key is malformed"):
        ServerKit.load(kits / "s0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('name = "s2"\n', "'name' .* malformed"),
        ('nam = "s0"\n', "unknown key 'nam'"),
        ('name = "s0"\n', r"\[listen\] .* missing or malformed"),
        ('name = "s0"\nlisten = 5\n', r"\[listen\] .* missing or malformed"),
        ('name = "s0"\n[listen]\nhost = "a"\nport = 0\n', r"\[listen\] .* missing or malformed"),
        ('name = "s0"\n[listen]\nhost = "a"\nport = true\n', r"\[listen\] .* missing or malformed"),
        ('name = "s0"\n[listen]\nhost = "a b"\nport = 1\n', r"\[listen\] .* missing or malformed"),
        ('name = "s0"\n[listen]\nhost = "a"\nprot = 1\n', "unknown key 'prot'"),
        ('name = "s0"\n[listen]\nhost = "a"\nport = 1\n', r"\[link\] .* missing or malformed"),
    ],
)
def test_a_damaged_kit_is_refused(kits, text, message):
    (kits / "s0" / "kit.toml").write_text(text)
    with pytest.raises(KitError, match=message):
        ServerKit.load(kits / "s0")


def test_the_kit_of_a_client_is_refused(kits):
    with pytest.raises(KitError, match="kit of a client"):
        ServerKit.load(kits / "operator-s0")


ENTRY = {"name": "a", "role": "teacher", "token_hash": "0" * 64}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("[", "the document"),
        ([ENTRY | {"name": "A"}], "0.name"),
        ([ENTRY, ENTRY | {"role": "king"}], "1.role"),
        ([ENTRY | {"token_hash": "sedml_planted"}], "0.token_hash"),
        ([ENTRY | {"token": "sedml_planted"}], "0.token"),
        ([{"name": "a", "role": "teacher"}], "0.token_hash"),
        ([ENTRY, ENTRY | {"token_hash": "1" * 64}], "name 'a' twice"),
        ([ENTRY, ENTRY | {"name": "b"}], "token_hash twice"),
    ],
)
def test_malformed_accounts_are_refused_at_their_place(kits, document, message):
    text = document if isinstance(document, str) else json.dumps(document)
    (kits / "s0" / "accounts.json").write_text(text)
    with pytest.raises(KitError, match=message) as caught:
        ServerKit.load(kits / "s0")
    assert "planted" not in str(caught.value)


def test_files_that_others_can_read_are_found(kits):
    folder = kits / "s0"
    assert exposed(folder) == []
    (folder / "server.key").chmod(0o640)
    folder.chmod(0o711)
    assert exposed(folder) == [folder, folder / "server.key"]


@pytest.mark.parametrize("name", ["server.key", "storage.key", "server.key.next"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_keys_that_others_can_read_are_refused(kits, name, mode):
    folder = kits / "s0"
    (folder / "accounts.json").chmod(0o644)  # nothing secret
    check_private(folder)
    (folder / name).touch()
    (folder / name).chmod(mode)
    with pytest.raises(KitError) as refused:
        check_private(folder)
    assert str(folder / name) in refused.value.what
    command = refused.value.do.removeprefix("Run: ").partition(". ")[0]
    subprocess.run(shlex.split(command), check=True)
    check_private(folder)


def test_what_a_link_leads_to_counts(kits):
    """As where keys are mounted: a link itself is open to everybody."""
    folder = kits / "s0"
    key = (folder / "storage.key").rename(kits / "elsewhere")
    (folder / "storage.key").symlink_to(key)
    check_private(folder)
    key.chmod(0o644)
    with pytest.raises(KitError):
        check_private(folder)


def test_kits_are_private_under_any_umask(tmp_path):
    before = os.umask(0)
    try:
        provision(tmp_path / "kits", ("127.0.0.1:1", "127.0.0.1:2"), None, 1, 1)
    finally:
        os.umask(before)
    for kit in (tmp_path / "kits").iterdir():
        assert exposed(kit) == [], kit
