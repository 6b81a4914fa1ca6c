"""One block of a job, as a server works on it wherever that is: in its own process, or in a worker's (`workers`)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from sedml.errors import CheatingError
from sedml.mpc.channel import Channel
from sedml.mpc.ot.extension import Extension
from sedml.lab.semi_honest.recipe import make
from sedml.lab.semi_honest.party import Party, PhaseCost
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.lab.semi_honest.block import recipes, run_block
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.labels import LabelShare
from sedml.protocol.task import Block, Task

__all__ = ["BlockWork", "compare", "work_on"]


@dataclass(frozen=True)
class BlockWork:
    """What a server brings to a block besides its shares of the counts."""

    role: int
    task: Task
    block: Block
    noise: DrawnNoise
    coins: Seed = field(repr=False)
    common: Seed = field(repr=False)
    source: Extension = field(repr=False)
    """The transfers that its one-use randomness is made of."""


def work_on(channel: Channel, work: BlockWork, counts: Callable[[], Array]) -> tuple[LabelShare, PhaseCost]:
    """Its label share, and what that cost; from the randomness to the label."""
    before, start = channel.traffic, time.perf_counter()
    needs = recipes(work.task, work.block.samples)
    made = make(work.role, work.source, channel, work.block.index, needs, work.coins)
    share = run_block(Party(work.role, channel, made), work.task, counts, work.noise, work.common)
    spent = channel.traffic - before
    return share, PhaseCost(time.perf_counter() - start, spent.rounds, spent.bytes_sent + spent.bytes_received)


def compare(channel: Channel, block: Block, share: LabelShare) -> None:
    """Both have saved the block, and found the same consensus."""
    digest = np.frombuffer(hashlib.blake2b(share.consensus_bytes, digest_size=32).digest(), np.uint8)
    [theirs] = channel.exchange(block.index, "saved", [digest])
    if not np.array_equal(theirs, digest):
        raise CheatingError(
            "The other server found other samples with a consensus than this one.",
            "It cheats, or a share was damaged. Nothing more was sent to it. Tell both operators.",
        )
