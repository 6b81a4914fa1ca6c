"""A client's kit: what it says, what it hides, what it refuses, and that replacing a token never locks anybody out."""

import os
import re
from pathlib import Path

import pytest

from sedml.errors import KitError
from sedml.files import atomic
from sedml.service.kits import ClientKit, confirm_token, load_enrolment, new_token, save_token
from sedml.service.kits.folder import locked


def edit(path, pattern, replacement):
    text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1
    path.write_text(text)


def test_a_kit_says_who_and_where(kits):
    kit = ClientKit.load(kits / "teacher-002")
    assert (kit.name, kit.role, len(kit.secret)) == ("teacher-002", "teacher", 32)
    assert {name: access.url for name, access in kit.servers.items()} == {
        "s0": "https://s0.example:8440",
        "s1": "https://10.0.0.7:8441",
    }
    assert kit.authority == (kits / "authority" / "ca.pem").read_bytes()
    assert ClientKit.load(str(kits / "operator-s1"), "operator").servers.keys() == {"s1"}


def test_no_repr_shows_a_secret(kits):
    kit = ClientKit.load(kits / "teacher-001")
    kit = save_token(kit, "s0", new_token())
    shown = repr(kit) + repr(kit.servers) + str(kit.servers["s0"])
    secrets = [kit.secret.hex(), repr(kit.secret), "CERTIFICATE", "sedml_"]
    assert not [secret for secret in secrets if secret in shown]


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (r"^secret = .*\n", "", "has no 'secret'"),
        (r'^secret = "..', 'secret = "', "'secret' .* malformed"),
        (r"^secret = .*", "secret = 7", "'secret' .* malformed"),
        (r"^name = .*", 'name = "Teacher"', "'name' .* malformed"),
        (r"^name = .*", 'name = "a\\\\nb"', "'name' .* malformed"),
        (r"^role = .*", 'role = "stranger"', "'role' .* malformed"),
        (r"^role = .*", 'role = "operator"', "has 2 servers"),
        (r"^token = \"sedml_.", 'token = "sedml_', r"'token' in .*\[s0\] is malformed"),
        (r"^token = \"sedml_.", 'token = "sedml_!', r"'token' in .*\[s0\] is malformed"),
        (r"^token", 'previous_token = ""\ntoken', "'previous_token' .* malformed"),
        (r"^url = .*", 'url = "http://s0.example:8440"', "'url' .* malformed"),
        (r"^url = .*", 'url = "https://s0.example"', "'url' .* malformed"),
        (r"^url = .*", 'url = "https://me:pass@s0.example:1"', "'url' .* malformed"),
        (r"^\[s1\]\n", "[s2]\n", "unknown key 's2'"),
        (r"^\[s1\](.|\n)*", "", r"has 1 server\."),
        (r"^\[s0\](.|\n)*", "s0 = 1\ns1 = 2\n", "'s0' .* not a table"),
        (r"^\[s0\]", "[s0]\ntokn = 1", "unknown key 'tokn'"),
        (r"^name", "nmae", "unknown key 'nmae'"),
        (r"^secret = (.*)\"", r"secret = \1", r"kit.toml is not TOML \(at line 3, column"),
    ],
)
def test_a_damaged_kit_is_refused_without_showing_it(kits, pattern, replacement, message):
    folder = kits / "teacher-001"
    kit = ClientKit.load(folder)
    edit(folder / "kit.toml", pattern, replacement)
    with pytest.raises(KitError, match=message) as caught:
        ClientKit.load(folder)
    text = str(caught.value)
    assert kit.secret.hex()[2:] not in text
    assert not [access for access in kit.servers.values() if access.token[7:] in text]


def test_missing_or_foreign_files_are_named(kits):
    folder = kits / "teacher-001"
    with pytest.raises(KitError, match=r"nowhere.kit\.toml is missing"):
        ClientKit.load(kits / "nowhere")
    for foreign in ((kits / "s0" / "server.pem").read_bytes(), b"\xff rubbish"):
        (folder / "ca.pem").write_bytes(foreign)
        with pytest.raises(KitError, match=r"ca\.pem is not the certificate of an authority"):
            ClientKit.load(folder)
    (folder / "ca.pem").unlink()
    with pytest.raises(KitError, match=r"ca\.pem is missing"):
        ClientKit.load(folder)
    (folder / "kit.toml").write_bytes(b"\xff")
    with pytest.raises(KitError, match="not UTF-8"):
        ClientKit.load(folder)
    (folder / "kit.toml").unlink()
    (folder / "kit.toml").mkdir()
    with pytest.raises(KitError, match=r"kit\.toml cannot be read"):
        ClientKit.load(folder)


def test_another_role_is_refused(kits):
    with pytest.raises(KitError, match="kit of a teacher, not of a requester"):
        ClientKit.load(kits / "teacher-001", "requester")
    with pytest.raises(KitError, match="kit of a server"):
        ClientKit.load(kits / "s0")


# ---- Replacing a token ------------------------------------------------------------------------------


def test_the_old_token_is_kept_until_the_new_one_is_confirmed(kits):
    folder = kits / "teacher-001"
    kit = ClientKit.load(folder)
    old, other, new = kit.servers["s0"].token, kit.servers["s1"], new_token()
    changed = save_token(kit, "s0", new)
    assert changed == ClientKit.load(folder)
    assert (changed.servers["s0"].token, changed.servers["s0"].previous_token) == (new, old)
    assert save_token(changed, "s0", new) == changed
    confirmed = confirm_token(changed, "s0")
    assert confirmed == ClientKit.load(folder) == confirm_token(confirmed, "s0")
    assert (confirmed.servers["s0"].token, confirmed.servers["s0"].previous_token) == (new, None)
    assert confirmed.servers["s1"] == other
    assert old not in (folder / "kit.toml").read_text()
    assert (confirmed.secret, confirmed.name, confirmed.role) == (kit.secret, kit.name, kit.role)
    assert (folder / "kit.toml").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in folder.iterdir()} == {"kit.toml", "ca.pem"}


def test_a_replacement_under_way_is_finished_first(kits):
    kit = save_token(ClientKit.load(kits / "teacher-001"), "s0", new_token())
    before = (kits / "teacher-001" / "kit.toml").read_text()
    with pytest.raises(KitError, match="being replaced already"):
        save_token(kit, "s0", new_token())
    assert (kits / "teacher-001" / "kit.toml").read_text() == before


def test_two_who_hold_the_same_kit_do_not_undo_each_other(kits):
    first, second = (ClientKit.load(kits / "teacher-001") for _ in range(2))
    mine, yours = new_token(), new_token()
    save_token(first, "s0", mine)
    with pytest.raises(KitError, match="changed since it was read"):
        save_token(second, "s0", yours)
    both = save_token(second, "s1", yours)
    assert (both.servers["s0"].token, both.servers["s1"].token) == (mine, yours)


def test_a_kit_is_changed_by_one_process_at_a_time(kits):
    import fcntl

    with locked(kits / "teacher-001"):
        descriptor = os.open(kits / "teacher-001", os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    with pytest.raises(KitError, match="cannot be opened"), locked(kits / "nowhere"):
        pass


def test_only_a_token_is_saved_and_only_for_a_server_of_the_kit(kits):
    kit = ClientKit.load(kits / "operator-s0")
    with pytest.raises(KitError, match="malformed") as caught:
        save_token(kit, "s0", 'sedml_"\nrole = "teacher"')
    assert "role =" not in str(caught.value)
    with pytest.raises(KitError, match="no access to s1"):
        save_token(kit, "s1", new_token())
    with pytest.raises(KitError, match="no access to s1"):
        confirm_token(kit, "s1")


@pytest.mark.parametrize("fault", ["before the write", "half written", "written", "renamed"])
def test_a_crash_in_the_middle_leaves_a_whole_kit_with_the_token_that_the_server_knows(kits, fault, monkeypatch):
    folder = kits / "teacher-001"
    kit = ClientKit.load(folder)
    old, new = kit.servers["s0"].token, new_token()
    child = os.fork()
    if child == 0:  # dies in the middle of it, without cleaning up
        try:
            die = lambda *_, **__: os._exit(77)  # noqa: E731
            if fault == "before the write":
                atomic.replacing = die
            elif fault == "half written":
                atomic.replacing = lambda path, **_: die((path.parent / ".aside").write_text("half"))
            elif fault == "written":
                Path.replace = die
            else:
                atomic.flush = die
            save_token(kit, "s0", new)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 77
    found = ClientKit.load(folder).servers["s0"]
    assert old in (found.token, found.previous_token)
    assert (found.token == new) == (fault == "renamed")
    if fault != "renamed":
        assert save_token(ClientKit.load(folder), "s0", new).servers["s0"].previous_token == old


def test_a_failed_write_is_explained_and_leaves_no_trace(kits, monkeypatch):
    folder = kits / "teacher-001"
    kit = ClientKit.load(folder)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KitError, match="No space left") as caught:
        save_token(kit, "s0", new_token())
    assert "sedml_" not in str(caught.value)
    assert ClientKit.load(folder) == kit
    assert {path.name for path in folder.iterdir()} == {"kit.toml", "ca.pem"}


def test_what_is_no_file_of_a_kit_is_told_apart(tmp_path):
    with pytest.raises(KitError, match=r"enrolment\.json is missing\. Check the path"):
        load_enrolment(tmp_path / "enrolment.json")
    with pytest.raises(KitError, match="it is a folder"):
        load_enrolment(tmp_path)
