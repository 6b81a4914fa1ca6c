"""What two servers ever said to each other about a job, and what must be true of it, whatever struck them in between.

A block that was broken off begins again, from nothing but the shares of the votes. So:

- what a server says in the protocol at one attempt, or of one block, it never says again: no mask and no label serves
  twice, and no noise;
- the shares of the counts are the same at every attempt.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from sedml.protocol.task import Block, Task
from sedml.service.server.run import block_work

__all__ = ["LinkRecord"]

# What is said outside of attempts hides nothing, and may be the same at two places.
_OPEN = {"position", "over", "ballots", "entries", "verdict", "progress", "saved", "done"}
_OPEN |= {"log/known", "log/shown", "log/cosigned"}
_WINDOW = 16
"""Bytes in a row that are not the same by chance."""
_FEW = 4
"""Values of a byte: a window with so few of them has no randomness in it."""

_MOST = 1000
"""Windows of one message that are looked at."""

Where = tuple[int, bytes, int, str]


class LinkRecord:
    """Digests of messages by role, task, block and step, then by meeting; noise and shares of counts of every block."""

    def __init__(self) -> None:
        self.sent: dict[Where, dict[int, bytes]] = defaultdict(dict)
        self._noise: dict[tuple[int, bytes, int], list[np.ndarray]] = defaultdict(list)
        self._counts: dict[tuple[int, bytes, int], set[bytes]] = defaultdict(set)
        self._windows: dict[tuple[int, bytes], tuple[int, Where]] = {}
        self._again: dict[str, None] = {}  # a set that keeps its order

    def clear(self) -> None:
        """Begin with another job. What must never come again is remembered: randomness could outlive a job too."""
        for each in (self.sent, self._noise, self._counts, self._again):
            each.clear()

    def add(self, meeting: int, where: Where, content: bytes) -> None:
        """Called with every message before it is sent."""
        self.sent[where][meeting] = hashlib.sha256(content).digest()
        if where[3] in _OPEN:
            return
        for window in _windows(content):
            if self._windows.setdefault((where[0], window), (meeting, where)) != (meeting, where):
                self._again[f"a part of message {where[2:]} was sent before"] = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Look at what servers of this process bring to their attempts."""
        prepare, answer = block_work.prepare, block_work.answer

        def prepared(session: Any, task: Task, block: Block, noise: np.ndarray):
            self._noise[session.role, task.id, block.index].append(noise.copy())
            made = yield from prepare(session, task, block, noise)
            return (session.role, block.index), made

        def answered(made: Any, task: Task, counts: np.ndarray):
            (role, block), inner = made
            self._counts[role, task.id, block].add(hashlib.sha256(counts.tobytes()).digest())
            return (yield from answer(inner, task, counts))

        with ExitStack() as patches:
            for name, watched in (("prepare", prepared), ("answer", answered)):
                patches.enter_context(patch.object(block_work, name, watched))
            yield

    def noises(self, task: Task) -> tuple[np.ndarray, np.ndarray]:
        """What each server drew for its last attempt at every block: int[N, Q]."""
        found = [
            np.concatenate([self._noise[role, task.id, block.index][-1] for block in task.blocks], axis=1)
            for role in (0, 1)
        ]
        return found[0], found[1]

    def attempts(self, role: int, task: Task, block: int) -> int:
        """How many a server has made at a block, as far as its noise."""
        return len(self._noise[role, task.id, block])

    def check(self) -> None:
        """Raise if a server said or used what it must not."""
        complaints = [*self._again, *self._changed()]
        assert not complaints, "; ".join(complaints)

    def _changed(self) -> Iterator[str]:
        for (_, _, block), drawn in self._noise.items():
            if len({noise.tobytes() for noise in drawn}) < len(drawn):
                yield f"the same noise was brought to block {block} again"
        for (_, _, block), brought in self._counts.items():
            if len(brought) > 1:
                yield f"other counts were brought to block {block}"


def _windows(content: bytes) -> Iterator[bytes]:
    # Of a long message not all, but always the same ones: one that is sent again has them too.
    step = _WINDOW * -(-len(content) // (_WINDOW * _MOST))
    for start in range(0, len(content) - _WINDOW + 1, max(step, _WINDOW)):
        window = content[start : start + _WINDOW]
        if len(set(window)) > _FEW:
            yield window
