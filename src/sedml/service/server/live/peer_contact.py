"""Whether the two servers are in touch: when this one last heard of the other, by time that only passes.

S1 greets S0 every ten seconds, whatever else there is to do. So S0 knows from the greetings that come, and S1 from the
answers to them, and either knows within `SILENT` seconds that the other is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from datetime import datetime, timedelta
from threading import Lock

SILENT = 35.0
"""Three greetings were missed, and the next should have come."""


class PeerContact:
    """When the other server was last heard of, and which jobs it said it has otherwise."""

    def __init__(self, clock: Callable[[], datetime], steady: Callable[[], float]) -> None:
        self._clock, self._steady = clock, steady
        self._started = steady()
        self._heard: float | None = None
        self._differing: frozenset[str] = frozenset()
        self._lock = Lock()

    @property
    def heard(self) -> bool:
        """Whether it has said anything yet."""
        return self._heard is not None

    @property
    def differing(self) -> frozenset[str]:
        """Jobs of which it knows something else, by the last greeting; S1 calls about them."""
        return self._differing

    def hear(self, seconds_ago: float = 0.0) -> None:
        """Note that it has said something, just now or so long ago."""
        self._heard = self._steady() - seconds_ago

    def differs_on(self, jobs: Set[str]) -> None:
        """Note for which jobs S1 should call, in place of those noted before."""
        with self._lock:
            self._differing = frozenset(jobs)

    def has_called_about(self, job: str) -> None:
        """Take a job off that list."""
        with self._lock:  # calls about several jobs end at once, and a greeting meanwhile
            self._differing -= {job}

    def silent_seconds(self) -> float:
        """How long ago it was last heard of; if it was not yet, how long ago this server was started."""
        return max(0.0, self._steady() - (self._started if self._heard is None else self._heard))

    def last_heard(self) -> datetime | None:
        """When that was, by this server's clock as it is now."""
        return self._clock() - timedelta(seconds=self.silent_seconds()) if self.heard else None

    def is_silent(self) -> bool:
        """Whether it is gone for so long that something is wrong."""
        return self.silent_seconds() > SILENT

    def verdict(self) -> str:
        """What to tell people: "ok", or how long nothing has been heard."""
        seconds = f"{self.silent_seconds():.0f} s"
        if not self.heard:
            return f"not heard of yet, since {seconds}"
        return f"silent for {seconds}" if self.is_silent() else "ok"
