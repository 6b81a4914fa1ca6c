"""Lines that anybody can cause in any number: the first few of a kind each minute, and how many more there were.

These are requests that are refused or come from nobody known, by code and caller, and what the web server says of
connections that are no HTTP or TLS. All others are written, whatever happens, and the metrics count every request.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_MOST = 30
_WINDOW = 60.0
_FOREIGN = ("uvicorn", "asyncio")


class Sparing(logging.Filter):
    """For the handler that writes. `more_like_it` stands in the first line of a kind after some were left out."""

    def __init__(self, most: int = _MOST, window: float = _WINDOW, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most, self._window, self._clock = most, window, clock
        self._seen: dict[tuple[str | None, ...], tuple[float, int]] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write it."""
        kind = _kind(record)
        if kind is None:
            return True
        now = self._clock()
        with self._lock:
            since, count = self._seen.get(kind, (now, 0))
            more = 0
            if now - since >= self._window:
                since, count, more = now, 0, max(0, count - self._most)
            self._seen[kind] = since, count + 1
        if more and isinstance(record.msg, dict):
            record.msg["more_like_it"] = more
        elif more:
            record.more_like_it = more
        return count < self._most


def _kind(record: logging.LogRecord) -> tuple[str | None, ...] | None:
    """What is counted together; None for a line that is always written."""
    event = record.msg
    if isinstance(event, dict):
        code, caller = event.get("code"), event.get("caller")
        is_request = record.name == "sedml.http" and event.get("event") == "request"
        return (code, caller) if is_request and (code is not None or caller is None) else None
    return (record.name,) if record.name.partition(".")[0] in _FOREIGN else None
