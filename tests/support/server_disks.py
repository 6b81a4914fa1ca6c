"""What servers have on disk, with the keys of their kits: to compare, and to know what is secret."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import sqlalchemy as sa

from sedml.database import Database
from sedml.privacy.ledger.schema import TABLES as LEDGER_TABLES
from sedml.service.kits import ServerKit
from sedml.service.server.settings import Settings, load_settings
from sedml.service.server.storage.tables import SCHEMA as STORE_SCHEMA
from sedml.service.server.storage.vault import Vault, page_label


@contextmanager
def opened_stores(kits: Sequence[ServerKit]) -> Iterator[list[SimpleNamespace]]:
    """The store of each server, with the key to what is sealed in it."""
    with ExitStack() as stack:
        found = []
        for kit in kits:
            store = Database(_settings(kit).database, 30.0, STORE_SCHEMA)
            stack.callback(store.close)
            found.append(SimpleNamespace(store=store, vault=Vault(kit.storage_key)))
        yield found


def all_rows(kit: ServerKit) -> dict[str, list[tuple[Any, ...]]]:
    """All that a server has on record, but for the log."""
    found, settings = {}, _settings(kit)
    for where, tables in ((settings.database, STORE_SCHEMA.tables), (settings.ledger, LEDGER_TABLES)):
        with _connected(where) as connection:
            for table in tables.sorted_tables:
                if not table.name.endswith(("_log", "_notes")):
                    rows = connection.execute(sa.select(table).order_by(*table.primary_key)).all()
                    found[f"{kit.name} {table.name}"] = [tuple(row) for row in rows]
    files = (path for path in (kit.folder / "data").rglob("*") if path.is_file() and ".db" not in path.name)
    return found | {f"{kit.name} files": sorted((path.name,) for path in files)}


def audited(kit: ServerKit) -> list[tuple[str, str, str]]:
    """Actor, action and outcome of every entry of a server's log."""
    table = STORE_SCHEMA.tables.tables["sedml_store_log"]
    with _connected(_settings(kit).database) as connection:
        query = sa.select(table.c.actor, table.c.action, table.c.outcome).order_by(table.c.number)
        return [tuple(row) for row in connection.execute(query)]


def unsealed(kit: ServerKit, known: Container[str]) -> Iterator[tuple[str, bytes]]:
    """Halves of ballots, of all jobs; with names, those not known yet."""
    ballots = STORE_SCHEMA.tables.tables["sedml_store_ballot_pages"]
    vault = Vault(kit.storage_key)
    with _connected(_settings(kit).database) as connection:
        if not sa.inspect(connection).has_table(ballots.name):  # a server that was never started
            return
        for row in connection.execute(sa.select(ballots)).mappings():
            label = page_label(row["teacher"], row["page"])
            name = f"{kit.name} {row['job']}/{label}"
            if name not in known:
                yield name, vault.open(row["job"], label, bytes(row["sealed"]))


def _settings(kit: ServerKit) -> Settings:
    return _read_settings(kit.folder)


@lru_cache(maxsize=32)
def _read_settings(folder: Path) -> Settings:
    return load_settings(ServerKit.load(folder))


@contextmanager
def _connected(where: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(where if "://" in where else f"sqlite:///{where}", poolclass=sa.NullPool)
    with engine.connect() as connection:
        yield connection
