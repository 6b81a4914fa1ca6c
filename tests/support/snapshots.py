"""What two open servers have on disk, kept and put back: tests begin where a preparation has ended, at little cost."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from sedml.service.server.node import Node
from support.deployment import Deployment, fresh_memory


def keep(made: Deployment, folder: Path) -> None:
    """Copy all of it to a new folder."""
    for node in made.nodes:
        place = folder / node.kit.name
        shutil.copytree(node.public_data, place / "public")
        for live in _databases(node):
            _copy(live, place / live.name)


def put_back(made: Deployment, folder: Path) -> None:
    """As if the servers had just been started on what was kept."""
    made.clock.reset()
    made.link.clear()
    for node in made.nodes:
        place = folder / node.kit.name
        for live in _databases(node):
            _copy(place / live.name, live)
        shutil.rmtree(node.public_data)
        shutil.copytree(place / "public", node.public_data)
        node.work.clear()
        for name, fresh in fresh_memory(node).items():
            vars(getattr(node, name)).update(vars(fresh))


def _databases(node: Node) -> list[Path]:
    return [Path(node.settings.database), Path(node.settings.ledger)]


def _copy(source: Path, target: Path) -> None:
    """Whole and at once, whoever has it open."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)
