"""How much has gone over the link to the other server since this one was started."""

from __future__ import annotations

from threading import Lock


class LinkTraffic:
    """Rounds and bytes of all blocks that this server has worked on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.rounds = 0
        self.bytes = 0

    def add(self, rounds: int, size: int) -> None:
        """Count those of one block."""
        with self._lock:
            self.rounds += rounds
            self.bytes += size
