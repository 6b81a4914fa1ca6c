"""How long a running job will still take: as long for each sample as its last blocks took.

Blocks whose randomness lay ready (`stock`) take a fraction of the time of those that follow, and would promise too
much. They show by their rounds: only a block that makes its own has more than the protocol takes online.
"""

from __future__ import annotations

import sqlalchemy as sa

from sedml.protocol.links import online_rounds
from sedml.service.server.records import Record
from sedml.service.server.tables import blocks

__all__ = ["seconds_left"]

_LAST = 32
"""Blocks to go by: enough that one slow block says little, few enough to follow a machine that gets busier."""


def seconds_left(connection: sa.Connection, record: Record) -> float | None:
    """None where nothing can be said yet."""
    if record.task is None:
        return None
    here = blocks.c.job == record.id
    done = connection.execute(sa.select(sa.func.sum(blocks.c.samples)).where(here)).scalar_one() or 0
    query = sa.select(blocks.c.seconds, blocks.c.samples).where(here).order_by(blocks.c.block.desc()).limit(_LAST)
    rows = connection.execute(query.where(blocks.c.rounds > online_rounds(record.task))).all()
    if not rows and done > _LAST * record.task.block_samples:
        # No stock lasts so long: there is just no sample with a consensus, and so no round to find its label.
        rows = connection.execute(query).all()
    if not rows:
        return None
    each = sum(row.seconds for row in rows) / sum(row.samples for row in rows)
    return float(each * (record.terms.samples - done))
