"""How much a caller may ask for: processor time by account, requests by address, requests at once, bytes in flight.

Whoever shows a good token is counted by account. Everybody else is counted by address, and only then: a stranger who
shares an address with a teacher (a hospital's gateway) cannot use up what the teacher may do. No header is believed
about where a request comes from: TLS ends here, so whoever could add one is the caller.

What an account asks for is measured, not counted: one may ask often for what is cheap, and seldom for what is not.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from sedml.errors import RateLimitedError
from sedml.service.server.settings import Settings

REQUEST_SECONDS = 1.5e-3
"""Of a processor, for a request apart from what the core does for it: HTTP, TLS, the token, the log."""
BYTE_SECONDS = 5e-9
"""For a byte of a body, either way."""

_MOST_BUCKETS = 20_000
_MEMORY = 512 << 20
_ANSWERS = 128 << 20
_AUDIT_RATE = 0.2
_AUDIT_BURST = 20
_STRANGERS_BURST = 200
_JOB_RATE = 1 / 30
_JOB_BURST = 200
_CHANGE_RATE = 1 / 600
_CHANGE_BURST = 20
_UPLOADS = 16
_LONGEST_WAIT = 30.0  # seconds: what costs a lot was asked for in good faith, perhaps


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
class Processor:
    """Seconds of a processor for each account, at a steady share; used first and charged then, from any thread."""

    share: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _full_at: OrderedDict[str, float] = field(default_factory=OrderedDict, repr=False)
    """When an account that asks for nothing more will have its whole burst again; who is not here has it now."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def wait(self, account: str) -> float:
        """Seconds until an account may ask for something."""
        return max(0.0, self._full_at.get(account, 0.0) - self.clock() - self.burst / self.share)

    def charge(self, account: str, seconds: float) -> None:
        """Count what was used."""
        with self._lock:
            now = self.clock()
            full_at = max(now, self._full_at.pop(account, now)) + seconds / self.share
            self._full_at[account] = min(full_at, now + self.burst / self.share + _LONGEST_WAIT)
            while self._full_at and (len(self._full_at) > _MOST_BUCKETS or next(iter(self._full_at.values())) < now):
                self._full_at.popitem(last=False)


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

    processor: Processor
    addresses: Buckets
    audited: Buckets
    """Refusals that go into the log, by who was refused: a flood must not fill the disk."""
    strangers: Buckets
    """The same of all who have no account together: they may come from any number of addresses."""
    jobs: Buckets
    """Jobs that requesters create: what one is leaves some entries in the log, even if it is deleted at once."""
    changes: Buckets
    """Tokens that accounts replace, and limits that teachers set themselves: each goes into the log, for good."""
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
            processor=Processor(settings.processor_share, settings.processor_burst),
            addresses=Buckets(settings.anonymous_rate_per_second, settings.anonymous_rate_burst),
            audited=Buckets(_AUDIT_RATE, _AUDIT_BURST),
            strangers=Buckets(_AUDIT_RATE, _STRANGERS_BURST),
            jobs=Buckets(_JOB_RATE, _JOB_BURST),
            changes=Buckets(_CHANGE_RATE, _CHANGE_BURST),
            requests=Places(settings.max_requests_per_account),
            memory=Room(_MEMORY),
            disk=Room(_UPLOADS * settings.max_data_bytes, _UPLOADS),
            answers=Room(_ANSWERS),
        )
