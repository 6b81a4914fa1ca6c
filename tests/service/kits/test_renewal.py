"""A server's next certificate: a pair that fits, at every moment, whatever interrupts."""

import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from sedml.errors import InputError, KitError
from sedml.mpc.certificates import make_authority
from sedml.service.kits import ServerKit, read_revoked, renew_certificate
from sedml.service.kits.inspection import expiries


class Crash(BaseException):
    """The process is gone, at once."""


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def serial(folder):
    return x509.load_pem_x509_certificate(ServerKit.load(folder).credentials.certificate).serial_number


def test_a_kit_gets_a_new_key_and_certificate_and_nothing_else_changes(kits):
    before, old = contents(kits / "s0"), ServerKit.load(kits / "s0")
    expires = renew_certificate(kits / "s0", kits / "authority", 30)
    after, new = contents(kits / "s0"), ServerKit.load(kits / "s0")
    assert {name for name in before if before[name] != after[name]} == {"server.pem", "server.key"}
    assert after["revoked.pem"] == (kits / "authority" / "revoked.pem").read_bytes()
    assert after.keys() == before.keys() | {"revoked.pem"}
    assert expiries(new.credentials)["server"] == expires
    assert abs(expires - datetime.now(UTC) - timedelta(days=30)) < timedelta(minutes=5)
    assert new.credentials.key != old.credentials.key
    assert new.credentials.authority.startswith(old.credentials.authority)
    for path in (kits / "s0").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_as_often_as_wanted(kits):
    serials = {serial(kits / "s1")}
    for _ in range(3):
        renew_certificate(kits / "s1", kits / "authority")
        serials.add(serial(kits / "s1"))
    assert len(serials) == 4


@pytest.mark.parametrize("step", range(19))
def test_a_crash_at_any_point_leaves_a_pair_that_fits_and_can_be_renewed(kits, monkeypatch, step):
    """Every operation on the disk in turn is the last one that happens."""
    before = serial(kits / "s0")
    counted = 0

    def crashing(call):
        def run(*args, **kwargs):
            nonlocal counted
            counted += 1
            if counted > step:
                raise Crash
            return call(*args, **kwargs)

        return run

    with monkeypatch.context() as patch:
        # What tidies up after an error does not happen either, as after kill -9.
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        for module, name in ((os, "fsync"), (os, "fdopen"), (Path, "replace")):
            patch.setattr(module, name, crashing(getattr(module, name)))
        try:
            renew_certificate(kits / "s0", kits / "authority")
            assert counted <= step
        except Crash:
            pass
    found = serial(kits / "s0")
    # Written, flushed, renamed, folder flushed: first the list of the authority, then the key, aside; then the
    # certificate, and that rename counts.
    assert (found != before) == (step > 10), step
    listed = read_revoked(kits / "authority", (kits / "s0" / "ca.pem").read_bytes())
    assert found == before or x509.load_pem_x509_crl(listed).get_revoked_certificate_by_serial_number(before)
    renew_certificate(kits / "s0", kits / "authority")
    assert serial(kits / "s0") not in (before, found)
    assert not (kits / "s0" / "server.key.next").exists()


def test_a_crash_after_a_crash_does_not_lose_the_key(kits, monkeypatch):
    """The key that still lies next to its place is not overwritten by the next one before it is in it."""
    replace = Path.replace

    def no_key(path, target):
        if target.name == "server.key":
            raise Crash
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", no_key)
    with pytest.raises(Crash):
        renew_certificate(kits / "s0", kits / "authority")
    between = serial(kits / "s0")
    assert (kits / "s0" / "server.key.next").exists()
    with pytest.raises(Crash):
        renew_certificate(kits / "s0", kits / "authority")
    assert serial(kits / "s0") == between


def test_a_key_that_fits_nothing_is_not_taken(kits):
    (kits / "s0" / "server.key.next").write_bytes((kits / "s1" / "server.key").read_bytes())
    ServerKit.load(kits / "s0")
    (kits / "s0" / "server.key").write_bytes((kits / "s1" / "server.key").read_bytes())
    with pytest.raises(KitError, match="not the key of the certificate"):
        ServerKit.load(kits / "s0")
    renew_certificate(kits / "s0", kits / "authority")
    assert ServerKit.load(kits / "s0").name == "s0"


def other_authority(kits):
    other = make_authority()
    (kits / "authority" / "ca.pem").write_bytes(other.certificate)
    (kits / "authority" / "ca.key").write_bytes(other.key)


def other_key(kits):
    (kits / "authority" / "ca.key").write_bytes(make_authority().key)


def short_authority(kits):
    short = make_authority(days=20)
    for folder in ("authority", "s0"):
        (kits / folder / "ca.pem").write_bytes(short.certificate)
    (kits / "authority" / "ca.key").write_bytes(short.key)


@pytest.mark.parametrize(
    ("spoil", "change", "message"),
    [
        (other_authority, {}, "not the authority that"),
        (other_key, {}, "not issued by the authority"),
        (short_authority, {}, "for 365 days"),
        (lambda kits: (kits / "authority" / "ca.key").unlink(), {}, "ca.key is missing"),
        (lambda kits: (kits / "authority" / "ca.key").write_bytes(b"secret"), {}, "cannot be read"),
        (lambda kits: None, {"server": "teacher-001"}, "not the kit of a server"),
        (lambda kits: None, {"server": "nowhere"}, "kit.toml is missing"),
        (lambda kits: None, {"authority": "nowhere"}, "ca.pem is missing"),
        (lambda kits: None, {"days": 0}, "for 0 days"),
        (lambda kits: None, {"days": 3_651}, "for 3651 days"),
    ],
)
def test_what_cannot_be_done_changes_nothing(kits, spoil, change, message):
    spoil(kits)
    wish = {"server": "s0", "authority": "authority", "days": 365} | change
    before = contents(kits / "s0")
    with pytest.raises(InputError, match=message) as caught:
        renew_certificate(kits / wish["server"], kits / wish["authority"], wish["days"])
    assert "secret" not in str(caught.value)
    assert contents(kits / "s0") == before


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_kit_that_cannot_be_written_says_so(kits):
    (kits / "s0").chmod(0o500)
    try:
        with pytest.raises(KitError, match="cannot be written"):
            renew_certificate(kits / "s0", kits / "authority")
    finally:
        (kits / "s0").chmod(0o700)
