"""The stocks of open jobs, by job (`run.stock`): never written anywhere, and used once, by whoever takes them."""

from __future__ import annotations

from collections.abc import Set
from threading import Lock
from typing import Generic, Protocol, TypeVar

__all__ = ["Stocks"]


class _Sized(Protocol):
    @property
    def size(self) -> int: ...


T = TypeVar("T", bound=_Sized)


class Stocks(Generic[T]):
    """What lies ready, and what is known of the jobs it is for."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ready: dict[str, T] = {}
        self._votes: dict[str, tuple[int, float]] = {}
        self._made: dict[str, tuple[int | None, ...]] = {}
        self.making = Lock()
        """Held by S1 while one is made."""

    def votes_since(self, job: str, votes: int, time: float) -> float:
        """Since when a job has had as many votes as it has at this time."""
        with self._lock:
            seen = self._votes.get(job)
            if seen is None or seen[0] != votes:
                seen = self._votes[job] = votes, time
            return seen[1]

    def made_for(self, job: str) -> tuple[int | None, ...]:
        """For how many teachers each stock of a job was made; None for one that broke off."""
        with self._lock:
            return self._made.get(job, ())

    def begin(self, job: str) -> None:
        """One more is about to be made for a job; what there was is for fewer teachers, and goes."""
        with self._lock:
            self._ready.pop(job, None)
            self._made[job] = (*self._made.get(job, ()), None)

    def put(self, job: str, teachers: int, stock: T | None) -> None:
        """The last one begun was made, for so many teachers; None if there was no room to keep it."""
        with self._lock:
            self._made[job] = (*self._made.get(job, (None,))[:-1], teachers)
            if stock is not None:
                self._ready[job] = stock

    def ready(self, job: str | None = None) -> list[T]:
        """What lies there, of a job or of all."""
        with self._lock:
            return [one for which, one in self._ready.items() if job in (None, which)]

    def take(self, job: str) -> T | None:
        """The stock of a job, if there is one: once."""
        with self._lock:
            return self._ready.pop(job, None)

    @property
    def jobs(self) -> set[str]:
        """All of which something is known."""
        with self._lock:
            return {*self._ready, *self._votes, *self._made}

    def forget(self, jobs: Set[str]) -> None:
        """Drop all that is known of these."""
        with self._lock:
            for known in (self._ready, self._votes, self._made):
                for job in jobs & known.keys():
                    del known[job]
