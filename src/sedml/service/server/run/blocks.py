"""What a server brings to the blocks of a job, and what came out of each.

Everything that it brings is on disk before the first message: its shares of the votes, its half of the common
randomness, and a seed that its noise and its coins come from. So a block that broke off is run again word for word
(`transcript`), and comes out the same.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import sqlalchemy as sa

from sedml.errors import ReplayError
from sedml.mpc.prg import Seed
from sedml.lab.semi_honest.block import PROTOCOL_VERSION
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.labels import LabelShare, to_bytes
from sedml.protocol.task import Block, Task
from sedml.service.server.jobs.records import Record, update
from sedml.service.server.node import Node, now
from sedml.service.server.storage.tables import blocks, jobs

if TYPE_CHECKING:
    from sedml.lab.semi_honest.party import PhaseCost

__all__ = ["Inputs", "answered_in_all", "finished", "read_inputs", "save"]


@dataclass(frozen=True)
class Inputs:
    """What a server brings to all blocks of a job."""

    task: Task
    noise: DrawnNoise
    half: Seed = field(repr=False)
    """This server's half of the randomness that both servers refresh labels with."""
    coins: Seed = field(repr=False)
    """Whatever else it draws follows from these, so that it says the same again when a block is run again."""
    commitment: str
    """A commitment to all of these, and to the protocol: the other server holds this one to it."""


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
    # The other server knows the half, and never learns anything of the noise: so the coins come from there.
    coins = noise.child(f"coins/{task.id.hex()}")
    bound = b"".join([PROTOCOL_VERSION.to_bytes(4, "little"), task.id, noise.key, half.key])
    commitment = hashlib.blake2b(bound, digest_size=32, person=b"sedml-commit-v2").hexdigest()
    return Inputs(task, DrawnNoise(task, noise), half, coins, commitment)


def save(node: Node, record: Record, block: Block, share: LabelShare, cost: PhaseCost) -> None:
    """Keep the label share of a block. One that is there already stands: it can only be the same."""
    assert record.task is not None  # noqa: S101 - only a job with a roster is run
    label, plain = f"labels/{block.index}", to_bytes(record.task, share)
    row = blocks.c.job == record.id, blocks.c.block == block.index
    with node.store.write() as connection:
        kept = sa.select(blocks.c.sealed_labels).where(*row).with_for_update()
        before = connection.execute(kept).scalar_one_or_none()
        if before is None:
            # Blocks that are under way together take their time together: it counts once.
            moved = connection.execute(sa.select(jobs.c.moved_at).where(jobs.c.id == record.id)).scalar_one()
            values = {
                "job": record.id,
                "block": block.index,
                "sealed_labels": node.vault.seal(record.id, label, plain),
                "answered": int(share.consensus.sum()),
                "samples": block.samples,
                "seconds": max(0.0, min(cost.seconds, now(node) - moved)),
                "rounds": cost.rounds,
                "bytes": cost.bytes,
            }
            connection.execute(sa.insert(blocks).values(**values))
            doubted = node.time.doubt() is not None
            update(connection, record.id, moved_at=now(node), times_doubted=doubted)
        elif node.vault.open(record.id, label, bytes(before)) != plain:
            raise ReplayError(f"Block {block.index} came out differently this time.", "Create a new job.")


def finished(node: Node, record: Record) -> int:
    """How many blocks, from the first on, there are label shares of."""
    with node.store.read() as connection:
        done = set(connection.execute(sa.select(blocks.c.block).where(blocks.c.job == record.id)).scalars())
    return next(index for index in range(len(done) + 1) if index not in done)


def answered_in_all(connection: sa.Connection, record: Record) -> int:
    """Samples with a consensus."""
    total = sa.select(sa.func.sum(blocks.c.answered)).where(blocks.c.job == record.id)
    return connection.execute(total).scalar_one() or 0
