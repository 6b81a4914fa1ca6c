"""One extension for blocks that are under way at the same time: every lane has an end of its own, of the same streams.

Which part of the streams is a block's follows from its place alone, whoever makes it and when: a lane skips what the
others make. No two lanes have a block in common, so no transfer is made twice. (A block that is run again makes the
very same ones again, for the same messages.)
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from sedml.mpc.ot.extension import Extension

__all__ = ["Branches"]


class Branches:
    """The ends of all lanes; `sizes` has the transfers of every batch, from where the extension is."""

    def __init__(self, extension: Extension, sizes: Sequence[int], lanes: int) -> None:
        self._sizes = sizes
        self._ends = [extension] if lanes == 1 else [extension.branch() for _ in range(lanes)]
        self._at = [0] * lanes
        self._lock = Lock()
        self._start, self._ahead, self._ahead_at = extension.branch(), extension.branch(), 0

    def at(self, lane: int, batch: int) -> Extension:
        """A lane's end, just before this batch, which is not before the last one that the lane has made."""
        end = self._ends[lane]
        for size in self._sizes[self._at[lane] : batch]:
            end.skip(size)
        self._at[lane] = batch + 1
        return end

    def apart(self, batch: int) -> Extension:
        """An end of its own just before this batch, for whoever makes that one alone; from any thread."""
        with self._lock:
            if batch < self._ahead_at:
                self._ahead, self._ahead_at = self._start.branch(), 0
            for size in self._sizes[self._ahead_at : batch]:
                self._ahead.skip(size)
            self._ahead_at = batch
            return self._ahead.branch()
