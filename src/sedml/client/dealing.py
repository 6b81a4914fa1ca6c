"""Whoever deals, the requester or an independent dealer: one-use randomness for both servers, block by block.

All of it follows from the kit's secret and the task, so that dealing again after a lost answer sends the same bytes. At
most two blocks are in memory: one on its way to S1, and the next being dealt.
"""

from __future__ import annotations

import hashlib
from itertools import islice

import anyio.to_thread

from sedml.client.connection import Connection
from sedml.client.pair import Pair, together
from sedml.client.party import Tell
from sedml.client.views import JobView
from sedml.correlations import deal
from sedml.errors import ServerError
from sedml.local import Seeds
from sedml.messages import TASK_HEADER, JobState, JobStatus
from sedml.prg import Seed
from sedml.protocol import plan_block
from sedml.task import Block, Task

__all__ = ["deal_task", "seeds_for"]

_HAVE_ALL = (JobState.DEALT, JobState.RUNNING, JobState.DONE)


def seeds_for(secret: bytes, task: Task) -> Seeds:
    """What S0 and S1 expand their randomness from; the same for the same task, and for no other."""
    root = Seed(hashlib.blake2b(task.id, digest_size=32, key=secret, person=b"sedml-deal-v1").digest())
    return Seeds.of(task, root.child("s0"), root.child("s1"))


async def deal_task(pair: Pair, view: JobView, task: Task, secret: bytes, tell: Tell) -> None:
    """Send both servers what they lack for this task; what they have already is not sent again."""
    job_id, seeds = view.id, seeds_for(secret, task)
    header = {TASK_HEADER: task.id.hex()}
    for server, seed, status in zip((pair.s0, pair.s1), (seeds.s0, seeds.s1), view.statuses, strict=True):
        if status.state not in _HAVE_ALL:
            await server.put(f"/v1/jobs/{job_id}/seed", JobStatus, seed.key, headers=header)
    status = view.statuses[1]
    if status.state in _HAVE_ALL:
        return
    blocks = sum(1 for _ in task.blocks)
    # Blocks are sent in order, so those that S1 has are the first ones.
    have = status.blocks_dealt
    await _send(pair.s1, job_id, task, seeds, (have, blocks), tell)
    status = await pair.s1.get(f"/v1/jobs/{job_id}", JobStatus)
    if status.blocks_dealt < blocks and status.state not in _HAVE_ALL:
        await _send(pair.s1, job_id, task, seeds, (0, have), tell)
        status = await pair.s1.get(f"/v1/jobs/{job_id}", JobStatus)
        if status.blocks_dealt < blocks and status.state not in _HAVE_ALL:
            raise ServerError(
                f"S1 has {status.blocks_dealt} of the {blocks} blocks that it acknowledged.", "Tell its operator."
            )


async def _send(server: Connection, job_id: str, task: Task, seeds: Seeds, which: tuple[int, int], tell: Tell) -> None:
    waiting: tuple[int, bytes] | None = None

    async def upload() -> None:
        if waiting is not None:
            index, body = waiting
            path = f"/v1/jobs/{job_id}/corrections/{index}"
            await server.put(path, JobStatus, body, headers={TASK_HEADER: task.id.hex()})

    async def prepare(block: Block) -> bytes:
        return await anyio.to_thread.run_sync(_deal_block, task, block, seeds)

    for block in islice(task.blocks, *which):
        _, body = await together(upload, lambda block=block: prepare(block))  # type: ignore[misc]
        waiting = block.index, body
        tell("dealing", block.start, task.samples)
    await upload()
    tell("dealing", task.samples, task.samples)


def _deal_block(task: Task, block: Block, seeds: Seeds) -> bytes:
    return deal(plan_block(task, block.samples), block.index, seeds.s0, seeds.s1).tobytes()
