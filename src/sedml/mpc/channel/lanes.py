"""Several blocks under way on one link: while one waits for an answer, the others go on.

With `window` lanes, lane j takes blocks j, j + window, .. in turn, in a thread of its own; both servers have the same
lanes. Nothing about a frame is new: it names its block, and a block has at most one frame on its way each way.

One more thread moves all frames. It reads only while a lane waits, and takes the next frame out of the link only once
the lane of its block has sent its own: that says how large the frame may be, so memory never follows from what the peer
claims. A frame whose lane is still busy holds up those behind it, never for good: all that this lane waited for came
before. A frame of a block that cannot be under way, or at another step than its lane, ends the connection.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sedml.errors import ChannelError
from sedml.mpc.channel.base import Channel, first_cause
from sedml.mpc.channel.frame import Frame
from sedml.mpc.channel.sharing_a_link import Lanes

T = TypeVar("T")


class Lane(Channel):
    """One end of a link as the blocks of one lane see it."""

    def __init__(self, lanes: Lanes, link: Channel) -> None:
        super().__init__(link._task, timeout=link._timeout)
        self._delay = link._delay
        self.link = link
        self._lanes = lanes

    def _swap(self, frame: Frame) -> tuple[NDArray[np.uint8], int]:
        return self._lanes.swap(frame)

    def _shut(self) -> None:
        self._lanes.fail(ChannelError("Another block of the job has failed.", "Look at its error."))

    def _carry(self, lanes: Lanes) -> None:
        raise NotImplementedError  # a lane has no lanes

    def abort(self) -> None:
        """Cut the whole link."""
        self.link.abort()


def run_in_lanes(link: Channel, blocks: Sequence[int], window: int, work: Callable[[Channel, int, int], T]) -> list[T]:
    """`work(channel, lane, block)` for every block, up to `window` of them at a time; what came of them, in order.

    Both servers must have agreed on the window. Whatever goes wrong in one block ends the others, and the connection.
    """
    window = max(1, min(window, len(blocks)))
    if window == 1:
        return [work(link, 0, block) for block in blocks]
    lanes = Lanes(blocks, window, link._delay > 0, link._stir)
    ends = [Lane(lanes, link) for _ in range(window)]

    def along(number: int) -> list[T]:
        found = []
        try:
            for block in blocks[number::window]:
                found.append(work(ends[number], number, block))
                lanes.leave(block)
        except BaseException:
            ends[number].close()
            raise
        return found

    carrying = threading.Thread(target=_carry, args=(link, lanes), name="sedml-lanes", daemon=True)
    carrying.start()
    with ThreadPoolExecutor(window, thread_name_prefix="sedml-lane") as threads:
        sides: list[Future[list[T]]] = [threads.submit(along, number) for number in range(window)]
        causes = [error for side in sides if (error := side.exception()) is not None]
    lanes.finish()
    carrying.join()
    for end in ends:
        link._count(end.traffic)
    if causes:
        link.close()
        raise first_cause(causes)
    found = [side.result() for side in sides]
    return [found[place % window][place // window] for place in range(len(blocks))]


def _carry(link: Channel, lanes: Lanes) -> None:
    try:
        link._carry(lanes)
    except BaseException as error:
        lanes.fail(error)
