"""A meeting: S0 and S1, connected, take one job as far as they can together.

1. They find out where both have the job, and agree on a roster (`stages`, `roster`).
2. They run it:
   a. `commitment`: each sends a digest of its noise and common randomness, and the one of the other server that it has
      on disk. The first one seen goes on disk, with the state `running`; at another meeting it must be the same. So a
      server that lost its store cannot draw new noise for a job that has begun, and both know it.
   b. `progress`: how many blocks each has finished, whether it still has its inputs, and how many blocks it would work
      on at a time over the link as it has measured it. They go on with the first block that not both have, with as many
      at a time as both would; or on both servers' workers, if both have some and there are enough blocks left
      (`blocks_on_workers`). The start of the job goes on the ledger here.
   c. From here on every message is on record before the next one is sent, and at another meeting both must say the same
      again, word for word (`transcript`): common randomness, base OTs and trees first.
   d. For every block: its one-use randomness (`sedml.mpc.ot`), then Algorithm 1, then the label share on disk, then
      `saved`, with a digest of the consensus, which both know. No word of a block follows from another block, so that
      several can be under way (`sedml.mpc.channel.lanes`), and are repeated in whatever order.
   e. Both have all blocks: the ledger is settled, the job is done, the inputs are deleted; first at S0, which says
      `done` to that, then at S1. S1 is the one that calls, so it is the one that may be left behind.
Both servers run this same code. Whatever cuts a meeting short, the next one repeats it.

What is said before c is bound as well, or says nothing of a vote: the roster and the commitments go on disk when they
are first agreed on, and a position or a progress that is a lie changes only which messages are repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import sqlalchemy as sa

from sedml.errors import CheatingError, ReplayError
from sedml.mpc.channel import Channel, run_in_lanes
from sedml.lab.semi_honest.gadgets.refresh import agree
from sedml.lab.semi_honest.branches import Branches
from sedml.mpc.ot.extension import Extension, set_up
from sedml.lab.semi_honest.recipe import transfers_of
from sedml.lab.semi_honest.block import recipes
from sedml.lab.semi_honest.links import blocks_under_way
from sedml.protocol.task import Task
from sedml.service.server.jobs import charges, retention
from sedml.service.server.jobs.records import Record, get, move, update
from sedml.service.server.link.greeting import NO_JOB, greet
from sedml.service.server.node import Node
from sedml.service.server.run import blocks
from sedml.service.server.run.block_counts import counter
from sedml.service.server.run.block_work import BlockWork, compare, work_on
from sedml.service.server.run.blocks_on_workers import run_on_workers
from sedml.service.server.run.stages import Standing, compare_positions
from sedml.service.server.run.transcript import Transcript
from sedml.service.server.run.worker_pool import WorkerPool, worth_workers
from sedml.service.server.storage.tables import jobs
from sedml.service.states import JobState, wrong_state

__all__ = ["Advance", "meet"]

Advance = Literal["wait", "done", "over"]
"""The other server is not there yet; the job is done; it has ended otherwise."""

_NOT_YET = "00" * 32
"""What stands in place of the other server's commitment, before there is one."""


@dataclass(frozen=True)
class _Side:
    """This server in the middle of a job."""

    node: Node
    record: Record
    task: Task
    channel: Channel
    pool: WorkerPool | None


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
    node, record, task, channel = side.node, side.record, side.task, side.channel
    channel.turn_to(task.id)
    inputs = None
    if record.state is not JobState.DONE:
        inputs = blocks.read_inputs(node, record, task)
    commitment = _own_commitment(node, record) if inputs is None else inputs.commitment
    side = _begin(side, commitment)
    if inputs is None:
        _progress(side, None)
    else:
        with Transcript(_record_path(node, record), _record_key(node, record, inputs)) as transcript:
            first, pace = _progress(side, inputs)
            if first < task.block_count:
                _run_from(side, inputs, transcript, first, pace)
    if node.role == 0:
        _finish(side)
    channel.exchange(0, "done", [])
    if node.role == 1:
        _finish(side)
    node.store.empty_log()  # last, so that nobody waits for it


@dataclass(frozen=True)
class _Pace:
    """How many blocks at a time: in lanes of the one link, or by workers if there are any."""

    lanes: int
    workers: int


def _under_way(node: Node, task: Task) -> int:
    """How many blocks of a job this server would work on at a time: one, as long as it does not know the link."""
    delay = node.link_delay.seconds
    return 1 if delay is None else blocks_under_way(task, delay, node.settings.max_blocks_under_way)


def _workers(side: _Side, first: int, under_way: int) -> int:
    """How many of its workers this server would have on the blocks that are left."""
    pool, task, left = side.pool, side.task, side.task.block_count - first
    return min(pool.size(under_way), left) if pool is not None and worth_workers(task, left) else 0


def _progress(side: _Side, inputs: blocks.Inputs | None) -> tuple[int, _Pace]:
    """The first block that not both have, and how many at a time."""
    first, lanes = blocks.finished(side.node, side.record), _under_way(side.node, side.task)
    mine = first, inputs is not None, lanes, _workers(side, first, lanes)
    [theirs] = side.channel.exchange(0, "progress", [np.array(mine, np.uint32)])
    first, pace = min(first, int(theirs[0])), _Pace(max(1, min(lanes, int(theirs[2]))), min(mine[3], int(theirs[3])))
    if first < side.task.block_count and (inputs is None or not theirs[1]):
        raise _done_elsewhere()
    return first, pace


def _done_elsewhere() -> ReplayError:
    return ReplayError(
        "One server has to run blocks again of a job that is done at the other.",
        "Its store was restored to an older state. Create a new job.",
    )


def _record_key(node: Node, record: Record, inputs: blocks.Inputs) -> bytes:
    return bytes.fromhex(node.vault.digest(record.id, "transcript", inputs.commitment.encode()))


def _record_path(node: Node, record: Record) -> Path:
    """The record that was made with the seeds: of seeds that were drawn anew there is another."""
    with node.store.read() as connection:
        salt = connection.execute(sa.select(jobs.c.salt).where(jobs.c.id == record.id)).scalar_one()
    return node.transcripts / f"{record.id}.{salt}"


def _run_from(side: _Side, inputs: blocks.Inputs, transcript: Transcript, first: int, pace: _Pace) -> None:
    """The blocks from this one on, for the first time or once more, so many at a time."""
    node, record, task, channel = side.node, side.record, side.task, side.channel
    charges.start(node, record.id, record.terms)
    every = list(task.blocks)
    by_size = {samples: transfers_of(recipes(task, samples)) for samples in {block.samples for block in every}}
    under_way = min(pace.lanes, len(every) - first)
    counts = counter(node, record, task)
    with channel.witnessed(transcript):
        common = agree(channel, inputs.half)
        extension = Extension(set_up(node.role, channel, inputs.coins), common.key)
        transcript.keep()  # of whatever block the next word is
        ends = Branches(extension, [by_size[block.samples] for block in every], under_way)

        def work_of(index: int, source: Extension) -> BlockWork:
            return BlockWork(node.role, task, every[index], inputs.noise, inputs.coins, common, source)

        def work(lane: Channel, number: int, index: int) -> None:
            block = every[index]
            at_hand = work_of(index, ends.at(number, index))
            share, cost = work_on(lane, at_hand, lambda: counts(block))
            transcript.keep()
            blocks.save(node, record, block, share, cost)
            node.traffic.add(cost.rounds, cost.bytes)
            compare(lane, block, share)
            transcript.leave(index)

        if not pace.workers:
            run_in_lanes(channel, range(first, len(every)), under_way, work)

    def apart(index: int) -> BlockWork:
        return work_of(index, ends.apart(index))

    if pace.workers and side.pool is not None:
        run_on_workers(
            node, side.pool, record, channel, transcript, range(first, len(every)), pace.workers, apart, counts
        )


def _own_commitment(node: Node, record: Record) -> str:
    with node.store.read() as connection:
        return connection.execute(sa.select(jobs.c.commitment).where(jobs.c.id == record.id)).scalar_one() or ""


def _begin(side: _Side, ours: str) -> _Side:
    """Hold both servers to what they bring, before the first message of a block."""
    node = side.node
    with node.store.read() as connection:
        query = sa.select(jobs.c.peer_commitment).where(jobs.c.id == side.record.id)
        expected = connection.execute(query).scalar_one() or _NOT_YET
    arrays = [np.frombuffer(bytes.fromhex(one), np.uint8) for one in (ours, expected)]
    theirs, of_ours = (one.tobytes().hex() for one in side.channel.exchange(0, "commitment", arrays))
    with node.store.write() as connection:
        record = get(connection, side.record.id, "update")
        if record.state not in (JobState.CLOSED, JobState.RUNNING, JobState.DONE):
            raise wrong_state(record.state, "run")  # it was deleted or has expired meanwhile
        known = connection.execute(
            sa.select(jobs.c.commitment, jobs.c.peer_commitment).where(jobs.c.id == record.id)
        ).one()
        if known.commitment not in (None, ours) or (known.commitment is None and of_ours not in (_NOT_YET, ours)):
            raise ReplayError(
                "This server's noise or randomness for the job is not what it was when the job began.",
                "Its store was lost or restored, or it runs another release. Create a new job: going on would reveal "
                "shares.",
            )
        if known.peer_commitment not in (None, theirs) or of_ours not in (_NOT_YET, ours):
            raise CheatingError(
                "What the other server brings, or says that this one brought, is not what it was when the job began.",
                "It cheats, or its store was lost or restored. Nothing more was sent to it. Tell both operators.",
            )
        if known.commitment is None:
            charges.check_unstarted(node, record.id, record.terms)
        update(connection, record.id, commitment=ours, peer_commitment=theirs, problem=None)
        if record.state is JobState.CLOSED:
            record = move(connection, node, record, "start", node.kit.name)
    return replace(side, record=record)


def _finish(side: _Side) -> None:
    node = side.node
    with node.store.read() as connection:
        record = get(connection, side.record.id)
        answered = blocks.answered_in_all(connection, record)
    if record.state is not JobState.RUNNING:  # done before, and only the other server had not heard
        return
    charges.settle(node, record.id, record.terms, answered)
    with node.store.write() as connection:
        record = get(connection, record.id, "update")
        move(connection, node, record, "finish", node.kit.name)
        if not node.settings.keep_inputs:
            retention.delete_inputs(connection, record.id)
