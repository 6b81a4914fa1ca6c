"""How much a caller may ask for: requests a second by account or address, requests at once, and bytes in flight.

Whoever shows a good token is counted by account. Everybody else is counted by address, and only then: a stranger who
shares an address with a teacher (a hospital's gateway) cannot use up what the teacher may do. No header is believed
about where a request comes from: TLS ends here, so whoever could add one is the caller.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from sedml.errors import RateLimitedError
from sedml.service.server.link.unidentified import source_of
from sedml.service.server.settings import Settings

__all__ = ["Buckets", "Limits", "Places", "Room", "source_of"]

_MOST_BUCKETS = 20_000
_MEMORY = 512 << 20
_ANSWERS = 128 << 20
_AUDIT_RATE = 0.2
_AUDIT_BURST = 20
_UPLOADS = 16


@dataclass
class Buckets:
    """A bucket of tokens for each key, refilled at a steady rate. A key that is not known has a full one."""

    rate: float
    burst: float
    most: int = _MOST_BUCKETS
    clock: Callable[[], float] = time.monotonic
    _levels: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict, repr=False)

    def take(self, key: str) -> float:
        """Take a token: 0.0, or the seconds until there is one to take."""
        now = self.clock()
        level, since = self._levels.pop(key, (self.burst, now))
        level = min(self.burst, level + (now - since) * self.rate)
        taken = level >= 1
        self._levels[key] = (level - 1 if taken else level, now)
        # The one not asked for longest is the likeliest to be full again, which is the same as not being there.
        while len(self._levels) > self.most:
            self._levels.popitem(last=False)
        return 0.0 if taken else (1 - level) / self.rate

    def __len__(self) -> int:
        return len(self._levels)


@dataclass
class Places:
    """What each account may have under way at once."""

    most: int
    _taken: Counter[str] = field(default_factory=Counter, repr=False)

    def enter(self, account: str) -> bool:
        """Take a place, if there is one; `leave` gives it back."""
        free = self._taken[account] < self.most
        self._taken[account] += free
        return free

    def leave(self, account: str) -> None:
        """Give one back."""
        self._taken[account] -= 1
        if not self._taken[account]:
            del self._taken[account]


@dataclass
class Room:
    """Bytes that may be on their way at once: so many in all, of which one account can have one of so many parts.

    What is larger than such a part is taken all the same, if it is the only one of its account, and counts as one part:
    whatever one account does, there is room for others.
    """

    limit: int
    parts: int = 4
    _taken: Counter[str] = field(default_factory=Counter, repr=False)

    @property
    def taken(self) -> int:
        """How much all accounts together have taken."""
        return self._taken.total()

    @contextmanager
    def reserve(self, account: str, size: int) -> Iterator[None]:
        """Hold room while something is under way."""
        share = self.limit // self.parts
        counted = min(size, share)
        if self._taken[account] + counted > share or self.taken + counted > self.limit:
            raise RateLimitedError(
                "As much is on its way as the server can handle at once, for this account or in all.",
                "Let what is under way finish; try again in a few seconds.",
            )
        self._taken[account] += counted
        try:
            yield
        finally:
            self._taken[account] -= counted
            if not self._taken[account]:
                del self._taken[account]


@dataclass
class Limits:
    """All limits of one server."""

    accounts: Buckets
    addresses: Buckets
    audited: Buckets
    """Refusals that go into the audit log, by who was refused: a flood must not fill the disk."""
    requests: Places
    memory: Room
    """Bodies that are kept in memory as they come."""
    disk: Room
    answers: Room
    """What is read from the disk and waits for a client to take it."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits that the settings say."""
        return cls(
            accounts=Buckets(settings.rate_per_second, settings.rate_burst),
            addresses=Buckets(settings.anonymous_rate_per_second, settings.anonymous_rate_burst),
            audited=Buckets(_AUDIT_RATE, _AUDIT_BURST),
            requests=Places(settings.max_requests_per_account),
            memory=Room(_MEMORY),
            disk=Room(_UPLOADS * settings.max_data_bytes, _UPLOADS),
            answers=Room(_ANSWERS),
        )
