"""Whoever deals, the requester or an independent dealer: one-use randomness for both servers, block by block.

All of it follows from the kit's secret and the task, so that dealing again after a lost answer sends the same bytes. At
most two blocks are in memory: one on its way to S1, and the next being dealt. An independent dealer deals for the jobs
whose terms name it, and learns nothing but that there are such jobs.
"""

from __future__ import annotations

import hashlib
from itertools import islice
from typing import ClassVar

import anyio.to_thread

from sedml import Progress, silent
from sedml.errors import JobStateError, ServerError
from sedml.mpc.prg import Seed
from sedml.protocol.dealing import Seeds, deal_block
from sedml.protocol.task import Block, Task
from sedml.service.client.async_client import AsyncClient, look, wait_for
from sedml.service.client.connection import Connection
from sedml.service.client.pair import Pair, together
from sedml.service.client.revealing import agreed_task
from sedml.service.client.views import JobView
from sedml.service.messages import TASK_HEADER, JobStatus, Role
from sedml.service.states import HAVE_RANDOMNESS, UNDER_WAY

__all__ = ["AsyncDealer", "deal_task", "seeds_for"]

_LAST_PAUSE = 5.0
"""Seconds between two looks at a vote that goes on for days."""


class AsyncDealer(AsyncClient):
    """A dealer: `await AsyncDealer("kits/dealer-1").deal(job)`."""

    role: ClassVar[Role | None] = "dealer"

    async def deal(self, job_id: str, progress: Progress = silent) -> JobView:
        """Wait until both servers agree on who voted, and send each what it needs; again, the same bytes."""
        progress("waiting for the end of the vote", 0, 1)
        async with self._servers() as pair:
            view, task = await wait_for(pair, job_id, agreed_task, _LAST_PAUSE)
            progress("waiting for the end of the vote", 1, 1)
            await deal_task(pair, view, task, self.kit.secret, progress)
            return (await look(pair, job_id))[0]


def seeds_for(secret: bytes, task: Task) -> Seeds:
    """What S0 and S1 expand their randomness from; the same for the same task, and for no other."""
    root = Seed(hashlib.blake2b(task.id, digest_size=32, key=secret, person=b"sedml-deal-v1").digest())
    return Seeds.of(task, root.child("s0"), root.child("s1"))


async def deal_task(pair: Pair, view: JobView, task: Task, secret: bytes, progress: Progress) -> None:
    """Send both servers what they lack for this task; what they have already is not sent again."""
    job_id, seeds = view.id, seeds_for(secret, task)
    for server, seed, status in zip((pair.s0, pair.s1), (seeds.s0, seeds.s1), view.statuses, strict=True):
        # Also to a server that has one, which says so if it is another.
        if status.state in UNDER_WAY:
            await _give(server, job_id, task, "seed", seed.key)
    status = view.statuses[1]
    if status.state in HAVE_RANDOMNESS:
        return
    blocks = sum(1 for _ in task.blocks)
    # Blocks are sent in order, so those that S1 has are the first ones.
    have = status.blocks_dealt
    await _send(pair.s1, job_id, task, seeds, (have, blocks), progress)
    status = await pair.s1.get(f"/v1/jobs/{job_id}", JobStatus)
    if status.blocks_dealt < blocks and status.state not in HAVE_RANDOMNESS:
        await _send(pair.s1, job_id, task, seeds, (0, have), progress)
        status = await pair.s1.get(f"/v1/jobs/{job_id}", JobStatus)
        if status.blocks_dealt < blocks and status.state not in HAVE_RANDOMNESS:
            raise ServerError(
                f"S1 has {status.blocks_dealt} of the {blocks} blocks that it acknowledged.", "Tell its operator."
            )


async def _send(
    server: Connection, job_id: str, task: Task, seeds: Seeds, which: tuple[int, int], progress: Progress
) -> None:
    waiting: tuple[int, bytes] | None = None

    async def upload() -> None:
        if waiting is not None:
            index, body = waiting
            await _give(server, job_id, task, f"corrections/{index}", body)

    async def prepare(block: Block) -> bytes:
        return await anyio.to_thread.run_sync(_deal_block, task, block, seeds)

    for block in islice(task.blocks, *which):
        _, body = await together(upload, lambda block=block: prepare(block))  # type: ignore[misc]
        waiting = block.index, body
        progress("dealing", block.start, task.samples)
    await upload()
    progress("dealing", task.samples, task.samples)


async def _give(server: Connection, job_id: str, task: Task, what: str, body: bytes) -> None:
    try:
        await server.put(f"/v1/jobs/{job_id}/{what}", JobStatus, body, headers={TASK_HEADER: task.id.hex()})
    except JobStateError:
        # The answer to an earlier attempt was lost, and the servers were done before the next one.
        status = await server.get(f"/v1/jobs/{job_id}", JobStatus)
        if status.state not in HAVE_RANDOMNESS:
            raise


def _deal_block(task: Task, block: Block, seeds: Seeds) -> bytes:
    return deal_block(task, block, seeds).tobytes()
