"""A stock: set-up and randomness of the first blocks of a job, made while its vote is open.

What takes longest needs no vote, only how many teachers there will be. So once all that are enrolled have voted, or
nobody has for a minute, S1 calls S0 about the open job, and if both have as many ballots:

1. `stock`: each says how many teachers it reckons with, and draws half of the stock's name.
2. Base transfers, trees, and the randomness of the first block; `stock/more`: for how many blocks each has room.
3. The randomness of as many more as both have room for.

A stock lies in memory alone, so it cannot be restored, copied or used twice: whoever takes it removes it. When the job
runs and both servers still have the stock of the same name, for as many teachers as there are, they put its name on
record with digests of all that was said to make it, before the first word that follows from a vote (`transcript`);
else they make everything anew. Whatever a server drew for a stock follows from the name and from its kit, so a run that
broke off makes the same again, word for word, as it does without a stock.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import sqlalchemy as sa

from sedml.mpc.channel import Channel
from sedml.mpc.ot.extension import Extension, set_up
from sedml.mpc.ot.recipe import MadeRandomness, Recipes, make, transfers_of
from sedml.mpc.prg import Seed
from sedml.protocol.block import recipes
from sedml.service.server.crew import worth_workers
from sedml.service.server.node import Node
from sedml.service.server.records import Record, in_states
from sedml.service.server.tables import accounts, ballots
from sedml.service.server.transcript import NAME, Memo
from sedml.service.states import ENDED, JobState
from sedml.service.terms import task_of

__all__ = ["Stock", "coins_of", "make_again", "make_together", "ready", "sweep", "take", "wanting"]

T = TypeVar("T")

_QUIET = 60.0
"""Seconds without a vote after which as many teachers are reckoned with as have voted."""
_MOST_TIMES = 8
"""How often a stock is made for a job: whoever votes late spoils it."""
_NICE = 10


@dataclass(frozen=True)
class Stock:
    """One server's side; `blocks` by index, taken out one by one."""

    name: bytes
    needs: tuple[Recipes, ...]
    """Of the blocks it is for."""
    extension: Extension = field(repr=False)
    """For the blocks that come after these."""
    blocks: dict[int, MadeRandomness] = field(repr=False)
    memo: Memo = field(repr=False)

    @property
    def size(self) -> int:
        """Bytes of the randomness that is left."""
        return sum(one.size for one in list(self.blocks.values()))

    def suits(self, needs: Sequence[Recipes]) -> bool:
        """Whether these are what the blocks of a job need."""
        return len(self.needs) <= len(needs) and all(
            one == other for one, other in zip(self.needs, needs, strict=False)
        )


def wanting(node: Node) -> list[Record]:
    """Open jobs of which there should be a stock by now and is none."""
    with node.store.read() as connection:
        return [record for record in in_states(connection, [JobState.OPEN]) if _reckoned(node, connection, record)]


def _reckoned(node: Node, connection: sa.Connection, record: Record) -> int:
    """How many teachers to make a stock for now; 0 for none."""
    if not node.settings.stock_bytes:
        return 0
    voted = sa.select(sa.func.count()).select_from(ballots).where(ballots.c.job == record.id)
    enrolled = sa.select(sa.func.count()).where(accounts.c.role == "teacher", accounts.c.revoked_at.is_(None))
    teachers: int = connection.execute(voted).scalar_one()
    shelf = node.activity.shelf
    with shelf.lock:
        seen = shelf.votes.get(record.id)
        if seen is None or seen[0] != teachers:
            seen = shelf.votes[record.id] = teachers, node.steady()
        made = shelf.made.get(record.id, ())
    quiet = node.steady() - seen[1]
    if teachers < record.terms.min_teachers or len(made) >= _MOST_TIMES:
        return 0
    if node.role == 1 and teachers in made:  # S0 cannot know whether S1 has lost it, and makes it again
        return 0
    task = task_of(record.terms, teachers, "")
    if worth_workers(task, task.block_count):  # it takes long anyway, and its workers want the memory
        return 0
    everybody = teachers == connection.execute(enrolled).scalar_one()
    return teachers if everybody or quiet >= _QUIET else 0


def make_together(node: Node, record: Record, channel: Channel) -> None:
    """Either server's side of a call about a job whose vote is open at both."""
    shelf = node.activity.shelf
    # One after the other, or two would fill the same room. It is S1 that calls, so S1 decides.
    turn = node.role == 0 or shelf.making.acquire(blocking=False)
    try:
        with node.store.read() as connection:
            teachers = _reckoned(node, connection, record) if turn else 0
        half = secrets.token_bytes(NAME // 2)
        reckoned = np.array([teachers], np.uint32)
        theirs, their_half = channel.exchange(0, "stock", [reckoned, np.frombuffer(half, np.uint8)])
        if not teachers or theirs[0] != teachers:
            return
        halves = half, their_half.tobytes()
        name = b"".join(halves if node.role == 0 else reversed(halves))
        with shelf.lock:
            shelf.stocks.pop(record.id, None)  # one for fewer teachers
            before = shelf.made.get(record.id, ())
            shelf.made[record.id] = (*before, None)
        found = _in_the_background(lambda: _make(node, record, channel, name, teachers))
        with shelf.lock:
            shelf.made[record.id] = (*before, teachers)
            if found is not None:
                shelf.stocks[record.id] = found
    finally:
        if node.role == 1 and turn:
            shelf.making.release()


def _make(node: Node, record: Record, channel: Channel, name: bytes, teachers: int) -> Stock | None:
    task = task_of(record.terms, teachers, "")
    samples = [block.samples for block in task.blocks]
    memo = Memo()
    with channel.witnessed(memo):
        extension, coins = _begin(node, record.id, channel, name)
        blocks = {0: make(node.role, extension, channel, 0, recipes(task, samples[0]), coins)}
    room = _room(node) // max(1, blocks[0].size)
    [more] = channel.exchange(0, "stock/more", [np.array([min(room, len(samples))], np.uint32)])
    many = min(room, len(samples), int(more[0]))
    if many == 0:
        return None
    needs = tuple(recipes(task, one) for one in samples[:many])
    with channel.witnessed(memo):
        for index in range(1, many):
            blocks[index] = make(node.role, extension, channel, index, needs[index], coins)
    return Stock(name, needs, extension, blocks, memo)


def make_again(node: Node, job: str, channel: Channel, name: bytes, needs: Sequence[Recipes], first: int) -> Stock:
    """The stock of a run that broke off, from this block on; the channel has its witness already."""
    task = channel.task
    extension, coins = _begin(node, job, channel, name)
    blocks = {}
    for index, one in enumerate(needs):
        if index < first:
            extension.skip(transfers_of(one))
        else:
            blocks[index] = make(node.role, extension, channel, index, one, coins)
    channel.turn_to(task)
    return Stock(name, tuple(needs), extension, blocks, Memo())


def _begin(node: Node, job: str, channel: Channel, name: bytes) -> tuple[Extension, Seed]:
    """What all randomness of a stock comes from; its frames carry its name in place of a task's."""
    coins = coins_of(node, job, name)
    channel.turn_to(name[: len(channel.task)])
    return Extension(set_up(node.role, channel, coins), name), coins


def coins_of(node: Node, job: str, name: bytes) -> Seed:
    """All that this server draws in a run that begins with a stock follows from these."""
    return Seed(bytes.fromhex(node.vault.digest(job, "stock", name)))


def ready(node: Node, job: str | None = None) -> list[Stock]:
    """What lies there, of a job or of all."""
    shelf = node.activity.shelf
    with shelf.lock:
        return [one for which, one in shelf.stocks.items() if job in (None, which)]


def take(node: Node, job: str) -> Stock | None:
    """The stock of a job, if there is one: once."""
    shelf = node.activity.shelf
    with shelf.lock:
        return shelf.stocks.pop(job, None)


def sweep(node: Node) -> None:
    """Look how many have voted, and forget what is of jobs that are over."""
    wanting(node)
    shelf = node.activity.shelf
    with shelf.lock:
        known = {*shelf.stocks, *shelf.votes, *shelf.made}
    with node.store.read() as connection:
        alive = {record.id for record in in_states(connection, frozenset(JobState) - ENDED)}
    with shelf.lock:
        for job in known - alive:
            shelf.stocks.pop(job, None)
            shelf.votes.pop(job, None)
            shelf.made.pop(job, None)


def _room(node: Node) -> int:
    with node.activity.shelf.lock:
        taken = sum(one.size for one in node.activity.shelf.stocks.values())
    return max(0, node.settings.stock_bytes - taken)


def _in_the_background(work: Callable[[], T]) -> T:
    """In a thread of its own that gives way to all others of the machine."""

    def give_way() -> None:
        with suppress(OSError, AttributeError):  # where the system has no such thing, it runs as the others do
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)

    with ThreadPoolExecutor(1, thread_name_prefix="sedml-stock", initializer=give_way) as thread:
        return thread.submit(work).result()
