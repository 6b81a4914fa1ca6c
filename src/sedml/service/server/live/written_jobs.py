"""Jobs as they were last written out for the list of jobs (`jobs.listing`), each with the version that it had then."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

_MOST = 16 << 20  # bytes


class WrittenJobs:
    """Those that were asked for last, as many as there is room for."""

    def __init__(self, most: int = _MOST) -> None:
        self._lock = Lock()
        self._most, self._size = most, 0
        self._jobs: OrderedDict[str, tuple[object, bytes]] = OrderedDict()

    def get(self, job: str, version: object) -> bytes | None:
        """The job, if it was written out in this version."""
        with self._lock:
            known, written = self._jobs.get(job, (None, b""))
            if known != version:
                return None
            self._jobs.move_to_end(job)
            return written

    def keep(self, job: str, version: object, written: bytes) -> None:
        """Keep it in place of any other version."""
        with self._lock:
            self._size += len(written) - len(self._jobs.pop(job, (None, b""))[1])
            self._jobs[job] = version, written
            while self._size > self._most:
                _, (_, oldest) = self._jobs.popitem(last=False)
                self._size -= len(oldest)
