"""A new `storage.key`: at its start a server seals everything that it has anew, before it answers anybody.

All in one transaction, and only then is the old key forgotten: whatever interrupts it, the next start goes on from
there. A note in the store, a digest under the key, says which key the store is under.
"""

from __future__ import annotations

import sqlalchemy as sa
import structlog

from sedml.database import Database
from sedml.errors import StoreError
from sedml.service.kits import ServerKit, forget_old_storage_key
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import ballot_pages, blocks
from sedml.service.server.storage.vault import Vault, page_label

_log = structlog.get_logger("sedml.rekeying")


def settle(kit: ServerKit, store: Database, time: float) -> Vault:
    """The vault that fits the store, under the new key of the kit if there is one."""
    new = Vault(kit.storage_key)
    with store.write() as connection:
        if kit.old_storage_key not in (None, kit.storage_key) and not is_under(connection, new):
            _replace(connection, Vault(kit.old_storage_key or b""), new, time, kit.name)
        elif log_rows.kept(connection, "storage") is None:
            log_rows.keep(connection, "storage", _mark(new))
        _check(connection, new)
    if kit.old_storage_key is not None:
        store.empty_log()
        _log.info("rekeying.done")
        forget_old_storage_key(kit.folder)
    return new


def is_under(connection: sa.Connection, vault: Vault) -> bool:
    """Whether the store says that this is its key; a new one says nothing yet."""
    kept = log_rows.kept(connection, "storage")
    return kept is not None and kept[0] == _mark(vault)


def _check(connection: sa.Connection, vault: Vault) -> None:
    if log_rows.kept(connection, "storage") is not None and not is_under(connection, vault):
        raise StoreError(
            "The store was sealed under another storage.key than the one in this kit.",
            "Start the server with the kit that wrote it, or restore the store that belongs to this kit.",
        )


def _replace(connection: sa.Connection, old: Vault, new: Vault, time: float, server: str) -> None:
    _check(connection, old)
    _seal_anew(connection, old, new)
    log_rows.keep(connection, "storage", _mark(new))
    line = {"at": time, "actor": server, "action": "rekey", "subject": "storage", "outcome": "done", "entry": ""}
    log_rows.append(connection, [line])


def _mark(vault: Vault) -> str:
    return vault.digest("store", "key", b"")


def _seal_anew(connection: sa.Connection, old: Vault, new: Vault) -> None:
    kept = sa.select(blocks.c.job, blocks.c.block).where(blocks.c.sealed_labels.is_not(None))
    for job, block in connection.execute(kept).all():
        here, label = (blocks.c.job == job, blocks.c.block == block), f"labels/{block}"
        sealed = connection.execute(sa.select(blocks.c.sealed_labels).where(*here)).scalar_one()
        labels = new.seal(job, label, old.open(job, label, bytes(sealed)))
        connection.execute(sa.update(blocks).where(*here).values(sealed_labels=labels))
    whose = ballot_pages.c.job, ballot_pages.c.page, ballot_pages.c.teacher
    for job, page, teacher in connection.execute(sa.select(*whose)).all():
        here = tuple(column == value for column, value in zip(whose, (job, page, teacher), strict=True))
        sealed = connection.execute(sa.select(ballot_pages.c.sealed).where(*here)).scalar_one()
        label = page_label(teacher, page)
        anew = new.seal(job, label, old.open(job, label, bytes(sealed)))
        connection.execute(sa.update(ballot_pages).where(*here).values(sealed=anew))
