"""What the dealer gives a server: a seed, and to S1 the corrections of every block.

Both are bound to the task, and so to the roster: what was dealt for another one is refused. The first bytes for a
place stand; they are replaced never, for a block may have used them.
"""

from __future__ import annotations

import sqlalchemy as sa

from sedml.errors import BodyTruncatedError, ConflictError, JobStateError, NotFoundError, TermsMismatchError
from sedml.mpc.prg import SEED_BYTES
from sedml.protocol.dealing import corrections_bytes
from sedml.protocol.task import Block, Task
from sedml.service.messages import JobStatus
from sedml.service.server.access import Caller, confirm
from sedml.service.server.jobs import status_of
from sedml.service.server.node import Node
from sedml.service.server.records import Record, dealt, move, update
from sedml.service.server.tables import corrections, jobs
from sedml.service.states import UNDER_WAY, JobState, wrong_state

__all__ = ["accept_corrections", "accept_seed", "expect_corrections", "expect_seed"]


def expect_seed(node: Node, caller: Caller, job: str, task: str) -> int:
    """How many bytes a dealt seed has; raises if none would be taken."""
    with node.store.read() as connection:
        _dealt_task(connection, caller, job, task)
    return SEED_BYTES


def accept_seed(node: Node, caller: Caller, job: str, task: str, body: bytes) -> tuple[JobStatus, bool]:
    """Take this server's seed; whether it is new."""
    if len(body) != SEED_BYTES:
        raise BodyTruncatedError(f"A seed has {SEED_BYTES} bytes.", "Send all of it.")
    digest = node.vault.digest(job, "seed", body)
    with node.store.write() as connection:
        confirm(connection, caller)
        record, _ = _dealt_task(connection, caller, job, task, lock=True)
        on_record = connection.execute(sa.select(jobs.c.seed_digest).where(jobs.c.id == job)).scalar_one()
        _check_same(on_record, digest)
        if on_record is None:
            update(connection, job, sealed_seed=node.vault.seal(job, "seed", body), seed_digest=digest)
            record = _complete(connection, node, record, caller)
        answer = status_of(node, connection, record)
    node.wake()
    return answer, on_record is None


def expect_corrections(node: Node, caller: Caller, job: str, task: str, block: int) -> int:
    """How many bytes the corrections of a block have; raises if none would be taken."""
    with node.store.read() as connection:
        _, agreed = _dealt_task(connection, caller, job, task)
    return corrections_bytes(agreed, _block(node, agreed, block))


def accept_corrections(
    node: Node, caller: Caller, job: str, task: str, block: int, body: bytes
) -> tuple[JobStatus, bool]:
    """Take the corrections of a block; whether they are new."""
    if len(body) != expect_corrections(node, caller, job, task, block):
        raise BodyTruncatedError(
            "The corrections do not have the size that the block needs.", "Deal for this task again."
        )
    label = f"corrections/{block}"
    digest = node.vault.digest(job, label, body)
    sealed = node.vault.seal(job, label, body)
    with node.store.write() as connection:
        confirm(connection, caller)
        record, _ = _dealt_task(connection, caller, job, task, lock=True)
        here = corrections.c.job == job, corrections.c.block == block
        on_record = connection.execute(sa.select(corrections.c.digest).where(*here)).scalar_one_or_none()
        _check_same(on_record, digest)
        if on_record is None:
            values = {"job": job, "block": block, "digest": digest, "sealed_corrections": sealed}
            connection.execute(sa.insert(corrections).values(**values))
            record = _complete(connection, node, record, caller)
        answer = status_of(node, connection, record)
    node.wake()
    return answer, on_record is None


def _dealt_task(
    connection: sa.Connection, caller: Caller, job: str, task: str, *, lock: bool = False
) -> tuple[Record, Task]:
    """The job and its task, if the caller may deal for it now and means this very task."""
    record = dealt(connection, caller, job, "update" if lock else "none")
    if record.state not in UNDER_WAY:
        raise wrong_state(record.state, "take correlations")
    agreed = record.task
    if agreed is None:
        raise JobStateError(
            "The servers have not yet agreed on who took part.",
            "Ask for the job's status until it names the roster, then deal for that task.",
        )
    if task != agreed.id.hex():
        raise TermsMismatchError(
            "The correlations were dealt for another task.",
            "Deal for the task that both servers name in the job's status.",
        )
    return record, agreed


def _complete(connection: sa.Connection, node: Node, record: Record, caller: Caller) -> Record:
    """Move the job on once everything is here."""
    assert record.task is not None  # noqa: S101 - `_dealt_task` made sure
    seed = connection.execute(sa.select(jobs.c.seed_digest).where(jobs.c.id == record.id)).scalar_one()
    count = sa.select(sa.func.count()).where(corrections.c.job == record.id)
    all_blocks = node.role == 0 or connection.execute(count).scalar_one() == record.task.block_count
    if seed is None or not all_blocks or record.state is not JobState.CLOSED:
        return record
    return move(connection, node, record, "deal", caller.name)


def _block(node: Node, task: Task, number: int) -> Block:
    if node.role == 0:
        raise NotFoundError("S0 takes no corrections.", "Send them to S1.")
    if not 0 <= number < task.block_count:
        raise NotFoundError(f"The job has no block {number}.", f"It has blocks 0 to {task.block_count - 1}.")
    return next(task.blocks_from(number))


def _check_same(on_record: str | None, digest: str) -> None:
    if on_record not in (None, digest):
        raise ConflictError(
            "Different correlations are already on record here, and they stand.",
            "Deal again from the same kit: it draws the same ones for the same task.",
        )
