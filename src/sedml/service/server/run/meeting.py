"""A meeting: S0 and S1, connected, take one job as far as they can together.

1. They find out where both have the job, and agree on a roster (`stages`, `roster`).
2. They put the charge in their logs and cosign these (`cosigning`): what is not in a cosigned log is not run. Then they
   run it. Until all blocks are final at both:
   a. `progress`: each says where it has every block, and how many it would work on at a time. What follows from
      that, each block by itself (`repetition`), is the same at both: it is final, or one more attempt is made at it.
   b. These attempts are made: some blocks at a time in lanes of this connection, with one set-up for all of them, or on
      both servers' workers (`blocks_on_workers`). `running` on disk, the start of the job on the ledger, the protocol
      (`block_work`), the share on disk, `saved`, `final` on disk.
3. All blocks are final: the job is done and the inputs are deleted; first at S0, which says `done` to that, then at S1.
   S1 is the one that calls, so it is the one that may be left behind. Both cosign once more, and hand out labels then.
Both servers run this same code. Whatever cuts a meeting short, the next one goes on from the rows on disk: whatever
else belonged to an attempt was in memory only, and is gone.

A progress that is a lie makes this server throw away a share that nobody has seen, or count an attempt more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import Literal

import numpy as np

from sedml.errors import CheatingError, ReplayError
from sedml.mpc.channel import Channel, run_in_lanes
from sedml.protocol.task import EXTRA_ATTEMPTS, Task
from sedml.service.server import public_log
from sedml.service.server.jobs import charges, retention
from sedml.service.server.jobs.records import Record, extra_attempts, get, move, update
from sedml.service.server.link.cosigning import cosign
from sedml.service.server.link.greeting import NO_JOB, greet
from sedml.service.server.node import Node
from sedml.service.server.run import blocks
from sedml.service.server.run.block_counts import counter
from sedml.service.server.run.block_work import set_up, tell_saved, work_on
from sedml.service.server.run.blocks import Attempt
from sedml.service.server.run.blocks_on_workers import run_on_workers
from sedml.service.server.run.pacing import blocks_under_way, worth_workers
from sedml.service.server.run.repetition import MANY_EXTRA, Row, RowState, following
from sedml.service.server.run.stages import Standing, compare_positions
from sedml.service.server.run.worker_pool import WorkerPool
from sedml.service.states import JobState, wrong_state

Advance = Literal["wait", "done", "over"]
"""The other server is not there yet; the job is done; it has ended otherwise."""


_TOGETHER = 256
"""Blocks that are set up together: each takes 12 KB until it is begun."""


@dataclass(frozen=True)
class _Side:
    """This server in the middle of a job."""

    node: Node
    record: Record
    task: Task
    channel: Channel
    pool: WorkerPool | None
    starting: Lock = field(default_factory=Lock)


@dataclass(frozen=True)
class _Pace:
    """How many blocks at a time: in lanes of the one link, or by workers if there are any."""

    lanes: int
    workers: int


def meet(node: Node, job: str, channel: Channel, pool: WorkerPool | None = None) -> Advance:
    """This server's side of a meeting, or of a greeting; with workers of its own, if it has some."""
    if job == NO_JOB:
        greet(node, channel)
        return "wait"
    channel.turn_to(bytes.fromhex(job))
    standing, record = compare_positions(node, job, channel)
    if record is None or standing is Standing.WAIT:
        return "wait"
    if standing is Standing.OVER:
        return "over"
    if record.task is None:
        raise ReplayError("The job has no roster.", "The store was restored to an older state. Create a new job.")
    _run(_Side(node, record, record.task, channel, pool))
    return "done"


def _run(side: _Side) -> None:
    node, channel = side.node, side.channel
    channel.turn_to(side.task.id)
    side = _start(side)
    cosign(node, channel)
    with node.store.read() as connection:
        public_log.check_cosigned(node, connection, side.record.due)
    attempts, pace = _progress(side)
    while attempts:
        if pace.workers and side.pool is not None:
            run_on_workers(node, side.pool, side.record, channel, attempts, pace.workers, partial(_begin, side))
        else:
            _run_here(side, attempts[:_TOGETHER], pace.lanes)
        attempts, pace = _progress(side)
    if node.role == 0:
        _finish(side)
    channel.exchange(0, "done", [])
    if node.role == 1:
        _finish(side)
    cosign(node, channel)
    retention.purge(node)  # last, so that nobody waits for it


def _start(side: _Side) -> _Side:
    """Put on record that it runs, with a row for each block; not if the ledger knows of a start that is not here."""
    node = side.node
    with node.store.write() as connection:
        record = get(connection, side.record.id, "update")
        if record.state not in (JobState.CLOSED, JobState.RUNNING, JobState.DONE):
            raise wrong_state(record.state, "run")  # it was deleted or has expired meanwhile
        if not any(row.attempt for row in blocks.rows(connection, record)):
            charges.check_unstarted(node, record.id, record.terms)
        if record.state is JobState.CLOSED:
            blocks.lay_out(connection, record.id, side.task)
            charge = charges.entry_of(node, record.id, record.terms)
            record = move(connection, node, record, "start", node.kit.name, charge)
        update(connection, record.id, problem=None)
    return replace(side, record=record)


def _begin(side: _Side, attempt: Attempt) -> None:
    """Before the first word of an attempt. In this order, a started job without attempts is one that was put back."""
    blocks.begin(side.node, side.record, attempt)
    with side.starting:  # once, of all lanes
        charges.start(side.node, side.record.id, side.record.terms)


def _progress(side: _Side) -> tuple[list[Attempt], _Pace]:
    """The attempts that are to be made now, and how many at a time; what is final by now is so on disk."""
    node, task = side.node, side.task
    with node.store.read() as connection:
        mine, extra = blocks.rows(connection, side.record), extra_attempts(connection, side.record.id)
    pace = _pace(side, sum(not row.is_final for row in mine), extra)
    table = np.array([(row.attempt, row.state) for row in mine], np.uint32)
    theirs, their_pace = side.channel.exchange(0, "progress", [table, np.array([pace.lanes, pace.workers], np.uint32)])
    attempts, saved = [], []
    for block, own, other in zip(task.blocks, mine, theirs.tolist(), strict=True):
        after = following(own, _row(*other))
        if not after.is_final:
            attempts.append(Attempt(block, own, after.attempt))
        elif not own.is_final:
            saved.append((block.index, own.attempt))
    if saved:
        blocks.make_final(node, side.record, saved)
    return attempts, _Pace(max(1, min(pace.lanes, int(their_pace[0]))), min(pace.workers, int(their_pace[1])))


def _row(attempt: int, state: int) -> Row:
    try:
        return Row(attempt, RowState(state))
    except ValueError:
        raise CheatingError("The other server has a block as nobody can have it.", "Tell both operators.") from None


def _pace(side: _Side, left: int, extra: int) -> _Pace:
    """How many of the blocks that are left this server would work on at a time."""
    delay, settings = side.node.link_delay.seconds, side.node.settings
    if extra >= MANY_EXTRA:
        return _Pace(1, 0)  # so that the next break costs one attempt only
    # Just one as long as it does not know the link.
    lanes = 1 if delay is None else blocks_under_way(side.task, delay, settings.max_blocks_under_way)
    if side.pool is None or not worth_workers(side.task, left):
        return _Pace(lanes, 0)
    # No break of the link may cost more attempts than there are left.
    return _Pace(lanes, min(side.pool.size(lanes), left, EXTRA_ATTEMPTS - extra))


def _run_here(side: _Side, attempts: list[Attempt], lanes: int) -> None:
    """In this process, over this connection."""
    node, record, task = side.node, side.record, side.task
    by_block = {attempt.block.index: attempt for attempt in attempts}
    session, counts = set_up(side.channel, node.role, list(by_block)), counter(node, record, task)

    def work(lane: Channel, _: int, index: int) -> None:
        attempt = by_block[index]
        _begin(side, attempt)
        try:
            share, cost = work_on(lane, session, task, attempt.block, lambda: counts(attempt.block))
        except CheatingError as error:
            node.condemned[record.id] = error
            raise
        blocks.save(node, record, attempt, share, cost)
        tell_saved(lane, attempt.block, attempt.number)
        blocks.make_final(node, record, [(index, attempt.number)])

    try:
        run_in_lanes(side.channel, list(by_block), lanes, work)
    finally:
        session.wipe()


def _finish(side: _Side) -> None:
    """The job is done here, if each of its blocks is final here."""
    node = side.node
    with node.store.write() as connection:
        record = get(connection, side.record.id, "update")
        if record.state is not JobState.RUNNING:  # done before, and only the other server had not heard
            return
        if not all(row.is_final for row in blocks.rows(connection, record)):
            raise ReplayError("Not all blocks of the job are finished here.", "Report this fault of sedml.")
        move(connection, node, record, "finish", node.kit.name)
        if not node.settings.keep_inputs:
            retention.delete_inputs(connection, record.id)
