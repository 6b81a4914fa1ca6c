"""The doctor: a kit that works passes, and each thing that is wrong is found, with what to do."""

import sys
from datetime import UTC, datetime, timedelta

import anyio
import httpx2
import pytest

from sedml.errors import NotFoundError
from sedml.mpc.kernel import kernel
from sedml.release import release_hash
from sedml.service.client.checkup import examine
from sedml.service.kits import REVOKED, ClientKit, ServerKit, new_token, renew_certificate, save_token
from sedml.service.server.ops.health import about, life
from sedml.service.server.ops.preflight import inspect
from sedml.service.server_messages import About, Health
from support.cosigned import cosign_for
from support.running_pair import move_kits, running_pair
from support.server_process import until
from support.wire import Fail, altered, refuses


def verdicts(folder):
    return {check.what: check for check in anyio.run(examine, folder)}


def ill(folder):
    return {what: check for what, check in verdicts(folder).items() if check.verdict != "PASS"}


@pytest.fixture
def deployed(deployed):
    """The servers have heard of each other, and cosigned their logs."""
    deployed.greet()
    for server in deployed.servers:
        cosign_for(server.node)
    return deployed


def test_a_kit_that_works_passes_in_every_respect(deployed, kits):
    found = verdicts(kits / "teacher-001")
    assert {check.verdict for check in found.values()} == {"PASS"}
    assert {"kit", "file modes", "authority", "disk", "servers"} <= set(found)
    for server in ("S0", "S1"):
        for what in ("reachable", "token", "clock", "release", "certificate", "disk", "ready"):
            assert f"{server} {what}" in found
    assert not ill(kits / "operator-s0")


def test_what_the_servers_measured_between_them_is_shown(deployed, kits):
    found = verdicts(kits / "teacher-001")
    assert (found["S0 link"].found, found["S0 link"].verdict) == ("not measured yet", "PASS")
    for server in deployed.servers:
        server.node.link_delay.note(0.0304, 0.0304)
    found = verdicts(kits / "teacher-001")
    assert found["S0 link"].found == found["S1 link"].found == "30.4 ms one way"


@pytest.mark.parametrize(
    ("change", "what", "verdict"),
    [
        ({"time": datetime.now(UTC) + timedelta(days=1)}, "S1 clock", "FAIL"),
        ({"time": datetime.now(UTC) - timedelta(hours=1)}, "S1 clock", "FAIL"),
        ({"api": 99}, "S1 release", "FAIL"),
        ({"account": "teacher-002"}, "S1 token", "FAIL"),
        ({"role": "requester"}, "S1 token", "FAIL"),
        ({"certificate_expires": datetime.now(UTC) + timedelta(days=3)}, "S1 certificate", "WARN"),
        ({"disk_free_bytes": 1000}, "S1 disk", "FAIL"),
        ({"disk_free_bytes": 1 << 30}, "S1 disk", "WARN"),
    ],
)
def test_what_a_server_says_of_itself_is_judged(deployed, kits, change, what, verdict):
    deployed.s1.fault("GET /v1/server", altered(**change))
    check = ill(kits / "teacher-001")[what]
    assert check.verdict == verdict
    assert check.do


OTHER = "ab" * 32


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"version": "0.0.1"}, {"S1 release": "WARN", "servers": "FAIL"}),
        ({"release": OTHER}, {"S1 release": "WARN", "servers": "FAIL"}),
        ({"kernel": OTHER}, {"servers": "WARN"}),
        ({"kernel": None}, {}),
    ],
)
def test_servers_that_say_they_run_other_code_are_found(deployed, kits, monkeypatch, change, wrong):
    monkeypatch.setattr("sedml.service.server.ops.health.kernel_hash", lambda: "cd" * 32)
    deployed.s1.fault("GET /v1/about", altered(**change))
    found = ill(kits / "teacher-001")
    assert {what: check.verdict for what, check in found.items()} == wrong
    for value in filter(None, change.values()):
        assert value in found["servers"].found


def test_what_both_run_is_shown_in_full_to_be_read_out_over_the_telephone(deployed, kits):
    assert release_hash() in verdicts(kits / "teacher-001")["servers"].found


def test_a_server_that_is_too_old_to_say_what_it_runs(deployed, kits):
    deployed.s1.fault("GET /v1/about", refuses(NotFoundError("There is nothing here.", "Look elsewhere.")))
    found = ill(kits / "teacher-001")
    assert {what: check.verdict for what, check in found.items()} == {"S1 release": "WARN"}
    assert "of unknown code" in found["S1 release"].found


def test_servers_that_have_lost_touch_say_so_and_those_that_have_not_do_not(deployed, kits):
    for _ in range(5):
        deployed.later(seconds=12)
        deployed.greet()
        assert verdicts(kits / "teacher-001")["S0 to S1"].found == "in touch"
    deployed.later(seconds=36)
    found = ill(kits / "teacher-001")
    assert found["S0 to S1"].found.startswith("S1 silent for 3")
    assert found["S1 to S0"].found.startswith("S0 silent for 3")
    assert {check.verdict for check in found.values()} == {"WARN", "FAIL"}  # the latter: this machine's clock


def test_a_server_that_is_away_and_one_that_does_not_know_the_token(deployed, kits):
    deployed.s0.fault("GET", Fail.REFUSE, times=9)
    deployed.s1.replace_token("teacher-001", new_token())
    found = ill(kits / "teacher-001")
    assert (found["S0 reachable"].verdict, found["S1 token"].verdict) == ("FAIL", "FAIL")
    assert "https://s0.example:8440" in found["S0 reachable"].found
    # It says so at once, and does not try again.
    assert len(deployed.s0.seen) == 1


def test_a_server_that_is_not_ready_or_answers_nonsense(deployed, kits, monkeypatch):
    monkeypatch.setattr("sedml.service.server.data_room._LEAST", 1 << 60)
    deployed.s1.fault("GET /v1/server", httpx2.Response(200, content=b"{}"))
    found = ill(kits / "teacher-001")
    assert found["S0 ready"].verdict == "FAIL"
    assert "disk: full" in found["S0 ready"].found
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
    renewed = deployed.s1.node._renewed
    monkeypatch.setattr(renewed, "credentials", ServerKit.load(kits / "s0").credentials)
    for found in ("a newer list, which this kit heeds from now on", "this kit has the list"):
        assert verdicts(kits / "teacher-001")["S1 revoked certificates"].found == found
    assert (kits / "teacher-001" / REVOKED).read_bytes() == (kits / "authority" / REVOKED).read_bytes()
    deployed.s1.fault("GET /v1/server", altered(revoked="forged"))
    assert ill(kits / "teacher-001")["S1 revoked certificates"].verdict == "FAIL"


def test_a_folder_that_is_no_kit(tmp_path, kits):
    assert verdicts(tmp_path)["kit"].verdict == "FAIL"
    (kits / "s0" / "server.pem").write_bytes(b"")
    assert verdicts(kits / "s0")["kit"].verdict == "FAIL"


@pytest.fixture
def served(kits, tmp_path):
    """Both servers of these kits over TLS on loopback, with their link, in touch; the kits say where they are."""
    with running_pair(kits, tmp_path / "data") as nodes:
        yield nodes


def test_the_kit_of_a_server_is_looked_at_as_one(served, kits):
    for name, other in (("s0", "S1"), ("s1", "S0")):
        found = verdicts(kits / name)
        assert {what: check for what, check in found.items() if check.verdict != "PASS"} == {}
        assert {"certificate", "authority", "file modes", "running", "servers"} <= set(found)
        assert {f"{other} {what}" for what in ("reachable", "clock", "release", "ready")} <= set(found)
        assert found[f"{name.upper()} to {other}"].found == "in touch"
    assert "and it is s0" in found["link to S0"].found
    assert "link for S1" in verdicts(kits / "s0")


def test_servers_on_one_machine_measure_a_link_of_one_machine(served):
    until(lambda: all(node.link_delay.seconds is not None for node in served), "both have measured")
    assert all(0 <= node.link_delay.seconds < 1 for node in served)


def test_the_doctor_of_a_server_finds_what_is_wrong_with_the_other(served, kits, monkeypatch):
    ahead = datetime.now(UTC) + timedelta(hours=1)
    health = Health(server="s1", version="0.0.1", time=ahead)
    code = About(server="s1", version="0.0.1", release=OTHER, kernel=None)
    monkeypatch.setattr("sedml.service.server.ops.health.life", lambda node: health if node.role else life(node))
    monkeypatch.setattr("sedml.service.server.ops.health.about", lambda node: code if node.role else about(node))
    found = ill(kits / "s0")
    assert {what: check.verdict for what, check in found.items()} == {
        "S1 clock": "FAIL",
        "S1 release": "WARN",
        "servers": "FAIL",
    }


def test_the_link_is_tried_with_both_certificates(served, kits):
    """What answers at the link's port and is not S0 does not pass."""
    served[0].renew(ServerKit.load(kits / "s1").credentials)
    check = ill(kits / "s1")["link to S0"]
    assert (check.verdict, "certificate" in check.found) == ("FAIL", True)


def test_a_kit_that_does_not_say_where_the_other_server_is(kits):
    path = kits / "s0" / "kit.toml"
    text = path.read_text()
    path.write_text(text[: text.index("[peer]")])
    check = ill(kits / "s0")["S1 reachable"]
    assert (check.verdict, "[peer]" in check.do) == ("WARN", True)


def test_servers_that_do_not_run(kits):
    """The own one may not have been started yet; the other one should be there."""
    move_kits(kits)
    found = ill(kits / "s0")
    assert {what: check.verdict for what, check in found.items()} == {
        "running": "WARN",
        "S1 reachable": "FAIL",
        "link for S1": "WARN",
    }
    assert ill(kits / "s1")["link to S0"].verdict == "FAIL"


def test_certificates_that_expire(kits, monkeypatch):
    move_kits(kits)
    renew_certificate(kits / "s0", kits / "authority", days=20)
    found = ill(kits / "s0")
    assert (found["certificate"].verdict, "sedml certify" in found["certificate"].do) == ("WARN", True)
    assert verdicts(kits / "s0")["revocation list"].verdict == "PASS"


def test_what_a_server_computes_on(kits, monkeypatch):
    def found():
        kernel.cache_clear()
        return {check.what: check for check in inspect(ServerKit.load(kits / "s0")).checks}["kernel"]

    monkeypatch.setitem(sys.modules, "sedml.mpc._kernel", None)
    try:
        monkeypatch.setenv("SEDML_KERNEL", "auto")
        assert (found().verdict, found().found[:7]) == ("PASS", "NumPy (")
        monkeypatch.setenv("SEDML_KERNEL", "on")
        assert (found().verdict, "no kernel in C was built" in found().found) == ("FAIL", True)
    finally:
        kernel.cache_clear()


def test_what_a_server_has_on_its_machine(kits, tmp_path):
    path = kits / "s0" / "server.toml"
    text = path.read_text()

    def found():
        return {check.what: check for check in inspect(ServerKit.load(kits / "s0")).checks}

    assert {check.verdict for check in found().values()} == {"PASS"}
    assert "first start" in found()["store"].found
    (kits / "s0" / "data").mkdir()
    (kits / "s0" / "data" / "server.db").write_bytes(b"not a database at all" * 100)
    assert found()["store"].verdict == "FAIL"
    path.write_text('ledger = "postgresql://somebody:secret@127.0.0.1:1/none"\n' + text)
    check = found()["ledger"]
    assert check.verdict == "FAIL"
    assert "secret" not in check.found + check.do
    path.write_text("max_smaples = 5\n" + text)
    assert found()["settings"].verdict == "FAIL"
