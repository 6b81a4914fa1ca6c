"""The manifests for Kubernetes: as its published schema has them, confined, and with nothing that is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sedml.service.kits import ServerKit
from sedml.service.server.settings import Settings, load_settings
from support.deployment import shared_kits

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
SERVERS = ("s0", "s1")
PREFIX = "SEDML_SERVER__"


def documents(*names: str) -> list[dict[str, Any]]:
    return [one for name in ("server", *names) for one in yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text())]


def sets() -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"] for one in documents() if one["kind"] == "StatefulSet"}


def containers() -> list[tuple[str, dict[str, Any]]]:
    pods = {name: spec["template"]["spec"] for name, spec in sets().items()}
    return [(name, one) for name, pod in pods.items() for one in (*pod.get("initContainers", []), *pod["containers"])]


@pytest.mark.parametrize("version", ["1.29", "1.33"])
def test_the_published_schema_has_nothing_against_them(version):
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    for document in documents(*SERVERS):
        validate.validate(document, version, strict=True)
        document["nonsense"] = 1
        with pytest.raises(validate.ValidationError):
            validate.validate(document, version, strict=True)


def test_every_container_is_confined():
    for spec in sets().values():
        pod = spec["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    for _, container in containers():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not container["image"].endswith(":latest")


def test_every_variable_is_a_setting_and_no_secret_is_in_them():
    for _, container in containers():
        for variable in container.get("env", []):
            name = variable["name"]
            if name.startswith(PREFIX):
                assert name.removeprefix(PREFIX).lower() in Settings.model_fields
            assert "PASSWORD" not in name or name.endswith("_FILE")


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_has_the_settings_of_its_kit(server, monkeypatch):
    """S0 listens for the other one everywhere; S1 calls where its kit says, and is called by clients alone."""
    variables = {
        one["name"]: one["value"]
        for name, container in containers()
        if name == "server"
        for one in container.get("env", [])
    }
    (settings,) = [one["data"] for one in documents(server) if one["kind"] == "ConfigMap"]
    for name, value in (variables | settings).items():
        monkeypatch.setenv(name, value)
    kit = ServerKit.load(shared_kits() / server)
    found = load_settings(kit)
    assert found.database == found.ledger == "postgresql://sedml@db/sedml?passfile=/kit/pgpass"
    link = ("0.0.0.0", 8540) if server == "s0" else (kit.link_host, kit.link_port)
    assert (found.link_host, found.link_port) == link
    (service,) = [
        one["spec"] for one in documents(server) if one["metadata"]["name"] == "server" and one["kind"] == "Service"
    ]
    assert [port["name"] for port in service["ports"]] == ["clients", "link"][: 2 - kit.role]


@pytest.mark.parametrize("server", SERVERS)
def test_what_is_mounted_and_selected_is_there(server):
    by_label = {spec["selector"]["matchLabels"]["app"]: name for name, spec in sets().items()}
    for name, container in containers():
        spec = sets()[name]
        volumes = {one["name"] for one in spec["template"]["spec"]["volumes"]}
        volumes |= {one["metadata"]["name"] for one in spec["volumeClaimTemplates"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
    for service in (one for one in documents(server) if one["kind"] == "Service"):
        name = by_label[service["spec"]["selector"]["app"]]
        named = {port["name"] for who, one in containers() if who == name for port in one.get("ports", [])}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named
    (policy,) = [one["spec"] for one in documents() if one["kind"] == "NetworkPolicy"]
    assert by_label[policy["podSelector"]["matchLabels"]["app"]] == "db"
    assert by_label[policy["ingress"][0]["from"][0]["podSelector"]["matchLabels"]["app"]] == "server"


def test_the_health_check_is_the_one_of_the_image():
    text = (ROOT / "deploy" / "container" / "Containerfile").read_text()
    (server,) = [one for _, one in containers() if one["name"] == "server"]
    assert str(server["readinessProbe"]["exec"]["command"]).replace("'", '"') in text
    assert f"ENTRYPOINT {str(['/opt/sedml/bin/sedml']).replace(chr(39), chr(34))}" in text
