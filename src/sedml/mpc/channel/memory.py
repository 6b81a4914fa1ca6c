"""The link within one process: S0 and S1 as two threads, joined by two queues.

A message is a copy of the frame and the time it was sent; `None` says that the sender is gone.
"""

from __future__ import annotations

import queue
import time
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sedml.mpc.channel.base import Channel, peer_gone, peer_timeout
from sedml.mpc.channel.frame import HEADER_SIZE, Frame, check_header
from sedml.mpc.channel.sharing_a_link import Lanes

Message: TypeAlias = tuple[NDArray[np.uint8], int] | None
Mailbox: TypeAlias = queue.SimpleQueue[Message]


class MemoryChannel(Channel):
    """One end of a link between two threads; `memory_pair` makes both."""

    def __init__(
        self, task: bytes, inbox: Mailbox, outbox: Mailbox, *, timeout: float = 30.0, delay: float = 0.0
    ) -> None:
        super().__init__(task, timeout=timeout, delay=delay)
        self._inbox = inbox
        self._outbox = outbox

    def _swap(self, frame: Frame) -> tuple[NDArray[np.uint8], int]:
        self._send(frame)
        message, sent = self._receive()
        check_header(frame.header, message[:HEADER_SIZE].tobytes())
        return message, sent

    def _send(self, frame: Frame) -> None:
        message = np.empty(frame.size, np.uint8)
        start = 0
        for piece in frame.pieces(0):
            message[start : start + len(piece)] = memoryview(piece)
            start += len(piece)
        self._outbox.put((message, time.monotonic_ns()))

    def _receive(self) -> tuple[NDArray[np.uint8], int]:
        try:
            answer = self._inbox.get(timeout=self._timeout)
        except queue.Empty:
            raise peer_timeout(self._timeout) from None
        if answer is None:
            raise peer_gone()
        return answer

    def _stir(self, lanes: Lanes) -> None:
        while lanes.outgoing:
            self._send(lanes.outgoing.popleft())
        if lanes.error is not None:
            self._inbox.put(None)

    def _carry(self, lanes: Lanes) -> None:
        while lanes.wait_for_a_lane():
            message, sent = self._receive()
            waiting = lanes.claim_in_time(message[:HEADER_SIZE].tobytes())
            if waiting is not None:
                waiting.message = message
                lanes.deliver(waiting, sent)

    def _shut(self) -> None:
        self._outbox.put(None)


def memory_pair(task: bytes, *, timeout: float = 30.0, delay: float = 0.0) -> tuple[MemoryChannel, MemoryChannel]:
    """The two ends of a link for two threads of this process: S0's and S1's."""
    forth: Mailbox = queue.SimpleQueue()
    back: Mailbox = queue.SimpleQueue()
    s0 = MemoryChannel(task, back, forth, timeout=timeout, delay=delay)
    s1 = MemoryChannel(task, forth, back, timeout=timeout, delay=delay)
    return s0, s1
