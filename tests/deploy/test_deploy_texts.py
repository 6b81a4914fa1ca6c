"""What the texts of deploy/ name exists too: commands, options, files; and the blocks of its page follow the rules."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from docs.blocks import blocks, complaints
from sedml.service.kits import ClientKit, provision
from test_names import Mention, check_commands, pieces_of_page, wrong

DEPLOY = Path(__file__).parents[2] / "deploy"
PAGE = (DEPLOY / "README.md").read_text()
RULES = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]


def test_the_page_and_the_alerts_name_commands_that_exist():
    texts = {"README.md": PAGE} | {rule["alert"]: rule["annotations"]["description"] for rule in RULES}
    found = [Mention(name, piece) for name, text in texts.items() for piece in pieces_of_page(text)]
    assert wrong(found, check_commands) == []
    assert sum("sedml " in mention.piece.text for mention in found) > 10


def test_the_blocks_of_the_page_follow_the_rules():
    assert complaints(PAGE) == []


def test_every_file_is_in_the_page_and_every_name_of_the_page_is_a_file():
    files = {path for path in DEPLOY.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    for path in files - {DEPLOY / "README.md"}:
        assert path.name.removesuffix(".dockerignore") in PAGE or path.name == "healthcheck.py", path
    named = re.findall(r"(?:systemd|container|prometheus|grafana)/[\w@.]+\.\w+", PAGE)
    assert len(named) > 8
    for name in named:
        assert (DEPLOY / name).exists(), name


def test_no_secret_is_in_a_file():
    for path in DEPLOY.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert not re.search(r"BEGIN [A-Z ]*PRIVATE KEY|sedml_[A-Za-z0-9_-]{40}", path.read_text()), path


@pytest.mark.parametrize("server", ["s0", "s1"])
def test_the_page_takes_the_token_out_of_a_kit(server: str, tmp_path: Path):
    provision(tmp_path / "kits", ("127.0.0.1:8440", "127.0.0.1:8441"), None, 0, 0)
    (line,) = (line for block in blocks(PAGE) for line in block.code.splitlines() if line.startswith("sed -n"))
    command = line.partition(" > ")[0].replace("operator-s0", f"operator-{server}")
    said = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said == ClientKit.load(tmp_path / "kits" / f"operator-{server}").servers[server].token + "\n"
