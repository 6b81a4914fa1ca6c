"""This server's shares of the counts: its halves of the roster's ballots, added up page by page.

Nothing is said to the other server, and nothing follows from what it says but who is on the roster. A page is added
up from the store whenever it is needed and no longer at hand: after a crash, or at another replica, it comes out the
same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import lru_cache

import sqlalchemy as sa

from sedml.errors import ReplayError
from sedml.mpc.ring import Array
from sedml.protocol.ballots import PAGE, add_up, to_ring
from sedml.protocol.ballots.field import Words
from sedml.protocol.task import Block, Task
from sedml.service.server.jobs.records import Record
from sedml.service.server.node import Node
from sedml.service.server.storage.tables import ballot_pages, ballots
from sedml.service.server.storage.vault import page_label

_TOGETHER = 64
"""Ballots that are read together: a page of each is in memory at the same time."""
_AT_HAND = 2
"""Pages whose counts are kept: of the blocks under way, nearly all are on the same one."""


def counter(node: Node, record: Record, task: Task) -> Callable[[Block], Array]:
    """What gives this server's shares of the counts of a block: uint[N, Q]. It may be called from several threads."""
    one_at_a_time = threading.Lock()

    @lru_cache(maxsize=_AT_HAND)
    def page_counts(page: int) -> Words:
        return add_up(node.role, _kept(node, record, task, page), task.ballot.page(page))

    def counts(block: Block) -> Array:
        page, first = divmod(block.start, PAGE)
        with one_at_a_time:
            sums = page_counts(page)
        return to_ring(node.role, sums[first : first + block.samples], task.widths.counts)

    return counts


def _kept(node: Node, record: Record, task: Task, page: int) -> Iterator[bytes]:
    """What this server keeps of a page of each ballot on the roster, each once."""
    same = (ballot_pages.c.job == ballots.c.job) & (ballot_pages.c.teacher == ballots.c.teacher)
    here = ballot_pages.c.job == record.id, ballot_pages.c.page == page, ballots.c.seat.is_not(None)
    query = sa.select(ballot_pages.c.teacher, ballot_pages.c.sealed).join(ballots, same).where(*here)
    number = 0
    with node.store.read() as connection:
        for teacher, sealed in connection.execute(query.execution_options(yield_per=_TOGETHER)):
            number += 1
            yield node.vault.open(record.id, page_label(teacher, page), bytes(sealed))
    if number != task.teachers:
        raise ReplayError(
            f"Of a roster of {task.teachers} only {number} ballots are here.",
            "They were deleted, or the store was restored to an older state. Create a new job.",
        )
