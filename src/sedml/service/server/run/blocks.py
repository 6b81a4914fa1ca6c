"""The row of each block on disk (`repetition`), and the label share in it. Rows change by compare-and-set only.

Whoever finds another row than it left there is not the one who drives the job any more: of two replicas, or of two
connections, one goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
import structlog

from sedml.errors import ConflictError
from sedml.mpc.channel import PhaseCost
from sedml.protocol.labels import from_bytes
from sedml.protocol.task import Block, Task
from sedml.service.server.jobs.records import Record, extra_attempts, get, update
from sedml.service.server.node import Node, now
from sedml.service.server.run.repetition import MANY_EXTRA, Row, RowState, check_number
from sedml.service.server.storage.tables import blocks
from sedml.service.states import JobState, wrong_state

_log = structlog.get_logger("sedml.blocks")


@dataclass(frozen=True)
class Attempt:
    """One that is to be made at a block, and the row that it replaces."""

    block: Block
    before: Row
    number: int

    @property
    def running(self) -> Row:
        """Its row while it is being made."""
        return Row(self.number, RowState.RUNNING)


def lay_out(connection: sa.Connection, job: str, task: Task) -> None:
    """A row for each block of a job that is started."""
    waiting = {"job": job, "attempt": 0, "state": _name(RowState.WAITING)}
    connection.execute(
        sa.insert(blocks), [waiting | {"block": block.index, "samples": block.samples} for block in task.blocks]
    )


def rows(connection: sa.Connection, record: Record) -> list[Row]:
    """Where this server has each block."""
    query = sa.select(blocks.c.attempt, blocks.c.state).where(blocks.c.job == record.id).order_by(blocks.c.block)
    return [Row(row.attempt, RowState[row.state.upper()]) for row in connection.execute(query)]


def begin(node: Node, record: Record, attempt: Attempt) -> None:
    """Put an attempt on record, in place of the one before and its share: call it before the first word."""
    with node.store.write() as connection:
        _check_running(connection, record)
        _change(
            connection,
            record,
            attempt.block.index,
            attempt.before,
            **_values(attempt.running),
            sealed_labels=None,
            seconds=None,
            rounds=None,
            bytes=None,
        )
        extra = extra_attempts(connection, record.id)
        check_number(extra)
    if attempt.number > 1 and extra >= MANY_EXTRA:
        what = "Blocks of the job broke off often: the link is bad, or the other server hangs up on purpose."
        _log.warning("job.attempts", job=record.id, block=attempt.block.index, extra=extra, what=what)


def save(node: Node, record: Record, attempt: Attempt, share: bytes, cost: PhaseCost) -> None:
    """Keep the label share of an attempt that is under way, before the other server is told."""
    assert record.task is not None  # noqa: S101 - only a job with a roster is run
    from_bytes(record.task, attempt.block.samples, share)  # of the right size, whoever it comes from
    sealed = node.vault.seal(record.id, f"labels/{attempt.block.index}", share)
    with node.store.write() as connection:
        moved = _check_running(connection, record).moved_at
        _change(
            connection,
            record,
            attempt.block.index,
            attempt.running,
            **_values(Row(attempt.number, RowState.SAVED)),
            sealed_labels=sealed,
            # Blocks that are under way together take their time together: it counts once.
            seconds=max(0.0, min(cost.seconds, now(node) - moved)),
            rounds=cost.rounds,
            bytes=cost.bytes,
        )
        update(connection, record.id, moved_at=now(node), times_doubted=node.time.doubt() is not None)
    node.traffic.add(cost.rounds, cost.bytes)


def make_final(node: Node, record: Record, saved: Iterable[tuple[int, int]]) -> None:
    """Let shares be handed out: those of these blocks, each with the attempt that both servers have saved."""
    with node.store.write() as connection:
        _check_running(connection, record)
        for index, number in saved:
            before = Row(number, RowState.SAVED)
            _change(connection, record, index, before, **_values(Row(number, RowState.FINAL)))


def _check_running(connection: sa.Connection, record: Record) -> Record:
    record = get(connection, record.id, "update")
    if record.state is not JobState.RUNNING:  # it has failed meanwhile
        raise wrong_state(record.state, "run")
    return record


def _change(connection: sa.Connection, record: Record, index: int, before: Row, **values: object) -> None:
    here = blocks.c.job == record.id, blocks.c.block == index
    as_left = blocks.c.attempt == before.attempt, blocks.c.state == _name(before.state)
    changeable = blocks.c.state != _name(RowState.FINAL)  # whatever the caller believes
    if connection.execute(sa.update(blocks).where(*here, *as_left, changeable).values(**values)).rowcount != 1:
        raise ConflictError(
            f"Block {index} of the job has come further meanwhile.", "Nothing is lost: another process goes on."
        )


def _values(row: Row) -> dict[str, object]:
    return {"attempt": row.attempt, "state": _name(row.state)}


def _name(state: RowState) -> str:
    return state.name.lower()
