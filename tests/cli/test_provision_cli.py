"""Kits and servers as operators handle them: provision, enrol, serve, up."""

import http.client
import importlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import tomllib
import types

import pytest

from sedml.errors import ServerError
from sedml.service.kits import ClientKit, ServerKit, free_ports, load_enrolment, provision
from support.cli_calls import exit_code, invoke
from support.server_process import until

SERVERS = "s0.example:8440,s1.example:8441"
serving = importlib.import_module("sedml.cli.serve")  # the package's own name for it is the command


# ---- provision, enrol -------------------------------------------------------------------------------


def test_provision_says_what_goes_to_whom(tmp_path):
    out = tmp_path / "kits"
    result = invoke("provision", "--out", out, "--servers", SERVERS, "--teachers", 2, "--requesters", 1)
    assert result.exit_code == 0, result.output
    for text in (
        "s0",
        "operator-s1",
        "teacher-001 … teacher-002",
        "requester-1",
        "sedml serve s1",
        "offline",
        "SHA-256",
    ):
        assert text in result.output
    assert ServerKit.load(out / "s1").link_host == "s0.example"
    assert ClientKit.load(out / "teacher-002", "teacher").servers["s1"].url == "https://s1.example:8441"


def test_provision_puts_names_into_the_certificates(tmp_path):
    out = tmp_path / "kits"
    options = ["--s0-names", "s0.internal, 10.0.0.5", "--s1-names", "s1.internal"]
    result = invoke("provision", "--out", out, "--servers", SERVERS, "--teachers", 0, *options)
    assert result.exit_code == 0, result.output
    assert {"s0.example", "s0.internal", "10.0.0.5"} < set(ServerKit.load(out / "s0").host_names)
    assert {"s1.example", "s1.internal"} < set(ServerKit.load(out / "s1").host_names)


def test_provision_prints_no_secret(tmp_path):
    out = tmp_path / "kits"
    text = invoke("provision", "--out", out, "--servers", SERVERS, "--teachers", 2).output
    kit = ClientKit.load(out / "teacher-001")
    secrets = [kit.secret.hex(), "sedml_", "PRIVATE", (out / "s0" / "storage.key").read_text().strip()]
    assert not [secret for secret in secrets if secret in text]


def test_provision_prints_one_json_document_and_takes_all_options(tmp_path):
    out = tmp_path / "kits"
    options = ["--link", "link.example:9000", "--days", 30, "--budget-epsilon", 4, "--budget-delta", 1e-7, "--json"]
    many = ["--teachers", 3, "--requesters", 2]
    result = invoke("provision", "--out", out, "--servers", SERVERS, *many, *options)
    document = json.loads(result.stdout)
    assert document["teachers"] == [str(out / f"teacher-00{number}") for number in (1, 2, 3)]
    assert document["requesters"] == [str(out / "requester-1"), str(out / "requester-2")]
    assert document["servers"] == [str(out / "s0"), str(out / "s1")]
    assert len(document["fingerprint"]) == 64
    assert ServerKit.load(out / "s1").link_port == 9000
    settings = tomllib.loads((out / "s0" / "server.toml").read_text())
    assert settings == {"budgets": {"teachers": {"epsilon": 4.0, "delta": 1e-7, "unit": "organisation"}}}


@pytest.mark.parametrize(
    "options",
    [
        ["--servers", "s0.example:8440", "--teachers", 1],
        ["--servers", "s0.example,s1.example", "--teachers", 1],
        ["--servers", SERVERS, "--teachers", -1],
        ["--servers", SERVERS, "--teachers", 1, "--days", 0],
        ["--servers", SERVERS, "--teachers", 1, "--budget-delta", 2],
        ["--servers", SERVERS, "--teachers", 1, "--out", "no/where"],
    ],
)
def test_options_that_make_no_sense_end_with_2_and_leave_nothing(monkeypatch, capsys, tmp_path, options):
    monkeypatch.chdir(tmp_path)
    assert exit_code(monkeypatch, "provision", *options) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_enrol_makes_a_kit_and_a_public_document(tmp_path, monkeypatch):
    invoke("provision", "--out", tmp_path / "kits", "--servers", SERVERS, "--teachers", 0)
    monkeypatch.chdir(tmp_path)
    options = ["--servers", SERVERS, "--ca", "kits/authority/ca.pem"]
    result = invoke("enrol", "clinic-7", *options)
    assert result.exit_code == 0, result.output
    kit = ClientKit.load("clinic-7", "teacher")
    assert "clinic-7/enrolment.json to both operators" in result.output
    assert not [access for access in kit.servers.values() if access.token in result.output]
    document = json.loads(invoke("enrol", "lab", *options, "--role", "requester", "--out", "own", "--json").stdout)
    assert document["enrolment"] == load_enrolment(tmp_path / "own" / "enrolment.json").model_dump()
    assert document["enrolment"]["role"] == "requester"
    assert invoke("enrol", "lab", *options, "--role", "requester").exit_code == 0
    assert ClientKit.load("lab", "requester").name == "lab"
    assert exit_code(monkeypatch, "enrol", "lab", *options, "--out", "own") == 2
    assert exit_code(monkeypatch, "enrol", "../lab", *options) == 2


# ---- serve ------------------------------------------------------------------------------------------


@pytest.fixture
def called(monkeypatch):
    """In place of the server: takes note of the call, and does what a test asks for."""
    seen = {"then": lambda: None}

    def serve(kit, overrides, announce, workers):
        seen.update(kit=kit, overrides=overrides, announce=announce, workers=workers)
        seen["then"]()

    monkeypatch.setitem(sys.modules, "sedml.service.server", types.SimpleNamespace(serve=serve))
    return seen


def test_serve_passes_on_what_was_given(called, tmp_path):
    before = signal.getsignal(signal.SIGTERM)
    assert invoke("serve", tmp_path).exit_code == 0
    assert (called["kit"], called["overrides"]) == (tmp_path, {"host": None, "port": None})
    assert invoke("serve", tmp_path, "--host", "::1", "--port", 0).exit_code == 0
    assert (called["overrides"], called["workers"]) == ({"host": "::1", "port": 0}, 1)
    assert invoke("serve", tmp_path, "--workers", 4).exit_code == 0
    assert called["workers"] == 4
    assert invoke("serve", tmp_path, "--workers", 0).exit_code == 2
    assert signal.getsignal(signal.SIGTERM) is before


def test_serve_that_is_told_to_stop_ends_with_0(called, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "_exit", sys.exit)  # or it would end this process, past everything
    called["then"] = lambda: signal.raise_signal(signal.SIGTERM)
    assert exit_code(monkeypatch, "serve", tmp_path) == 0
    called["then"] = lambda: signal.raise_signal(signal.SIGINT)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    try:
        assert exit_code(monkeypatch, "serve", tmp_path) == 130
    finally:
        signal.signal(signal.SIGINT, before)


def test_serve_that_cannot_start_says_why(called, monkeypatch, capsys, tmp_path):
    called["then"] = lambda: ServerKit.load(tmp_path)
    assert exit_code(monkeypatch, "serve", tmp_path) == 2
    assert "kit.toml is missing" in capsys.readouterr().err


# ---- up ---------------------------------------------------------------------------------------------

STAND_IN = """\
import http.server, json, os, pathlib, signal, ssl, sys, tomllib

folder = pathlib.Path(sys.argv[1])
mode = sys.argv[2]
kit = tomllib.loads((folder / "kit.toml").read_text())
if mode == "dead" and kit["name"] == "s1":
    sys.exit(3)

class Answer(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        Answer.asked += 1
        if self.path == "/die":
            os._exit(4)
        ready = self.path == "/readyz" and Answer.asked > 1
        self.send_response(200 if ready else 503)
        self.end_headers()
        self.wfile.write(json.dumps({"ready": ready, "checks": {}}).encode())

    def log_message(self, *_):
        pass

def stop(*_):
    (folder.parent / f"{kit['name']}.stopped").touch()
    sys.exit(5 if mode == "sulking" else 0)

signal.signal(signal.SIGTERM, stop)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
other = folder.parent / ("s0" if kit["name"] == "s1" else "s1")
shown = other if mode == "swapped" else folder
context.load_cert_chain(shown / "server.pem", shown / "server.key")
server = http.server.ThreadingHTTPServer((kit["listen"]["host"], kit["listen"]["port"]), Answer)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "stand_in.py"
    path.write_text(STAND_IN)
    return path


@pytest.fixture
def run_up(script, tmp_path, monkeypatch):
    """`up` in this process, with stand-ins for the servers; `then` is done when it says that they are ready."""
    told = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run(mode, then=lambda: signal.raise_signal(signal.SIGTERM), **options):
        def show(*lines):
            told.extend(lines)
            then()

        monkeypatch.setattr(serving, "show", show)
        monkeypatch.setattr(serving, "_command", lambda kit: [sys.executable, str(script), str(kit.folder), mode])
        serving.up(**{"teachers": 2, "folder": tmp_path / "kits"} | options)

    run.told = told
    return run


def call(kit, path):
    context = ssl.create_default_context(cadata=kit.credentials.authority.decode())
    with (
        socket.create_connection((kit.host, kit.port), timeout=120) as plain,
        context.wrap_socket(plain, server_hostname=kit.name) as secure,
    ):
        connection = http.client.HTTPConnection(kit.host, kit.port)
        connection.sock = secure
        connection.request("GET", path)
        return connection.getresponse().status


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_up_runs_both_until_it_is_told_to_stop(run_up, tmp_path, number):
    folder = tmp_path / "kits"
    handlers = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
    answers = []

    def then():
        answers.extend(call(ServerKit.load(folder / name), "/readyz") for name in ("s0", "s1"))
        signal.raise_signal(number)

    run_up("good", then)
    assert answers == [200, 200]
    s0 = ServerKit.load(folder / "s0")
    for text in (f"S0 listens on https://127.0.0.1:{s0.port}, for S1 on 127.0.0.1:{s0.link_port}", "S1 listens on"):
        assert text in "\n".join(run_up.told)
    for text in ("job create", "sedml vote", "job run", f"cd {folder}", "--kit requester-1", "made up"):
        assert text in "\n".join(run_up.told)
    assert (folder / "s0.stopped").exists()
    assert (folder / "s1.stopped").exists()
    assert ClientKit.load(folder / "teacher-002").name == "teacher-002"
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)] == handlers


def test_up_throws_its_kits_away(run_up, tmp_path):
    def then():
        assert list(tmp_path.glob("sedml-up-*/kits/teacher-002"))
        signal.raise_signal(signal.SIGTERM)

    run_up("good", then, folder=None)
    assert "sedml-up-" in run_up.told[0]
    assert list(tmp_path.glob("sedml-up-*")) == []


def test_up_uses_given_kits_again(run_up, tmp_path):
    s0, s1, link = (f"127.0.0.1:{port}" for port in free_ports(3))
    provision(tmp_path / "kits", (s0, s1), link, 1, 1)
    before = (tmp_path / "kits" / "s0" / "kit.toml").read_bytes()
    run_up("good")
    assert run_up.told
    assert (tmp_path / "kits" / "s0" / "kit.toml").read_bytes() == before


def test_up_stops_one_when_the_other_dies(run_up, tmp_path):
    folder = tmp_path / "kits"

    def then():
        with pytest.raises((http.client.HTTPException, OSError)):
            call(ServerKit.load(folder / "s1"), "/die")

    with pytest.raises(ServerError, match=r"s1 stopped by itself \(exit code 4\)"):
        run_up("good", then)
    assert (folder / "s0.stopped").exists()
    assert not (folder / "s1.stopped").exists()


def test_up_trusts_no_server_that_goes_by_the_other_name(run_up, monkeypatch):
    reasons = []
    ask = serving._not_ready

    async def watched(kit):
        reasons.append(await ask(kit))
        if sum("cannot prove that it is" in str(reason) for reason in reasons) == 4:
            signal.raise_signal(signal.SIGTERM)
        return reasons[-1]

    monkeypatch.setattr(serving, "_not_ready", watched)
    run_up("swapped")
    assert None not in reasons
    assert run_up.told == []


def test_up_does_not_wait_for_ever(run_up, monkeypatch):
    monkeypatch.setattr(serving, "_READY_WITHIN", 0.0)
    with pytest.raises(ServerError, match="s0 was not ready within 0 s"):
        run_up("swapped")
    assert run_up.told == []


def test_up_says_so_when_a_server_does_not_stop_cleanly(run_up):
    with pytest.raises(ServerError, match=r"did not stop cleanly \(exit code 5\)"):
        run_up("sulking")


def test_up_of_which_one_does_not_start_stops_the_other(run_up, tmp_path):
    with pytest.raises(ServerError, match=r"s1 stopped by itself \(exit code 3\)"):
        run_up("dead")
    assert run_up.told == []


def test_a_server_that_ignores_the_signal_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "_STOP_WITHIN", 0.0)
    deaf = (
        "import os, signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.mkdir(sys.argv[1]); signal.pause()"
    )
    ready = tmp_path / "deaf"
    monkeypatch.setattr(serving, "_command", lambda _: [sys.executable, "-c", deaf, str(ready)])
    kit = types.SimpleNamespace(name="s0")
    with serving._children([kit]) as children:
        until(ready.exists, "it is deaf")
    assert children["s0"].returncode == -signal.SIGKILL
    with pytest.raises(ServerError, match="did not stop cleanly"):
        serving._check_ended_well(children)


def test_settings_of_one_server_do_not_go_to_both(monkeypatch, tmp_path):
    monkeypatch.setenv("SEDML_SERVER__PORT", "1")
    monkeypatch.setenv("SEDML_SERVER__DATABASE", "x.db")
    monkeypatch.setenv("SEDML_SERVER__MAX_SAMPLES", "5")
    note = tmp_path / "environment.json"
    script = "import json, os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(json.dumps(dict(os.environ)))"
    monkeypatch.setattr(serving, "_command", lambda _: [sys.executable, "-c", script, str(note)])
    with serving._children([types.SimpleNamespace(name="s0")]) as children:
        children["s0"].wait(60)
    seen = {key: value for key, value in json.loads(note.read_text()).items() if key.startswith("SEDML_SERVER__")}
    assert seen == {
        "SEDML_SERVER__MAX_SAMPLES": "5",
        "SEDML_SERVER__LOG_FORMAT": "console",
        "SEDML_SERVER__LOG_LEVEL": "warning",
    }


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "sedml", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sedml ")


def test_kits_need_no_web_stack():
    heavy = ["starlette", "uvicorn", "pydantic_settings", "httpx2", "sqlalchemy", "typer", "structlog"]
    script = f"import sys, sedml.service.kits; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.strip() == "[]"
