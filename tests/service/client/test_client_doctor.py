"""The doctor: a kit that works passes, and each thing that is wrong is found, with what to do."""

import socket
from datetime import UTC, datetime, timedelta

import anyio
import httpx2
import pytest

from sedml.service.client.checkup import examine
from sedml.service.kits import REVOKED, ClientKit, ServerKit, new_token, renew_certificate, save_token
from support.wire import Fail, altered


def verdicts(folder):
    return {check.what: check for check in anyio.run(examine, folder)}


def ill(folder):
    return {what: check for what, check in verdicts(folder).items() if check.verdict != "PASS"}


@pytest.fixture
def deployed(deployed):
    """The servers have heard of each other."""
    deployed.greet()
    return deployed


def test_a_kit_that_works_passes_in_every_respect(deployed, kits):
    found = verdicts(kits / "teacher-001")
    assert {check.verdict for check in found.values()} == {"PASS"}
    assert {"kit", "file modes", "authority", "disk", "servers"} <= set(found)
    for server in ("S0", "S1"):
        for what in ("reachable", "token", "clock", "release", "certificate", "disk", "ready"):
            assert f"{server} {what}" in found
    assert not ill(kits / "operator-s0")


@pytest.mark.parametrize(
    ("change", "what", "verdict"),
    [
        ({"time": datetime.now(UTC) + timedelta(days=1)}, "S1 clock", "FAIL"),
        ({"time": datetime.now(UTC) - timedelta(hours=1)}, "S1 clock", "FAIL"),
        ({"version": "0.0.1"}, "S1 release", "WARN"),
        ({"version": "0.0.1"}, "servers", "FAIL"),
        ({"api": 2}, "S1 release", "FAIL"),
        ({"account": "teacher-002"}, "S1 token", "FAIL"),
        ({"role": "requester"}, "S1 token", "FAIL"),
        ({"certificate_expires": datetime.now(UTC) + timedelta(days=3)}, "S1 certificate", "WARN"),
        ({"disk_free_bytes": 1000}, "S1 disk", "FAIL"),
        ({"disk_free_bytes": 1 << 30}, "S1 disk", "WARN"),
        ({"peer_seen": None}, "S1 to S0", "WARN"),
        ({"peer_seen": datetime(2020, 1, 1, tzinfo=UTC)}, "S1 to S0", "WARN"),
    ],
)
def test_what_a_server_says_of_itself_is_judged(deployed, kits, change, what, verdict):
    deployed.s1.fault("GET /v1/server", altered(**change))
    check = ill(kits / "teacher-001")[what]
    assert check.verdict == verdict
    assert check.do


def test_a_server_that_is_away_and_one_that_does_not_know_the_token(deployed, kits):
    deployed.s0.fault("GET", Fail.REFUSE, times=9)
    deployed.s1.replace_token("teacher-001", new_token())
    found = ill(kits / "teacher-001")
    assert (found["S0 reachable"].verdict, found["S1 token"].verdict) == ("FAIL", "FAIL")
    assert "https://s0.example:8440" in found["S0 reachable"].found
    # It says so at once, and does not try again.
    assert len(deployed.s0.seen) == 1


def test_a_server_that_is_not_ready_or_answers_nonsense(deployed, kits, monkeypatch):
    monkeypatch.setattr("sedml.service.server.health._LEAST_DISK", 1 << 60)
    deployed.s1.fault("GET /v1/server", httpx2.Response(200, content=b"{}"))
    found = ill(kits / "teacher-001")
    assert found["S0 ready"].verdict == "FAIL"
    assert "disk: almost full" in found["S0 ready"].found
    assert found["S1 answers"].verdict == "FAIL"


def test_files_that_others_can_read_and_a_rotation_that_broke_off(deployed, kits):
    (kits / "teacher-001" / "kit.toml").chmod(0o644)
    assert ill(kits / "teacher-001")["file modes"].verdict == "FAIL"
    (kits / "teacher-001" / "kit.toml").chmod(0o600)
    save_token(ClientKit.load(kits / "teacher-001"), "s0", new_token())
    check = ill(kits / "teacher-001")["S0 token"]
    assert (check.verdict, "sedml rotate" in check.do) == ("WARN", True)


def test_a_list_of_revoked_certificates_is_kept(deployed, kits, monkeypatch):
    renew_certificate(kits / "s0", kits / "authority")
    activity = deployed.s1.node.activity
    monkeypatch.setattr(activity, "credentials", ServerKit.load(kits / "s0").credentials)
    for found in ("a newer list, which this kit heeds from now on", "this kit has the list"):
        assert verdicts(kits / "teacher-001")["S1 revoked certificates"].found == found
    assert (kits / "teacher-001" / REVOKED).read_bytes() == (kits / "authority" / REVOKED).read_bytes()
    deployed.s1.fault("GET /v1/server", altered(revoked="forged"))
    assert ill(kits / "teacher-001")["S1 revoked certificates"].verdict == "FAIL"


def test_a_folder_that_is_no_kit(tmp_path, kits):
    assert verdicts(tmp_path)["kit"].verdict == "FAIL"
    (kits / "s0" / "server.pem").write_bytes(b"")
    assert verdicts(kits / "s0")["kit"].verdict == "FAIL"


def test_the_kit_of_a_server_is_looked_at_as_one(deployed, kits, monkeypatch):
    monkeypatch.setattr("sedml.service.client.connection.https", lambda *_: deployed.s0)
    found = verdicts(kits / "s0")
    assert found["certificate"].verdict == found["authority"].verdict == found["file modes"].verdict == "PASS"
    assert found["running"].verdict == found["S0 ready"].verdict == "PASS"
    assert "link to S0" not in found


def test_the_link_of_s1_is_tried(deployed, kits):
    # Its own address is one of the loopback.
    path = kits / "s1" / "kit.toml"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        text = path.read_text()
        head = text[: text.index("[link]")]
        path.write_text(f'{head}[link]\nhost = "127.0.0.1"\nport = {listener.getsockname()[1]}\n')
        assert verdicts(kits / "s1")["link to S0"].verdict == "PASS"
    assert verdicts(kits / "s1")["link to S0"].verdict == "FAIL"


def test_a_server_that_does_not_run_is_a_warning(kits):
    path = kits / "s0" / "kit.toml"
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    text = path.read_text()
    tail = text[text.index("[link]") :]
    path.write_text(f'name = "s0"\n\n[listen]\nhost = "127.0.0.1"\nport = {port}\n\n{tail}')
    assert ill(kits / "s0")["running"].verdict == "WARN"
