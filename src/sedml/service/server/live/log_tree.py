"""The Merkle tree over the log of a server, in memory: the hashes that its store has, read on as far as they go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock

from sedml.service.log.merkle import Tree


class LogTree:
    """One tree for all threads of a server."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tree = Tree()
        self.leaves: dict[int, dict[str, str]] = {}
        """What some entries say."""
        self.taken: float | None = None
        """When a cosignature was taken last, by time that only passes."""

    def since_taken(self, steady: float) -> float | None:
        """How many seconds ago that was, if this process has taken any."""
        return None if self.taken is None else steady - self.taken

    def reaches(self, size: int) -> Tree | None:
        """The tree, if it has so many leaves."""
        return self._tree if self._tree.size >= size else None

    def grown(self, newest: tuple[int, bytes] | None, read: Callable[[int], Iterable[bytes]]) -> Tree:
        """The tree up to the newest entry, or further; `read` gives the hashes from a number on."""
        if newest is None:
            return self._tree
        with self._lock:
            # A store that was put back under a running server, and may have grown since: what is in memory is another
            # log's. One that has fewer entries and the same ones is merely seen as it was a moment ago.
            last = min(self._tree.size - 1, newest[0])
            there = iter(() if last == newest[0] else read(max(0, last)))
            if last >= 0 and self._tree.leaf(last) != next(there, newest[1]):
                self._tree, there = Tree(), iter(read(0))
                self.leaves.clear()
            for leaf in there:
                self._tree.add(leaf)
            return self._tree
