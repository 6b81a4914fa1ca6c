"""What two servers ever said to each other about a job, and what must be true of it, whatever struck them in between.

A run that was broken off is repeated word for word. So:

- what a server brings to a block, and all that it says, is the same at every meeting;
- no piece of randomness serves two blocks, let alone two jobs, and nothing that was sent under a mask is ever sent at
  another place: the difference of two values under the same mask is the difference of the values.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["LinkRecord"]

# How far a server is, and what it has on disk of the other one: nothing depends on it but where they go on.
_FREE = {"position", "commitment", "progress"}
# Names no secret, and may shrink: until a server has reserved it may have to leave teachers out, and from then on it
# tells only of those whom it has reserved for.
_SHRINKING = {"ballots", "entries"}
# These hide nothing, and may be the same at two places.
_OPEN = {"ballots", "entries", "verdict", "agree", "saved", "done", "threshold/all/t", "garbled/t"}
_WINDOW = 16
"""Bytes in a row that are not the same by chance."""
_ENTRIES = 64
"""As many of a piece of randomness, of one bit at least each."""

Where = tuple[int, bytes, int, str]


class LinkRecord:
    """Messages by role, task, block and step, then by meeting; inputs and randomness of every block."""

    def __init__(self) -> None:
        self.sent: dict[Where, dict[int, bytes]] = defaultdict(dict)
        self._inputs: dict[tuple[int, bytes, int], set[tuple[bytes, ...]]] = defaultdict(set)
        self._pieces: dict[tuple[int, bytes], tuple[bytes, str]] = {}
        self._windows: dict[bytes, Where] = {}
        self._again: dict[str, None] = {}  # a set that keeps its order

    def clear(self) -> None:
        """Begin with another job. What must never come again is remembered: randomness could outlive a job too."""
        self.sent.clear()
        self._inputs.clear()
        self._again.clear()

    def add(self, meeting: int, where: Where, content: bytes) -> None:
        """Called with every message before it is sent."""
        self.sent[where][meeting] = content
        if where[3] in _FREE | _OPEN:
            return
        for window in _windows(content):
            if self._windows.setdefault(window, where) != where:
                self._again[f"a part of masked message {where[2:]} was sent before"] = None

    def watched(self, run_block: Callable[..., Any]) -> Callable[..., Any]:
        """The same, looking at what a server brings to the block, and at the randomness that was made for it."""

        def run(party, task, count, noise, common):
            counts, block = count(), party.correlations.block
            brought = hashlib.sha256(counts.tobytes()).digest(), noise.seed.key, common.key
            self._inputs[party.role, task.id, block].add(brought)
            for name, pieces in party.correlations._pieces.items():
                for part, piece in pieces.items():
                    self._use(party.role, (task.id, f"{name}/{part} of block {block}"), piece)
            return run_block(party, task, lambda: counts, noise, common)

        return run

    def _use(self, role: int, place: tuple[bytes, str], piece: np.ndarray) -> None:
        if piece.size < _ENTRIES or not piece.any():  # zeros stand where there is nothing to hide
            return
        known = role, hashlib.sha256(piece.tobytes()).digest()
        if self._pieces.setdefault(known, place) != place:
            self._again[f"randomness {place[1]} was used before"] = None

    def check(self) -> None:
        """Raise if a server said or used what it must not."""
        complaints = [*self._again, *self._changed()]
        assert not complaints, "; ".join(complaints)

    def _changed(self) -> Iterator[str]:
        for (_, _, block), brought in self._inputs.items():
            if len(brought) > 1:
                yield f"other inputs were brought to block {block}"
        for where, messages in self.sent.items():
            if where[3] not in _FREE | _SHRINKING and len(set(messages.values())) > 1:
                yield f"another message was sent at {where[2:]}"


def _windows(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content) - _WINDOW + 1, _WINDOW):
        yield content[start : start + _WINDOW]
