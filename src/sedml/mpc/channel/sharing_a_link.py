"""What the lanes of a link share with the one thread that carries their frames (`lanes`)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sedml.errors import FrameMismatchError
from sedml.mpc.channel.frame import STAMP, Frame, block_of, check_header


class Waiting:
    """A frame that a lane has sent, and the room for the answer."""

    def __init__(self, frame: Frame, stamped: bool) -> None:
        self.frame = frame
        self.message = np.empty(frame.size + (STAMP.size if stamped else 0), np.uint8)
        self.sent = 0
        self.answered = threading.Event()


class Lanes:
    """What the lanes of a link and the thread that carries their frames share."""

    def __init__(self, blocks: Sequence[int], window: int, stamped: bool, stir: Callable[[Lanes], None]) -> None:
        self._window, self._stamped, self._stir = window, stamped, stir
        self._places = {block: place for place, block in enumerate(blocks)}
        self._at = list(range(window))  # the place of each lane's block
        self._waiting: dict[int, Waiting] = {}
        self._held_up: bytes | None = None
        self._change = threading.Condition()
        self.outgoing: deque[Frame] = deque()
        self.finished = False
        self.error: BaseException | None = None

    @property
    def expecting(self) -> bool:
        """Whether a lane waits for an answer."""
        return bool(self._waiting)

    @property
    def over(self) -> bool:
        """Whether there is nothing left to carry."""
        return self.finished or self.error is not None

    def swap(self, frame: Frame) -> tuple[NDArray[np.uint8], int]:
        """A lane's round, from its own thread."""
        waiting = Waiting(frame, self._stamped)
        with self._change:
            self._check_error()
            if self._held_up is not None and self._lane(block_of(self._held_up)) == self._lane(frame.block):
                check_header(frame.header, self._held_up)
            self._waiting[frame.block] = waiting
            self.outgoing.append(frame)
            self._stir(self)
            self._change.notify_all()
        waiting.answered.wait()
        with self._change:
            self._check_error()
        return waiting.message, waiting.sent

    def claim(self, header: bytes) -> Waiting | None:
        """Whose answer this is, by its header; None as long as its lane is busy with what comes before."""
        with self._change:
            return self._claim(header)

    def claim_in_time(self, header: bytes) -> Waiting | None:
        """The same, waiting for the lane; None if the lanes come to an end meanwhile."""
        with self._change:
            while not self.over:
                if (waiting := self._claim(header)) is not None:
                    return waiting
                self._change.wait()
        return None

    def wait_for_a_lane(self) -> bool:
        """Wait until one expects an answer; whether one does."""
        with self._change:
            while not (self.over or self.expecting):
                self._change.wait()
            return not self.over

    def deliver(self, waiting: Waiting, sent: int) -> None:
        """The answer is there."""
        with self._change:
            del self._waiting[waiting.frame.block]
        waiting.sent = sent
        waiting.answered.set()

    def leave(self, block: int) -> None:
        """A lane has done with a block and goes on to its next."""
        with self._change:
            self._at[self._lane(block)] += self._window

    def finish(self) -> None:
        """All lanes have done."""
        with self._change:
            self.finished = True
            self._stir(self)
            self._change.notify_all()

    def fail(self, error: BaseException) -> None:
        """No lane says another word."""
        with self._change:
            if self.error is None:
                self.error = error
                self.outgoing.clear()
            for waiting in self._waiting.values():
                waiting.answered.set()
            self._stir(self)
            self._change.notify_all()

    def _claim(self, header: bytes) -> Waiting | None:
        block = block_of(header)
        waiting = self._waiting.get(block)
        if waiting is not None:
            check_header(waiting.frame.header, header)
            self._held_up = None
            return waiting
        place = self._places.get(block)
        if place is None or place < self._at[self._lane(block)]:
            raise FrameMismatchError(
                f"The other server is at block {block}, which cannot be under way.",
                "Check that both run the same release of sedml, and start the job again on both.",
            )
        # The peer may be ahead if this lane has all answers to what comes before; `swap` finds out if it has not.
        if any(self._lane(other) == self._lane(block) for other in self._waiting):
            raise FrameMismatchError(
                f"The other server went on to block {block} before it had done with the one before it.",
                "Check that both run the same release of sedml, and start the job again on both.",
            )
        self._held_up = header
        return None

    def _lane(self, block: int) -> int:
        return self._places.get(block, 0) % self._window

    def _check_error(self) -> None:
        if self.error is not None:
            raise self.error
