"""What operators find in the log and the metrics: every change of a job's state, certificates that expire, ports."""

import errno
import json
import os
import pty
import socket
import subprocess
import sys
from datetime import timedelta

import pytest
import structlog

from sedml.errors import InputError, StoreError
from sedml.service.kits import ServerKit, provision, renew_certificate
from sedml.service.kits.inspection import expiries
from sedml.service.server.http import App, HttpsServer
from sedml.service.server.jobs import lifecycle
from sedml.service.server.link.calls import Host
from sedml.service.server.link.ports import cannot_listen
from sedml.service.server.node import open_node
from sedml.service.server.ops import certificate_watch
from sedml.service.server.settings import load_settings
from support.deployment import REQUESTER, closed_job, open_job
from support.live_servers import make_kits, settings_of
from support.server_process import WITHIN


def moves(entries, job):
    told = [entry for entry in entries if entry["event"].startswith("job.") and entry.get("job") == job]
    return [
        (entry["log_level"], entry["before"] and entry["before"].value, entry["after"].value, entry["by"])
        for entry in told
        if entry["event"] == "job.state"
    ]


def test_every_change_of_state_is_a_line(deployed):
    with structlog.testing.capture_logs() as entries:
        job = closed_job(deployed).id
        assert deployed.meet(job) == ["done", "done"]
    found = moves(entries, job)
    for server in ("s0", "s1"):
        assert [one for one in found if one[3] == server] == [
            ("info", "closed", "running", server),
            ("info", "running", "done", server),
        ]
    by_requester = [one[1:3] for one in found if one[3] == "requester-1"]
    assert sorted(by_requester, key=str) == sorted(
        [(None, "created"), ("created", "open"), ("open", "closed")] * 2, key=str
    )


def test_a_job_that_is_refused_is_a_warning_that_says_why(deployed):
    with structlog.testing.capture_logs() as entries:
        job = closed_job(deployed, min_teachers=50).id
        deployed.meet(job)
    refused = [entry for entry in entries if entry["event"] == "job.state" and entry["log_level"] == "warning"]
    assert {entry["after"].value for entry in refused} == {"refused"}
    assert len(refused) == 2
    assert all("took part" in entry["why"] for entry in refused)


def test_a_job_that_is_deleted_is_a_line_with_who_did_it(deployed):
    job = open_job(deployed).id
    with structlog.testing.capture_logs() as entries:
        lifecycle.delete(deployed.nodes[0], REQUESTER, job)
        lifecycle.delete(deployed.nodes[0], REQUESTER, job)
    assert [(entry["event"], entry["by"]) for entry in entries] == [
        ("job.state", "requester-1"),
        ("job.deleted", "requester-1"),
    ]


def test_what_is_undone_is_no_line(deployed, monkeypatch):
    job = open_job(deployed).id

    def fails(*_, **__):
        raise StoreError("The disk is full.", "Make room.")

    monkeypatch.setattr("sedml.service.server.public_log.write", fails)
    with structlog.testing.capture_logs() as entries, pytest.raises(StoreError):
        lifecycle.close(deployed.nodes[0], REQUESTER, job)
    assert entries == []


@pytest.mark.parametrize(
    ("days", "events"),
    [
        (31, []),
        (29, [("certificate.expires", "server", 28)]),
        (400, []),
    ],
)
def test_a_certificate_that_expires_is_a_warning(tmp_path, days, events):
    provision(tmp_path / "kits", ("127.0.0.1:1", "127.0.0.1:2"), None, 0, 0, days=days)
    kit = ServerKit.load(tmp_path / "kits" / "s0")
    node = open_node(kit, load_settings(kit))
    try:
        with structlog.testing.capture_logs() as entries:
            certificate_watch.warn(node)
        found = [(entry["event"], entry["certificate"], entry["days"]) for entry in entries]
        assert found == events
        assert {entry["log_level"] for entry in entries} <= {"warning"}
    finally:
        node.close()


def test_everything_that_has_expired_is_a_warning_and_a_renewal_ends_it(deployed, tmp_path):
    node = deployed.nodes[0]
    ends = expiries(node.credentials)
    deployed.clock.jump(days=(ends["authority"] - deployed.clock()).days + 1)
    with structlog.testing.capture_logs() as entries:
        certificate_watch.warn(node)
    found = [(entry["event"], entry["certificate"]) for entry in entries]
    assert found == [("certificate.expired", "server"), ("certificate.expired", "authority")]


def test_the_metrics_say_until_when_certificates_are_good(tmp_path):
    provision(tmp_path / "kits", ("127.0.0.1:1", "127.0.0.1:2"), None, 0, 0)
    renew_certificate(tmp_path / "kits" / "s0", tmp_path / "kits" / "authority", days=7)
    kit = ServerKit.load(tmp_path / "kits" / "s0")
    node = open_node(kit, load_settings(kit))
    try:
        text = App(node).web.metrics.text().decode()
    finally:
        node.close()
    ends = expiries(kit.credentials)
    assert set(ends) == {"server", "authority", "revoked"}
    assert ends["authority"] - ends["server"] > timedelta(days=3000)
    for which, end in ends.items():
        (line,) = [line for line in text.splitlines() if f'expires_seconds{{certificate="{which}"}}' in line]
        assert float(line.split()[1]) == end.timestamp()


def test_a_port_that_is_taken_is_named_with_the_setting_that_changes_it(deployed):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        node = deployed.nodes[0]
        taken = node.settings.model_copy(update={"host": "127.0.0.1", "port": port, "link_port": port})
        vars(node)["settings"] = taken
        with pytest.raises(InputError) as caught:
            Host(node, lambda *_: "wait")
        assert f"for S1 on 127.0.0.1:{port}: another program" in caught.value.what
        assert "`link_port` in server.toml, or SEDML_SERVER__LINK_PORT" in caught.value.do
        with pytest.raises(InputError) as caught:
            HttpsServer(node, App(node))
        assert f"for clients on 127.0.0.1:{port}: another program" in caught.value.what
        assert "`sedml serve --port`, `port` in server.toml, or SEDML_SERVER__PORT" in caught.value.do


@pytest.mark.parametrize(
    ("number", "what", "do"),
    [
        (errno.EACCES, "may not use that port", "SEDML_SERVER__PORT"),
        (errno.EADDRNOTAVAIL, "does not have that address", "SEDML_SERVER__HOST"),
        (errno.EINVAL, "Invalid argument", "SEDML_SERVER__HOST"),
    ],
)
def test_other_reasons_why_a_server_cannot_listen(number, what, do):
    error = cannot_listen("clients", "::", 80, OSError(number, os.strerror(number)))
    assert "[::]:80" in error.what
    assert what in error.what
    assert do in error.do


def test_a_server_says_where_it_listens_to_people_and_in_its_log(tmp_path):
    """To people on a terminal only: elsewhere a line that is no JSON would be in the way."""
    kits = make_kits(tmp_path / "kits", settings_of(log_level="info"), teachers=0, requesters=0)
    kit = ServerKit.load(kits / "s0")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sedml", "serve", str(kits / "s0")]
    plain = os.environ | {"TERM": "dumb"}  # no colours
    with (
        os.fdopen(ours, "rb") as screen,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=plain) as server,
    ):
        os.close(theirs)
        try:
            line, listening = screen.readline().decode(), {}
            while len(listening) < 2:
                entry = json.loads(server.stderr.readline())
                if entry["event"] == "listening":
                    listening[entry["callers"]] = entry["port"]
        finally:
            server.terminate()
            server.communicate(timeout=WITHIN)
    assert f"S0 listens for clients on https://127.0.0.1:{kit.port} and for S1 on 127.0.0.1:{kit.link_port}." in line
    assert listening == {"S1": kit.link_port, "clients": kit.port}
