"""A server started on what it must not use: refused, in words that say what to do, and nothing is changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import sqlalchemy as sa

from sedml.service.kits import ServerKit
from sedml.service.server.node import open_node
from sedml.service.server.settings import load_settings
from sedml.service.server.storage.tables import SCHEMA
from support.live_servers import make_kits, settings_of


def refusal(folder: Path) -> str:
    command = [sys.executable, "-m", "sedml", "serve", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode > 0
    assert "Traceback" not in ended.stderr
    return " ".join((ended.stdout + ended.stderr).split())


def test_a_store_with_tables_of_version_1(place: Path):
    """Its jobs had a dealer: nothing here could go on with them."""
    kit = ServerKit.load(make_kits(place / "old-store", settings_of(), teachers=2, requesters=0) / "s0")
    settings = load_settings(kit)
    open_node(kit, settings).close()
    engine = sa.create_engine(f"sqlite:///{settings.database}", poolclass=sa.NullPool)
    with engine.begin() as connection:
        connection.execute(sa.update(SCHEMA.versions).values(version=1))
    before = Path(settings.database).read_bytes()
    said = refusal(kit.folder)
    assert "has tables of version 1; this is version 4." in said
    assert "Finish its jobs with the release of sedml that wrote it, then begin a new store and keep the ledger" in said
    assert Path(settings.database).read_bytes() == before


def test_a_kit_with_dealers(place: Path):
    """The message names the account to take out."""
    kit = make_kits(place / "old-kit", settings_of(), teachers=2, requesters=0) / "s0"
    accounts = json.loads((kit / "accounts.json").read_text())
    accounts.append({"name": "dealer-1", "role": "dealer", "token_hash": "0" * 64})
    (kit / "accounts.json").write_text(json.dumps(accounts))
    assert "accounts.json is malformed at 3.role: Input should be 'teacher', 'requester' or 'operator'" in refusal(kit)


def test_a_kit_whose_keys_others_can_read(place: Path):
    kit = make_kits(place / "exposed-kit", settings_of(), teachers=0, requesters=0) / "s0"
    (kit / "storage.key").chmod(0o644)
    assert "chmod go=" in refusal(kit)
    assert not (kit / "data").exists(), "nothing was touched"
