"""One attempt at a block, as a server makes it wherever that is: in its own process, or in a worker's."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from sedml.errors import CheatingError
from sedml.mpc.authenticated.authenticated_bits import wipe
from sedml.mpc.channel import Channel, PhaseCost
from sedml.mpc.ring import Array
from sedml.mpc.steps import drive
from sedml.protocol.block import answer
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.labels import to_bytes
from sedml.protocol.preparation import prepare
from sedml.protocol.server_session import Session, open_session
from sedml.protocol.task import Block, Task


def set_up(channel: Channel, role: int, blocks: Sequence[int]) -> Session:
    """What these blocks begin with, over one connection; it is in memory only, and goes with the connection."""
    return drive(channel, 0, open_session(role, blocks))


def work_on(
    channel: Channel, session: Session, task: Task, block: Block, counts: Callable[[], Array]
) -> tuple[bytes, PhaseCost]:
    """This server's label share, and what that cost; its noise is drawn here, anew for each attempt."""
    before, start = channel.traffic, time.perf_counter()
    noise = draw_noise(task, block.samples)
    # This needs no vote: what is prepared while a vote is open would come in here.
    try:
        prepared = drive(channel, block.index, prepare(session, task, block, noise))
    finally:
        wipe(noise)
    share = drive(channel, block.index, answer(prepared, task, counts()))
    spent = channel.traffic - before
    cost = PhaseCost(time.perf_counter() - start, spent.rounds, spent.bytes_sent + spent.bytes_received)
    return to_bytes(task, share), cost


def tell_saved(channel: Channel, block: Block, attempt: int) -> None:
    """Say that this attempt is on disk here, and hear that it is there."""
    [theirs] = channel.exchange(block.index, "saved", [np.array([attempt], np.uint32)])
    if theirs[0] != attempt:
        raise CheatingError(
            "The other server has saved another attempt at a block than the one that was made.",
            "It cheats, or its store was restored to an older state. Tell both operators.",
        )
