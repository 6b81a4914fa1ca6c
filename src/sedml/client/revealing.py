"""The requester's last step: the two servers' label shares of every block, put together (Alg. 1 line 33)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.bits import from_planes, packed_size, plane_bytes, unpack
from sedml.client.pair import Pair, from_both
from sedml.client.party import Tell
from sedml.errors import ServerError, ShareError, TermsMismatchError, TooFewTeachersError
from sedml.ideal import NO_CONSENSUS
from sedml.local import reveal
from sedml.messages import JobStatus
from sedml.protocol import Outcome, label_ring
from sedml.task import Block, Task
from sedml.terms import task_of

__all__ = ["agreed_task", "fetch_labels"]


def agreed_task(s0: JobStatus, s1: JobStatus) -> Task | None:
    """The task that both servers run, once they have agreed on the teachers; raises if they mean different ones."""
    if s0.roster is None or s1.roster is None or s0.task is None or s1.task is None:
        return None
    if s0.roster != s1.roster:
        raise ServerError(
            f"The servers name different teachers: {s0.roster.teachers} at S0, {s1.roster.teachers} at S1.",
            "Do not deal for this job; tell both operators.",
        )
    if s0.roster.teachers < s0.terms.min_teachers:
        raise TooFewTeachersError(
            f"{s0.roster.teachers} teachers took part, and the terms ask for {s0.terms.min_teachers}.",
            "The servers should have refused the job; tell both operators.",
        )
    task = task_of(s0.terms, s0.roster.teachers, s0.roster.digest)
    for status in (s0, s1):
        if status.task != task.id.hex():
            raise TermsMismatchError(
                f"{status.server.upper()} means to run another task than the terms and the teachers make.",
                "Do not deal for this job; tell its operator.",
            )
    return task


async def fetch_labels(pair: Pair, job_id: str, task: Task, tell: Tell) -> npt.NDArray[np.int64]:
    """The labels int64[Q], -1 where there was no consensus; raises if the servers' shares do not fit together."""
    labels = np.full(task.samples, NO_CONSENSUS, np.int64)
    for block in task.blocks:
        path, limit = f"/v1/jobs/{job_id}/labels/{block.index}", _size(task, block, block.samples)
        shares = await from_both(pair, lambda server, path=path, limit=limit: server.content(path, limit))  # type: ignore[misc]
        found = reveal(task, *(_outcome(task, block, share, name) for share, name in zip(shares, "01", strict=True)))
        if found.max(initial=NO_CONSENSUS) >= task.classes:
            raise ShareError(
                f"The label shares of block {block.index} make classes that do not exist.",
                "Do not use these labels; tell both operators.",
            )
        labels[block.start : block.stop] = found
        tell("fetching labels", block.stop, task.samples)
    return labels


def _size(task: Task, block: Block, passed: int) -> int:
    return plane_bytes(block.samples) + packed_size(passed, label_ring(task).width)


def _outcome(task: Task, block: Block, document: bytes, name: str) -> Outcome:
    """A label share document: a bit a sample, then the shares of the samples that passed, packed."""
    content = np.frombuffer(document, np.uint8)
    bits = plane_bytes(block.samples)
    if content.size >= bits:
        consensus = from_planes(content[:bits], block.samples).astype(np.bool_)
        passed = int(consensus.sum())
        if content.size == _size(task, block, passed):
            return Outcome(consensus, unpack(content[bits:], label_ring(task).width, passed))
    raise ShareError(
        f"S{name} sent a label share of block {block.index} that has not the size it must have.",
        "Fetch the labels again; if it stays so, tell its operator.",
    )
