"""The requester's last step: the two servers' label shares of every block, put together (Alg. 1 line 33)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml import Progress
from sedml.errors import ServerError, ShareError, TermsMismatchError, TooFewTeachersError, counted
from sedml.protocol.task import Block, Task
from sedml.protocol.votes import NO_CONSENSUS
from sedml.service.client.connection import Connection
from sedml.service.client.pair import Pair, from_both
from sedml.service.messages import JobStatus
from sedml.service.terms import task_of


def agreed_task(s0: JobStatus, s1: JobStatus) -> Task | None:
    """The task that both servers run, once they have agreed on the teachers; raises if they mean different ones."""
    if s0.roster is None or s1.roster is None or s0.task is None or s1.task is None:
        return None
    if s0.roster != s1.roster:
        raise ServerError(
            f"The servers name different teachers ({s0.roster.teachers} at S0, {s1.roster.teachers} at S1).",
            "Do not use this job's labels; tell both operators.",
        )
    if s0.roster.teachers < s0.terms.min_teachers:
        raise TooFewTeachersError(
            f"{counted(s0.roster.teachers, 'teacher')} took part, and the terms ask for {s0.terms.min_teachers}.",
            "The servers should have refused the job; tell both operators.",
        )
    task = task_of(s0.terms, s0.roster.teachers, s0.roster.digest)
    for status in (s0, s1):
        if status.task != task.id.hex():
            raise TermsMismatchError(
                f"{status.server.upper()} means to run a task that does not follow from the terms and the teachers.",
                "Do not use this job's labels; tell its operator.",
            )
    return task


async def fetch_labels(pair: Pair, job_id: str, task: Task, progress: Progress) -> npt.NDArray[np.int64]:
    """The labels int64[Q], -1 where there is none; raises if the two shares of a block do not fit each other."""
    # Teachers, who import this module with all others, have no use for it.
    from sedml.protocol.labels import LabelShare, from_bytes, reveal, share_size

    labels = np.full(task.samples, NO_CONSENSUS, np.int64)
    for block in task.blocks:

        async def fetch(server: Connection, block: Block = block) -> LabelShare:
            path = f"/v1/jobs/{job_id}/labels/{block.index}"
            document = await server.content(path, share_size(task, block.samples))
            try:
                return from_bytes(task, block.samples, document)
            except ShareError as error:
                raise ShareError(f"{server.name.upper()}, block {block.index}: {error.what}", error.do) from None

        labels[block.start : block.stop] = reveal(task, block.samples, *await from_both(pair, fetch))
        progress("fetching labels", block.stop, task.samples)
    return labels
