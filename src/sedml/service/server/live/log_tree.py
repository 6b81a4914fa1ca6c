"""The Merkle tree over the log of a server, in memory: the hashes that its store has, read on as far as they go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock

from sedml.service.log.merkle import Tree

__all__ = ["LogTree"]


class LogTree:
    """One tree for all threads of a server."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._tree = Tree()
        self.cosigned = 0
        """How many entries the other server has cosigned, as far as this process has heard."""
        self.leaves: dict[int, dict[str, str]] = {}
        """What some entries say."""

    def reaches(self, size: int) -> Tree | None:
        """The tree, if it has so many leaves."""
        return self._tree if self._tree.size >= size else None

    def grown(self, newest: tuple[int, bytes] | None, read: Callable[[int], Iterable[bytes]]) -> Tree:
        """The tree up to the newest entry, or further; `read` gives the hashes from a number on."""
        size = 0 if newest is None else newest[0] + 1
        with self._lock:
            # A store that was put back under a running server: what is in memory is another log's. One that has fewer
            # entries and the same ones is merely seen as it was a moment ago.
            if newest and self._tree.size >= size and self._tree.leaf(size - 1) != newest[1]:
                self._tree, self.cosigned = Tree(), 0
                self.leaves.clear()
            if self._tree.size < size:
                for leaf in read(self._tree.size):
                    self._tree.add(leaf)
            return self._tree
