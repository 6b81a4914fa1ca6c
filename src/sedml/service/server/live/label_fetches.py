"""Which labels were handed out since a fetch of them was last put into the log.

A fetch has each block once, or again within the hour: neither a large job nor somebody who asks without an end fills
the log.
"""

from __future__ import annotations

import time
from threading import Lock

_HOUR = 3600


class LabelFetches:
    """The blocks of each job that were handed out in the fetch that is on record."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks: dict[str, tuple[float, set[int]]] = {}

    def continues(self, job: str, block: int) -> bool:
        """Count a block to the fetch that is on record; False if it begins another one, which is to be recorded."""
        with self._lock:
            began, blocks = self._blocks.get(job, (0.0, None))
            if blocks is None or (block in blocks and time.monotonic() > began + _HOUR):
                return False
            blocks.add(block)
            return True

    def begin(self, job: str, block: int) -> None:
        """A fetch that begins with this block is on record now."""
        with self._lock:
            self._blocks[job] = time.monotonic(), {block}
