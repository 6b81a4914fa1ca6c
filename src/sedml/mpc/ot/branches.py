"""One extension for blocks that are under way at the same time: every lane has an end of its own, of the same streams.

Which part of the streams is a block's follows from its place alone, whoever makes it and when: a lane skips what the
others make. No two lanes have a block in common, so no transfer is made twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from sedml.mpc.ot.extension import Extension

__all__ = ["Branches"]


class Branches:
    """The ends of all lanes; `sizes` has the transfers of every batch, from where the extension is."""

    def __init__(self, extension: Extension, sizes: Sequence[int], lanes: int) -> None:
        self._sizes = sizes
        self._ends = [extension] if lanes == 1 else [extension.branch() for _ in range(lanes)]
        self._at = [0] * lanes

    def at(self, lane: int, batch: int) -> Extension:
        """A lane's end, just before this batch, which is not before the last one that the lane has made."""
        end = self._ends[lane]
        for size in self._sizes[self._at[lane] : batch]:
            end.skip(size)
        self._at[lane] = batch + 1
        return end
