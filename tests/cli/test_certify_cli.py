"""`sedml certify` and `sedml rekey`, as an operator types them."""

import json
import sys

import pytest
from typer.testing import CliRunner

from sedml.cli import app, main
from sedml.service.kits import ServerKit, provision
from sedml.service.kits.inspection import expiries


@pytest.fixture
def kits(tmp_path):
    provision(tmp_path / "kits", ("127.0.0.1:8440", "127.0.0.1:8441"), None, 0, 0)
    return tmp_path / "kits"


def certify(kits, *options):
    result = CliRunner().invoke(app, ["certify", str(kits / "s0"), "--authority", str(kits / "authority"), *options])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_new_certificate_and_what_to_do_with_it(kits):
    before = ServerKit.load(kits / "s0").credentials
    said = certify(kits, "--days", "30")
    kit = ServerKit.load(kits / "s0")
    assert kit.credentials != before
    assert f"{expiries(kit.credentials)['server']:%Y-%m-%d}" in said
    assert "SIGHUP" in said
    assert "PRIVATE" not in said


def test_one_document_for_machines(kits):
    document = json.loads(certify(kits, "--json"))
    assert document == {
        "kit": str(kits / "s0"),
        "expires": expiries(ServerKit.load(kits / "s0").credentials)["server"].isoformat(),
        "names": ["localhost", "127.0.0.1", "::1"],
    }


def test_names_that_are_added_stay_at_the_next_renewal(kits):
    assert "s0.example" in certify(kits, "--names", "s0.example, 10.0.0.5")
    names = json.loads(certify(kits, "--json"))["names"]
    assert {"s0.example", "10.0.0.5"} < set(names)


def test_what_is_wrong_is_said_and_the_exit_code_is_2(kits, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sedml", "certify", str(kits / "s0"), "--authority", str(kits / "operator-s0")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "ca.key is missing" in capsys.readouterr().err


def test_a_new_storage_key_next_to_the_old_one(kits, monkeypatch, capsys):
    before = ServerKit.load(kits / "s0").storage_key
    said = CliRunner().invoke(app, ["rekey", str(kits / "s0")])
    assert said.exit_code == 0
    assert "Restart the server" in said.output
    kit = ServerKit.load(kits / "s0")
    assert kit.old_storage_key == before != kit.storage_key
    assert kit.storage_key.hex() not in said.output
    document = CliRunner().invoke(app, ["rekey", str(kits / "s1"), "--json"])
    assert json.loads(document.output) == {"kit": str(kits / "s1")}
    monkeypatch.setattr(sys, "argv", ["sedml", "rekey", str(kits / "s0")])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert "has not taken up the new one yet" in " ".join(capsys.readouterr().err.split())
    assert ServerKit.load(kits / "s0") == kit
