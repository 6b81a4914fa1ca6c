"""How long a running job will still take: as long for each sample as the later half of its blocks took.

Half of them, because a machine that has other work is now fast and now slow. Blocks whose randomness lay ready
(`stock`) take a fraction of the time of those that follow, and would promise too much. They show by their rounds: only
a block that makes its own has more than the protocol takes online.
"""

from __future__ import annotations

import sqlalchemy as sa

from sedml.protocol.links import online_rounds
from sedml.service.server.jobs.records import Record
from sedml.service.server.storage.tables import blocks

__all__ = ["seconds_left"]

_FEWEST = 8
"""Blocks to go by, where there are so many: one slow block says little."""
_STOCK = 64
"""More blocks than a stock has, which lies in memory."""


def seconds_left(connection: sa.Connection, record: Record) -> float | None:
    """None where nothing can be said yet."""
    if record.task is None:
        return None
    here = blocks.c.job == record.id
    own: sa.ColumnElement[bool] = here & (blocks.c.rounds > online_rounds(record.task))
    # In one statement: on PostgreSQL the next one may see a block more.
    sums = sa.func.count(), sa.func.count().filter(own), sa.func.sum(blocks.c.samples)
    number, made, done = connection.execute(sa.select(*sums).where(here)).one()
    if not made:
        if number <= _STOCK:
            return None
        # No sample has had a consensus so far, and so there was no round to find a label.
        own, made = here, number
    later = sa.select(blocks.c.seconds, blocks.c.samples).where(own).order_by(blocks.c.block.desc())
    some = later.limit(max(_FEWEST, made // 2)).subquery()
    took, samples = connection.execute(sa.select(sa.func.sum(some.c.seconds), sa.func.sum(some.c.samples))).one()
    # If there are none any more, the job was deleted meanwhile.
    return float(took / samples * (record.terms.samples - done)) if samples else None
