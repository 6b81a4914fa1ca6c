"""How long a running job will still take: as long for each sample as the later half of its blocks took.

Half of them, because a machine that has other work is now fast and now slow.
"""

from __future__ import annotations

import sqlalchemy as sa

from sedml.service.server.jobs.records import Record
from sedml.service.server.storage.tables import blocks

_FEWEST = 8
"""Blocks to go by, where there are so many: one slow block says little."""


def seconds_left(connection: sa.Connection, record: Record) -> float | None:
    """How many seconds a running job will still take; None where nothing can be said yet."""
    if record.task is None:
        return None
    here = (blocks.c.job == record.id) & (blocks.c.state == "final")
    # In one statement: on PostgreSQL the next one may see a block more.
    number, done = connection.execute(sa.select(sa.func.count(), sa.func.sum(blocks.c.samples)).where(here)).one()
    if not number:
        return None
    later = sa.select(blocks.c.seconds, blocks.c.samples).where(here).order_by(blocks.c.block.desc())
    some = later.limit(max(_FEWEST, number // 2)).subquery()
    took, samples = connection.execute(sa.select(sa.func.sum(some.c.seconds), sa.func.sum(some.c.samples))).one()
    # If there are none any more, the job was deleted meanwhile.
    return float(took / samples * (record.terms.samples - done)) if samples else None
