"""A new `storage.key`: at its start a server seals everything that it has anew, before it answers anybody.

All in one transaction, and only then is the old key forgotten: whatever interrupts it, the next start goes on from
there. The newest line of the audit log says which key the store is under.
"""

from __future__ import annotations

import sqlalchemy as sa
import structlog

from sedml.database import Database
from sedml.errors import StoreError
from sedml.service.kits import ServerKit, forget_old_storage_key
from sedml.service.server.storage import audit_chain
from sedml.service.server.storage.tables import ballot_pages, blocks
from sedml.service.server.storage.vault import Vault, page_label

__all__ = ["settle"]

_log = structlog.get_logger("sedml.rekeying")


def settle(kit: ServerKit, store: Database, time: float) -> Vault:
    """The vault that fits the store, under the new key of the kit if there is one."""
    new = Vault(kit.storage_key)
    if kit.old_storage_key is None:
        return new
    if kit.old_storage_key != kit.storage_key:  # or the command was cut off before it wrote a new one
        old = Vault(kit.old_storage_key)
        with store.write() as connection:
            if not audit_chain.ends_under(connection, new):
                audit_chain.chain_older(connection, old, time, kit.name)
                _seal_anew(connection, old, new)
                _rekey_audit(connection, old, new, time, kit.name)
        store.empty_log()
        _log.info("rekeying.done")
    forget_old_storage_key(kit.folder)
    return new


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


def _rekey_audit(connection: sa.Connection, old: Vault, new: Vault, time: float, server: str) -> None:
    """Chain the log under the new key, and say in a line of its own which head it had under the old one."""
    number, digest = audit_chain.newest(connection) or (0, audit_chain.BEGINNING)
    wrong = audit_chain.rekey(connection, old, new)
    if wrong is not None:
        raise StoreError(
            f"Line {wrong} of the audit log does not fit, and a new storage key would hide that.",
            "Put storage.key.old back in the place of storage.key, start, and look at it with `sedml audit`.",
        )
    line = {"at": time, "actor": server, "action": "rekey", "subject": "storage", "outcome": f"{number}:{digest}"}
    audit_chain.append(connection, new, [line])
