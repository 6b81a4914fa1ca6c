"""What two servers ever said to each other about a job, and what must be true of it, whatever struck them in between.

A block that was broken off is run again with the same inputs under fresh masks. So:

- what a server brings to a block is the same at every run of it, and so is all that is said in the open;
- no piece of randomness is used in two runs;
- nothing that was sent under a mask is ever sent again, nor is it like what another run sent in its place: the
  difference of two values under the same mask is the difference of the values.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import combinations
from math import sqrt
from typing import Any

import numpy as np

__all__ = ["LinkRecord"]

# How far a server is: nothing depends on it but where they go on.
_FREE = {"position", "progress"}
# These follow from what is on disk.
_OPEN = {"ballots", "entries", "verdict", "commitment", "agree", "saved", "done", "threshold/all/t"}
_MADE = ("ot/", "make/")
_WINDOW = 16
"""Bytes in a row that are not the same by chance."""
_ENTRIES = 64
"""As many of a piece of randomness, of one bit at least each."""
_DEVIATIONS = 7.0
"""From what chance has it; a false alarm is less likely than 1 in 10^10."""

Where = tuple[int, bytes, int, str]


class LinkRecord:
    """Messages by role, task, block and step, then by meeting; inputs and randomness of every run of a block."""

    def __init__(self) -> None:
        self.sent: dict[Where, dict[int, bytes]] = defaultdict(dict)
        self._inputs: dict[tuple[int, bytes, int], set[tuple[bytes, ...]]] = defaultdict(set)
        self._pieces: set[tuple[int, bytes]] = set()
        self._beginnings: set[bytes] = set()
        self._again: list[str] = []

    def clear(self) -> None:
        """Begin with another job. What must never come again is remembered: extensions could outlive a job too."""
        self.sent.clear()
        self._inputs.clear()
        self._again.clear()

    def add(self, meeting: int, where: Where, content: bytes) -> None:
        """Called with every message before it is sent."""
        self.sent[where][meeting] = content
        if _masked(where) and len(content) >= _WINDOW:
            if content[:_WINDOW] in self._beginnings:
                self._again.append(f"masked message {where[2:]} was sent before")
            self._beginnings.add(content[:_WINDOW])

    def watched(self, run_block: Callable[..., Any]) -> Callable[..., Any]:
        """The same, looking at what a server brings to the block, and at the randomness that was made for it."""

        def run(party, task, load, noise, common):
            votes, block = load(), party.correlations.block
            brought = hashlib.sha256(votes.tobytes()).digest(), noise.seed.key, common.key
            self._inputs[party.role, task.id, block].add(brought)
            for name, pieces in party.correlations._pieces.items():
                for part, piece in pieces.items():
                    self._use(party.role, f"{name}/{part} of block {block}", piece)
            return run_block(party, task, lambda: votes, noise, common)

        return run

    def _use(self, role: int, name: str, piece: np.ndarray) -> None:
        if piece.size < _ENTRIES or not piece.any():  # zeros stand where there is nothing to hide
            return
        known = role, hashlib.sha256(piece.tobytes()).digest()
        if known in self._pieces:
            self._again.append(f"randomness {name} was used before")
        self._pieces.add(known)

    def check(self) -> None:
        """Raise if a server said or used what it must not."""
        complaints = [*self._again, *self._changed(), *self._repeated()]
        for task, block in {where[1:3] for where in self.sent}:
            complaints += self._alike(task, block)
        assert not complaints, "; ".join(complaints)

    def _changed(self) -> Iterator[str]:
        for (_, _, block), brought in self._inputs.items():
            if len(brought) > 1:
                yield f"other inputs were brought to block {block}"
        for where, messages in self.sent.items():
            if where[3] in _OPEN and len(set(messages.values())) > 1:
                yield f"another message was sent at {where[2:]}"

    def _repeated(self) -> Iterator[str]:
        seen: set[bytes] = set()
        for where, messages in self.sent.items():
            if _masked(where):
                windows = [window for content in messages.values() for window in _windows(content)]
                if len(set(windows)) < len(windows) or not seen.isdisjoint(windows):
                    yield f"a part of masked message {where[2:]} was sent before"
                seen.update(windows)

    def _alike(self, task: bytes, block: int) -> Iterator[str]:
        """Two runs of a block send no more equal bits under their masks than chance has it, in all that is short too.

        Of the messages that made the randomness every part is long enough to be looked at by itself.
        """
        runs: dict[int, dict[tuple[int, str], np.ndarray]] = defaultdict(dict)
        for where, messages in self.sent.items():
            if where[1:3] == (task, block) and _masked(where) and not where[3].startswith(_MADE):
                for meeting, content in messages.items():
                    runs[meeting][where[0], where[3]] = np.unpackbits(np.frombuffer(content, np.uint8))
        for one, other in combinations(runs.values(), 2):
            both = [(one[at], other[at]) for at in one.keys() & other.keys() if one[at].size == other[at].size]
            if not both:
                continue
            first, second = (np.concatenate(side) for side in zip(*both, strict=True))
            # Bits that fill up a byte are always 0.
            used = (first | second).astype(bool)
            equal = int((first & second).sum())
            # Of two random bits that are not both 0, a third is equal.
            count = int(used.sum())
            if equal > count / 3 + _DEVIATIONS * sqrt(2 * count) / 3:
                yield f"two runs of block {block} were masked alike: {equal} of {count} bits are equal"


def _masked(where: Where) -> bool:
    return where[3] not in _FREE | _OPEN


def _windows(content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content) - _WINDOW + 1, _WINDOW):
        yield content[start : start + _WINDOW]
