"""A meeting: S0 and S1, connected, take one job as far as they can together.

1. They find out where both have the job, and agree on a roster (`position`, `roster`).
2. They run it:
   a. `commitment`: each sends a digest of its noise and common randomness, and the one of the other server that it has
      on disk. The first one seen goes on disk, with the state `running`; at another meeting it must be the same. So a
      server that lost its store cannot draw new noise for a job that has begun, and both know it.
   b. `progress`: how many blocks each has finished, whether it still has its inputs, and how many blocks it would work
      on at a time over the link as it has measured it; and the names of the stock that its run has on record, and of
      the one that it has ready (`stock`). They go on with the first block that not both have, with as many at a time as
      both would, and with a stock if both have the same; or on both servers' workers, if both have some and there are
      enough blocks left (`foreman`). The start of the job goes on the ledger here.
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

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import sqlalchemy as sa

from sedml.errors import CheatingError, ReplayError
from sedml.mpc.channel import Channel, run_in_lanes
from sedml.mpc.gadgets.refresh import agree
from sedml.mpc.ot.branches import Branches
from sedml.mpc.ot.extension import Extension, set_up
from sedml.mpc.ot.recipe import MadeRandomness, Recipes, transfers_of
from sedml.protocol.block import recipes
from sedml.protocol.task import Task
from sedml.service.server import blocks, charges, link_quality, retention, stock
from sedml.service.server.block_work import BlockWork, compare, work_on
from sedml.service.server.crew import worth_workers
from sedml.service.server.foreman import run_on_crew
from sedml.service.server.greeting import NO_JOB, greet
from sedml.service.server.node import Node
from sedml.service.server.position import Standing, compare_positions
from sedml.service.server.records import Record, get, move, update
from sedml.service.server.stock import Stock
from sedml.service.server.tables import jobs
from sedml.service.server.transcript import NAME, Transcript
from sedml.service.states import JobState, wrong_state

__all__ = ["Advance", "meet"]

Advance = Literal["wait", "done", "over"]
"""The other server is not there yet; the job is done; it has ended otherwise."""

_NO_NAME = bytes(NAME)
"""In place of a stock's name, where there is none."""
_NOT_YET = "00" * 32
"""In place of the other server's commitment, before there is one."""


@dataclass(frozen=True)
class _Side:
    """This server in the middle of a job."""

    node: Node
    record: Record
    task: Task
    channel: Channel


def meet(node: Node, job: str, channel: Channel) -> Advance:
    """This server's side of a meeting, or of a greeting."""
    if job == NO_JOB:
        greet(node, channel)
        return "wait"
    channel.turn_to(bytes.fromhex(job))
    standing, record = compare_positions(node, job, channel)
    if record is not None and standing is Standing.VOTE:
        stock.make_together(node, record, channel)
        return "wait"
    if record is None or standing is Standing.WAIT:
        return "wait"
    if standing is Standing.OVER:
        return "over"
    if record.task is None:
        raise ReplayError("The job has no roster.", "The store was restored to an older state. Create a new job.")
    _run(_Side(node, record, record.task, channel))
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
        _progress(side, None, None)
    else:
        with Transcript(_record_path(node, record), _record_key(node, record, inputs)) as transcript:
            first, pace, store = _progress(side, inputs, transcript)
            if first < task.block_count:
                _run_from(side, inputs, transcript, first, pace, store)
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


def _workers(node: Node, task: Task, first: int, under_way: int) -> int:
    """How many of its workers this server would have on the blocks that are left."""
    crew, left = node.activity.crew, task.block_count - first
    return min(crew.size(under_way), left) if crew is not None and worth_workers(task, left) else 0


def _progress(
    side: _Side, inputs: blocks.Inputs | None, transcript: Transcript | None
) -> tuple[int, _Pace, _Randomness]:
    """The first block that not both have, how many at a time, and what their randomness comes from."""
    node, task = side.node, side.task
    first = blocks.finished(node, side.record)
    taken = stock.take(node, side.record.id)
    by_size = {samples: recipes(task, samples) for samples in {block.samples for block in task.blocks}}
    needs = [by_size[block.samples] for block in task.blocks]
    fresh = taken is not None and first == 0 and transcript is not None and transcript.empty and taken.suits(needs)
    on_record = None if transcript is None else transcript.stock
    lanes = link_quality.under_way(node, task)
    binding = transcript is not None and transcript.binding
    mine = first, inputs is not None, lanes, binding, _workers(node, task, first, lanes)
    names = [
        np.frombuffer(name, np.uint8)
        for name in (on_record[0] if on_record else _NO_NAME, taken.name if fresh and taken else _NO_NAME)
    ]
    [theirs, *their_names] = side.channel.exchange(0, "progress", [np.array(mine, np.uint32), *names])
    first, pace = min(first, int(theirs[0])), _Pace(max(1, min(lanes, int(theirs[2]))), min(mine[4], int(theirs[4])))
    store = _Randomness(needs, None, None)
    if first == task.block_count:
        return first, pace, store
    if inputs is None or not theirs[1]:
        raise _done_elsewhere()
    same = [np.array_equal(*pair) and pair[0].any() for pair in zip(names, their_names, strict=True)]
    if same[0] and on_record is not None:
        store = _Randomness(needs, on_record, None)
    elif (names[0].any() and mine[3]) or (their_names[0].any() and theirs[3]):
        raise ReplayError(
            "One server has a run on record whose randomness was made before, and the other has not.",
            "A record was lost. Create a new job.",
        )
    else:
        if on_record is not None and transcript is not None:
            transcript.give_up_stock()
        if same[1]:
            store = _Randomness(needs, None, taken)
    return first, pace, store


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


@dataclass(frozen=True)
class _Randomness:
    """What the blocks of a run need, and the stock that it begins with: one on record, one that lies ready, or none."""

    needs: Sequence[Recipes]
    on_record: tuple[bytes, int] | None
    ready: Stock | None


def _run_from(
    side: _Side, inputs: blocks.Inputs, transcript: Transcript, first: int, pace: _Pace, randomness: _Randomness
) -> None:
    """The blocks from this one on, for the first time or once more, so many at a time."""
    node, record, task, channel = side.node, side.record, side.task, side.channel
    charges.start(node, record.id, record.terms)
    every, needs, store = list(task.blocks), randomness.needs, randomness.ready
    under_way = min(pace.lanes, len(every) - first)
    if store is not None:
        transcript.adopt(store.name, len(store.needs), store.memo)
    with channel.witnessed(transcript):
        common = agree(channel, inputs.half)
        coins = inputs.coins
        if randomness.on_record is not None:
            name, many = randomness.on_record
            store = stock.make_again(node, record.id, channel, name, needs[:many], first)
        if store is not None:
            coins = stock.coins_of(node, record.id, store.name)
            extension = store.extension
        else:
            extension = Extension(set_up(node.role, channel, coins), common.key)
        transcript.keep()  # of whatever block the next word is
        made_before = 0 if store is None else len(store.needs)
        ends = Branches(extension, [transfers_of(one) for one in needs[made_before:]], under_way)

        def work_of(index: int, source: Extension | MadeRandomness) -> BlockWork:
            return BlockWork(node.role, task, every[index], inputs.noise, coins, common, source)

        def work(lane: Channel, number: int, index: int) -> None:
            block, made = every[index], None if store is None else store.blocks.pop(index, None)
            at_hand = work_of(index, made or ends.at(number, index - made_before))
            share, cost = work_on(lane, at_hand, lambda: blocks.read_votes(node, record, task, block))
            transcript.keep()
            blocks.save(node, record, block, share, cost)
            node.activity.count(cost.rounds, cost.bytes)
            compare(lane, block, share)
            transcript.leave(index)

        if not pace.workers:
            run_in_lanes(channel, range(first, len(every)), under_way, work)

    def apart(index: int) -> BlockWork:
        # What a stock has for a block stays, in case that the block runs again.
        made = None if store is None else store.blocks.get(index)
        return work_of(index, made or ends.apart(index - made_before))

    if pace.workers:
        run_on_crew(node, record, channel, transcript, range(first, len(every)), pace.workers, apart)


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
    return _Side(node, record, side.task, side.channel)


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
