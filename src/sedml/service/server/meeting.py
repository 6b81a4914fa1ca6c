"""A meeting: S0 and S1, connected, take one job as far as they can together.

1. `position`: each says where it has the job. If one is not there yet, they part and try later; if one has refused it
   or let it expire, so does the other.
2. Without a roster on both sides: `sedml.service.server.roster`.
3. They run it:
   a. `commitment`: each sends the digest of its noise and common randomness. The first one seen goes on disk, with the
      state `running`; at another meeting it must be the same. So a server that lost its store cannot draw new noise
      for a job that has begun.
   b. `progress`: in which run each has finished which block. They go on with the first one that not both have from the
      same run: label shares of two runs do not fit together. The start of the job goes on the ledger here.
   c. Base OTs, afresh for every meeting and never written down: nothing of them can be lost, restored or used twice.
   d. For every block: the mark on disk, then its one-use randomness (`sedml.mpc.ot`), then Algorithm 1, then the label
      share on disk, then `saved`, with a digest of the consensus, which both know.
   e. Both have all blocks: the ledger is settled, the job is done, the inputs are deleted; first at S0, which says
      `done` to that, then at S1. S1 is the one that calls, so it is the one that may be left behind.
Both servers run this same code. Whatever cuts a meeting short, the next one repeats it with the same inputs, under
fresh masks.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from sedml.errors import JobError, ReplayError
from sedml.mpc.channel import Channel
from sedml.mpc.gadgets.refresh import agree
from sedml.mpc.ot.extension import Extension, fresh_extension, set_up
from sedml.mpc.ot.recipe import make
from sedml.mpc.party import Party, PhaseCost
from sedml.mpc.prg import Seed
from sedml.protocol.block import run_block
from sedml.protocol.labels import LabelShare
from sedml.protocol.task import Block, Task
from sedml.protocol.undealt import recipes
from sedml.service.server import blocks, charges, retention
from sedml.service.server.node import Node
from sedml.service.server.records import Record, find, get, move, update
from sedml.service.server.roster import agree_roster, refuse
from sedml.service.server.tables import jobs
from sedml.service.states import ENDED, JobState, wrong_state

__all__ = ["Advance", "meet"]

Advance = Literal["wait", "done", "over"]
"""The other server is not there yet; the job is done; it has ended otherwise."""


class Stage(IntEnum):
    """Where a server has a job, as it tells the other one."""

    WAITING = 0
    CLOSED = 1
    OVER = 2


_STAGES = {
    JobState.CREATED: Stage.WAITING,
    JobState.OPEN: Stage.WAITING,
    JobState.CLOSED: Stage.CLOSED,
    JobState.RUNNING: Stage.CLOSED,
    JobState.DONE: Stage.CLOSED,
}


@dataclass(frozen=True)
class _Side:
    """This server in the middle of a job."""

    node: Node
    record: Record
    task: Task
    channel: Channel


def meet(node: Node, job: str, channel: Channel) -> Advance:
    """This server's side of a meeting."""
    channel.turn_to(bytes.fromhex(job))
    with node.store.read() as connection:
        record = find(connection, job)
    stage = Stage.WAITING if record is None else _STAGES.get(record.state, Stage.OVER)
    agreed = record is not None and record.roster is not None
    [theirs] = channel.exchange(0, "position", [np.array([stage, agreed], np.uint8)])
    if record is None or Stage.WAITING in (stage, theirs[0]):
        return "wait"
    if Stage.OVER in (stage, theirs[0]):
        _end_with_peer(node, record)
        return "over"
    if not (agreed and theirs[1]):
        record = agree_roster(node, record, channel)
        if record.state in ENDED:
            return "over"
    if record.task is None:
        raise ReplayError("The job has no roster.", "The store was restored to an older state. Create a new job.")
    _run(_Side(node, record, record.task, channel))
    return "done"


def _end_with_peer(node: Node, record: Record) -> None:
    """One server has ended the job without a result: nothing more can come of it at the other."""
    if record.state in ENDED:
        with node.store.write() as connection:
            update(connection, record.id, peer_told=True)
    elif record.state is JobState.CLOSED:
        reason = JobError("The other server has ended the job.", "Ask for its status there. Nothing was opened here.")
        refuse(node, record, reason)
    elif record.state is JobState.RUNNING:
        raise ReplayError("The other server has given up the job.", "Ask for its status there. Create a new job.")


def _run(side: _Side) -> None:
    node, record, task, channel = side.node, side.record, side.task, side.channel
    channel.turn_to(task.id)
    inputs = None
    if record.state is not JobState.DONE:
        inputs = blocks.read_inputs(node, record, task)
    commitment = _own_commitment(node, record) if inputs is None else inputs.commitment
    ours = np.frombuffer(bytes.fromhex(commitment), np.uint8)
    [theirs] = channel.exchange(0, "commitment", [ours])
    side = _begin(side, commitment, theirs.tobytes().hex())
    first = _common_blocks(channel, blocks.finished(node, record, task))
    if first < task.block_count:
        if inputs is None:
            raise ReplayError(
                "The other server wants to run blocks of a job that is already done here.", "Create a new job."
            )
        charges.start(node, record.id, record.terms)
        common = agree(channel, inputs.half)
        extension = fresh_extension(set_up(node.role, channel), channel)
        for block in task.blocks_from(first):
            _run_one(side, inputs, block, common, extension)
    if node.role == 0:
        _finish(side)
    channel.exchange(0, "done", [])
    if node.role == 1:
        _finish(side)
    node.store.empty_log()  # last, so that nobody waits for it


def _common_blocks(channel: Channel, runs: npt.NDArray[np.uint8]) -> int:
    """How many blocks, from the first on, both have from the same runs.

    All of them are compared: in a store that was put back, others than the last may be from another run.
    """
    [theirs] = channel.exchange(0, "progress", [runs])
    same = (runs == theirs).all(axis=1) & runs.any(axis=1)
    return len(same) if same.all() else int(same.argmin())


def _own_commitment(node: Node, record: Record) -> str:
    with node.store.read() as connection:
        return connection.execute(sa.select(jobs.c.commitment).where(jobs.c.id == record.id)).scalar_one() or ""


def _begin(side: _Side, ours: str, theirs: str) -> _Side:
    """Hold both servers to what they bring, before the first message of a block."""
    node = side.node
    with node.store.write() as connection:
        record = get(connection, side.record.id, "update")
        if record.state not in (JobState.CLOSED, JobState.RUNNING, JobState.DONE):
            raise wrong_state(record.state, "run")  # it was deleted or has expired meanwhile
        known = connection.execute(
            sa.select(jobs.c.commitment, jobs.c.peer_commitment).where(jobs.c.id == record.id)
        ).one()
        if known.commitment not in (None, ours) or known.peer_commitment not in (None, theirs):
            raise ReplayError(
                "A server's noise or randomness for this job is not what it was when the job began.",
                "Its store was lost or restored. Create a new job: going on would reveal shares.",
            )
        update(connection, record.id, commitment=ours, peer_commitment=theirs, problem=None)
        if record.state is JobState.CLOSED:
            record = move(connection, node, record, "start", node.kit.name)
    return _Side(node, record, side.task, side.channel)


def _run_one(side: _Side, inputs: blocks.Inputs, block: Block, common: Seed, extension: Extension) -> None:
    node, record, task, channel = side.node, side.record, side.task, side.channel
    blocks.mark(node, record, inputs, block)
    before, start = channel.traffic, time.perf_counter()
    made = make(node.role, extension, channel, block.index, recipes(task, block.samples))
    party = Party(node.role, channel, made)
    share = run_block(party, task, partial(blocks.read_votes, node, record, task, block), inputs.noise, common)
    spent = channel.traffic - before
    cost = PhaseCost(time.perf_counter() - start, spent.rounds, spent.bytes_sent + spent.bytes_received)
    blocks.save(node, record, block, share, extension.id, cost)
    node.activity.count(cost.rounds, cost.bytes)
    _compare(side, block, share)


def _compare(side: _Side, block: Block, share: LabelShare) -> None:
    """Both have saved the block, and found the same consensus."""
    digest = np.frombuffer(hashlib.blake2b(share.consensus_bytes, digest_size=32).digest(), np.uint8)
    [theirs] = side.channel.exchange(block.index, "saved", [digest])
    if not np.array_equal(theirs, digest):
        raise ReplayError("The two servers found different consensus bits.", "A share was damaged. Create a new job.")


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
