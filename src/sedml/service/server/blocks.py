"""The blocks of a job on record: what goes into each, that it was begun, and what came out.

**The same inputs, fresh masks.** Before the first message of a block its mark is on disk: a digest of everything that
this server brings to it (task and roster, noise seed, common randomness). A block may be run again after a crash, with
the very same inputs, because all of that is on disk; with anything else it is refused (`ReplayError`). The randomness
that masks its messages is made anew for every run and never written down, so no mask ever hides two values.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from sedml.errors import ReplayError
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.protocol.ballots import index_shares
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.labels import LabelShare, from_bytes, to_bytes
from sedml.protocol.task import Block, Task
from sedml.service.server.node import Node, now
from sedml.service.server.records import Record, update
from sedml.service.server.tables import ballots, blocks, jobs
from sedml.service.server.vault import OVERHEAD

if TYPE_CHECKING:
    from sedml.mpc.party import PhaseCost

__all__ = ["RUN_BYTES", "Inputs", "answered_in_all", "finished", "mark", "read_inputs", "read_votes", "save"]

RUN_BYTES = 16
"""Of the name of a run."""


@dataclass(frozen=True)
class Inputs:
    """What a server brings to all blocks of a job."""

    task: Task
    noise: DrawnNoise
    half: Seed = field(repr=False)
    """Of the randomness that both servers refresh labels with."""
    commitment: str
    """To all of these: the other server holds this one to it when a block is run again."""


def read_inputs(node: Node, record: Record, task: Task) -> Inputs:
    """Read them from disk; raises once they are deleted."""
    with node.store.read() as connection:
        columns = jobs.c.sealed_noise, jobs.c.sealed_common
        sealed = connection.execute(sa.select(*columns).where(jobs.c.id == record.id)).one()
    if None in tuple(sealed):
        raise ReplayError("The inputs of the job are deleted: it cannot run again.", "Create a new job.")
    labels = "noise", "common"
    noise, half = (
        Seed(node.vault.open(record.id, label, bytes(one))) for label, one in zip(labels, sealed, strict=True)
    )
    bound = b"".join([task.id, noise.key, half.key])
    commitment = hashlib.blake2b(bound, digest_size=32, person=b"sedml-commit-v1").hexdigest()
    return Inputs(task, DrawnNoise(task, node.role, noise), half, commitment)


def read_votes(node: Node, record: Record, task: Task, block: Block) -> Array:
    """This server's shares of the class indices, a row a seat: uint[K, Q]. Reads only the pages of the block."""
    pages, page = task.ballot.pages(node.role, block.start, block.stop), task.ballot.page_bytes(node.role)
    start, length = pages.start * (page + OVERHEAD), len(pages) * (page + OVERHEAD)
    part = sa.func.substr(ballots.c.sealed_half, start + 1, length, type_=sa.LargeBinary)
    seated = ballots.c.job == record.id, ballots.c.seat.is_not(None)
    query = sa.select(ballots.c.teacher, part).where(*seated).order_by(ballots.c.seat)
    with node.store.read() as connection:
        rows = connection.execute(query).all()
    if any(sealed is None for _, sealed in rows):
        raise ReplayError("The ballots of the job are deleted: it cannot run again.", "Create a new job.")
    halves = [
        node.vault.open_pages(record.id, f"ballot/{teacher}", bytes(sealed), page, pages.start)
        for teacher, sealed in rows
    ]
    return index_shares(node.role, halves, task, block, cut=True)


def mark(node: Node, record: Record, inputs: Inputs, block: Block) -> None:
    """Write down that the block is begun with these inputs; raises if it was begun with others."""
    digest = node.vault.digest(record.id, f"inputs/{block.index}", inputs.commitment.encode())
    with node.store.write() as connection:
        row = blocks.c.job == record.id, blocks.c.block == block.index
        used = connection.execute(sa.select(blocks.c.inputs).where(*row).with_for_update()).scalar_one_or_none()
        if used is None:
            values = {"job": record.id, "block": block.index, "inputs": digest, "runs": 1, "samples": block.samples}
            connection.execute(sa.insert(blocks).values(**values))
        elif used == digest:
            connection.execute(sa.update(blocks).where(*row).values(runs=blocks.c.runs + 1))
        else:
            raise ReplayError(
                f"Block {block.index} was run before with other inputs.",
                "Create a new job: running it again would reveal shares.",
            )


def save(node: Node, record: Record, block: Block, share: LabelShare, run: bytes, cost: PhaseCost) -> None:
    """Keep the label share of a block, from the run of this name; one of an earlier run makes way for it.

    The consensus must be the same again: it follows from the inputs.
    """
    assert record.task is not None  # noqa: S101 - only a job with a roster is run
    label = f"labels/{block.index}"
    row = blocks.c.job == record.id, blocks.c.block == block.index
    with node.store.write() as connection:
        before = connection.execute(sa.select(blocks.c.sealed_labels).where(*row).with_for_update()).scalar_one()
        if before is not None:
            known = from_bytes(record.task, block.samples, node.vault.open(record.id, label, bytes(before)))
            if known.consensus_bytes != share.consensus_bytes:
                raise ReplayError(f"Block {block.index} came out differently this time.", "Create a new job.")
        values = {
            "sealed_labels": node.vault.seal(record.id, label, to_bytes(record.task, share)),
            "run": run.hex(),
            "answered": int(share.consensus.sum()),
            "seconds": cost.seconds,
            "rounds": cost.rounds,
            "bytes": cost.bytes,
        }
        connection.execute(sa.update(blocks).where(*row).values(**values))
        update(connection, record.id, moved_at=now(node))


def finished(node: Node, record: Record, task: Task) -> npt.NDArray[np.uint8]:
    """Which run the label shares of each block are from: uint8[blocks, 16]; zeros where there are none yet."""
    query = sa.select(blocks.c.block, blocks.c.run).where(blocks.c.job == record.id, blocks.c.run.is_not(None))
    runs = np.zeros((task.block_count, RUN_BYTES), np.uint8)
    with node.store.read() as connection:
        for row in connection.execute(query):
            runs[row.block] = np.frombuffer(bytes.fromhex(row.run), np.uint8)
    return runs


def answered_in_all(connection: sa.Connection, record: Record) -> int:
    """Samples with a consensus."""
    total = sa.select(sa.func.sum(blocks.c.answered)).where(blocks.c.job == record.id)
    return connection.execute(total).scalar_one() or 0
