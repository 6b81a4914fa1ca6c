"""Which labels were handed out since a fetch of them was last put into the audit log.

A fetch has each block once, so that none is handed out a second time without an entry, and a large job does not fill
the log.
"""

from __future__ import annotations

from threading import Lock

__all__ = ["LabelFetches"]


class LabelFetches:
    """The blocks of each job that were handed out in the fetch that is on record."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks: dict[str, set[int]] = {}

    def continues(self, job: str, block: int) -> bool:
        """Count a block to the fetch that is on record; False if it begins another one, which is to be recorded."""
        with self._lock:
            blocks = self._blocks.get(job)
            if blocks is None or block in blocks:
                return False
            blocks.add(block)
            return True

    def begin(self, job: str, block: int) -> None:
        """A fetch that begins with this block is on record now."""
        with self._lock:
            self._blocks[job] = {block}
