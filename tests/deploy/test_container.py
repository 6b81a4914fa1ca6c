"""The image and the compose files, as far as they can be checked without an engine.

What they name exists, their hardening is there, and the commands of the image run in an environment that has what the
image has: the wheel with its extras, and the variables of the Containerfile.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from sedml.service.kits import ServerKit, free_ports, provision
from sedml.service.server.node import open_node
from sedml.service.server.settings import Settings, load_settings
from support.bare_environment import Bare, make_bare
from support.deployment import shared_kits
from support.postgres_server import Postgres
from support.server_process import WITHIN, until
from support.tiers import thorough

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "container"
CONTAINERFILE = FOLDER / "Containerfile"
COMPOSE = sorted(FOLDER.glob("compose*.yaml"))
PREFIX = "SEDML_SERVER__"


def steps() -> list[tuple[str, str]]:
    """Instruction and arguments of every step of the Containerfile."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line.strip()]


def stage(name: str) -> list[tuple[str, str]]:
    """The steps of one stage, with those that it builds on before them."""
    found: list[tuple[str, str]] = []
    inside = False
    for word, rest in steps():
        if word == "FROM":
            inside = rest.endswith(f" AS {name}")
            base = rest.split()[0]
            if inside and not base.startswith("$"):
                found += stage(base)
        elif inside:
            found.append((word, rest))
    return found


def variables(name: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for word, rest in stage(name) if word == "ENV" for pair in rest.split())


def last(name: str, instruction: str) -> str:
    return [rest for word, rest in stage(name) if word == instruction][-1]


def services() -> list[tuple[str, str, dict[str, Any]]]:
    found = [(path.name, yaml.safe_load(path.read_text())["services"]) for path in COMPOSE]
    return [(file, name, service) for file, here in found for name, service in here.items()]


WHOLE = [(file, name, service) for file, name, service in services() if "image" in service]


def named(value: Any) -> str:
    return value if isinstance(value, str) else ""


# ---- The image -----------------------------------------------------------------------------------------------------


def test_the_image_runs_as_nobody_in_particular_and_ends_in_order():
    for name in ("server", "backup"):
        user, _, group = last(name, "USER").partition(":")
        assert user == group == "10001"
    assert last("server", "STOPSIGNAL") == "SIGTERM"
    assert [word for word, _ in steps() if word == "ADD"] == []
    assert re.search(r"^ARG PYTHON=python:3\.\d+-slim-\w+$", CONTAINERFILE.read_text(), re.MULTILINE)


def test_only_what_is_needed_goes_to_the_build():
    """So that no kit can end up in a layer, wherever it lies in the checkout."""
    lines = CONTAINERFILE.with_name("Containerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "all is left out at first"
    let_in = [rule[1:] for rule in rules if rule.startswith("!")]
    copied = [
        source for word, rest in steps() if word == "COPY" and "--from" not in rest for source in rest.split()[:-1]
    ]
    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert source in let_in or any(path.startswith(f"{source}/") for path in let_in), source
    for secret in ("kits/s0/server.key", "s0/storage.key", "kits/operator-s0/kit.toml", "src/kits/s0/server.key"):
        assert not any(fnmatch(secret, path) or secret.startswith(f"{path}/") for path in let_in)


def test_the_variables_of_the_image_are_settings():
    ours = {name for name in variables("server") if name.startswith("SEDML")}
    assert {name.removeprefix(PREFIX).lower() for name in ours} <= Settings.model_fields.keys()
    assert len(ours) == 2


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    """What the Containerfile installs: the package without its extras, and the lock file, which is made for these."""
    extras = re.findall(r"--extra (\w+)", (ROOT / "Makefile").read_text())
    return make_bare(tmp_path_factory.mktemp("image"), extras)


def in_image(bare: Bare, command: str, kit: Path) -> list[str]:
    """A command of the Containerfile in that environment, with this kit at /kit."""
    program, *words = json.loads(command)
    places = {
        "/opt/sedml/bin/sedml": ["-m", "sedml"],
        "/opt/sedml/bin/python": [],
        "/opt/sedml/deploy/backup.py": [str(ROOT / "deploy" / "backup.py")],
        "/opt/sedml/deploy/healthcheck.py": [str(FOLDER / "healthcheck.py")],
        "/kit": [str(kit)],
    }
    rest = [part for word in (program, *words) for part in places.get(word, [word])]
    return [str(bare.folder / "bin" / "python"), "-I", *rest]


def test_the_image_has_a_server_and_a_driver_for_postgresql(bare: Bare):
    assert {"starlette", "uvicorn", "psycopg", "psycopg-binary", "pynacl"} <= set(bare.distributions)
    assert "torch" not in bare.distributions
    assert "Usage" in bare.sedml("serve", "--help")


@thorough
def test_the_commands_of_the_image_serve_and_know_when_they_do(bare: Bare, tmp_path: Path):
    """With its variables: started as the image does, ready as its health check says, ended as an engine ends it."""
    s0, s1, link = (f"127.0.0.1:{port}" for port in free_ports(3))
    provision(tmp_path / "kits", (s0, s1), link, 0, 0)
    kit = tmp_path / "kits" / "s0"
    outside = {name: value for name, value in os.environ.items() if not name.startswith("SEDML_")}
    here = {f"{PREFIX}DATA_DIR": str(tmp_path / "data"), f"{PREFIX}LINK_HOST": "0.0.0.0"}
    inside = outside | variables("server") | here

    def asked(kit: Path = kit) -> subprocess.CompletedProcess[str]:
        check = in_image(bare, last("server", "HEALTHCHECK").partition(" CMD ")[2], kit)
        return subprocess.run(check, env=inside, capture_output=True, text=True, check=False)

    before = asked()
    assert (before.returncode, before.stderr[:22]) == (1, "ConnectionRefusedError")
    words = json.dumps(json.loads(last("server", "ENTRYPOINT")) + json.loads(last("server", "CMD")))
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(in_image(bare, words, kit), env=inside, stdout=log, stderr=log)
    try:
        until(lambda: server.poll() is not None or asked().returncode == 0, "the health check is content")
        assert server.poll() is None, (tmp_path / "log").read_text()
        assert (tmp_path / "data" / "server.db").exists()
        assert not (kit / "data").exists(), "nothing is written to the kit"
        provision(tmp_path / "strangers", (s0, s1), link, 0, 0)
        assert "SSLCertVerificationError" in asked(tmp_path / "strangers" / "s0").stderr, "not of this authority"
        server.send_signal(signal.SIGTERM)
        assert server.wait(WITHIN) == 0
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()
    words = json.dumps(json.loads(last("backup", "ENTRYPOINT")) + json.loads(last("backup", "CMD"))).replace(
        '"/backups"', json.dumps(str(tmp_path / "backups"))
    )
    done = subprocess.run(in_image(bare, words, kit), env=inside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_health_check_without_a_kit_says_so(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, FOLDER / "healthcheck.py", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "kit.toml is missing" in done.stderr


# ---- Compose -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("file", "name", "service"), WHOLE, ids=lambda value: named(value))
def test_every_service_is_hardened(file, name, service):
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service
    assert "cap_add" not in service
    assert not service["image"].endswith(":latest")


@pytest.mark.parametrize(("file", "name", "service"), services(), ids=lambda value: named(value))
def test_every_variable_is_a_setting_and_no_secret_is_in_a_file(file, name, service):
    for variable, value in service.get("environment", {}).items():
        if variable.startswith("SEDML"):
            assert variable.removeprefix(PREFIX).lower() in Settings.model_fields, variable
        assert not re.search(r"://[^/@]*:[^/@]*@", str(value)), "a password in an address"
        assert "PASSWORD" not in variable or variable.endswith("_FILE")


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_what_a_service_refers_to_is_there(path):
    whole = yaml.safe_load(path.read_text())
    for service in whole["services"].values():
        for mount in service.get("volumes", []):
            source = re.split(r":(?=/)", mount)[0]
            assert source.startswith("$") or source in whole["volumes"], mount
        assert set(service.get("networks", [])) <= set(whole.get("networks", {}))
        assert set(service.get("secrets", [])) <= set(whole.get("secrets", {}))
        assert set(service.get("depends_on", {})) <= set(whole["services"])
        if "build" in service:
            context = (path.parent / service["build"]["context"]).resolve()
            assert context == ROOT
            assert (context / service["build"]["dockerfile"]) == CONTAINERFILE
            assert stage(service["build"]["target"])


@pytest.mark.parametrize(
    "path", [path for path in COMPOSE if path.name != "compose.s0.yaml"], ids=lambda path: path.name
)
def test_databases_can_be_reached_from_their_server_alone(path):
    whole = yaml.safe_load(path.read_text())
    inner = {name for name, network in whole["networks"].items() if network.get("internal")}
    for name, service in whole["services"].items():
        if service["image"].startswith("postgres:"):
            assert set(service["networks"]) <= inner, name
            assert "ports" not in service
            (network,) = service["networks"]
            users = [one for one, other in whole["services"].items() if network in other["networks"]]
            assert len(set(users) - {name, "backup"}) == 1


def test_an_engine_reads_the_files(tmp_path: Path):
    program = shutil.which("docker")
    if program is None or subprocess.run([program, "compose", "version"], capture_output=True).returncode:
        pytest.skip("docker compose is not installed")
    known = os.environ | {"SEDML_KIT": str(tmp_path), "SEDML_PORT": "8440"}
    for files in (
        ["compose.yaml"],
        ["compose.yaml", "compose.s0.yaml"],
        ["compose.demo.yaml"],
        ["compose.replicas.yaml"],
    ):
        words = [word for file in files for word in ("-f", str(FOLDER / file))]
        subprocess.run([program, "compose", *words, "config", "--quiet"], env=known, check=True)


@thorough
def test_a_password_for_postgresql_comes_from_a_file(postgres: Postgres, tmp_path: Path, monkeypatch):
    """As in the address of the compose file; this database here asks for none, so that only the way is tried."""
    address = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]["server"]["environment"]
    assert address[f"{PREFIX}DATABASE"].endswith("?passfile=/run/secrets/pgpass")
    (tmp_path / "pgpass").write_text("*:*:*:sedml:not-asked-for\n")
    (tmp_path / "pgpass").chmod(0o600)
    shutil.copytree(shared_kits() / "s0", tmp_path / "s0", ignore=shutil.ignore_patterns("data"))
    monkeypatch.setenv(f"{PREFIX}DATABASE", f"{postgres.new('passfile')}&passfile={tmp_path / 'pgpass'}")
    kit = ServerKit.load(tmp_path / "s0")
    open_node(kit, load_settings(kit)).close()
    if shutil.which("pg_dump") is not None:
        script = [sys.executable, str(ROOT / "deploy" / "backup.py"), "store", str(kit.folder)]
        subprocess.run([*script, "--to", str(tmp_path / "backups")], check=True, capture_output=True)
