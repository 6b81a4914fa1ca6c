"""How much a caller may ask for: requests a second by account or address, and bytes in flight.

Whoever shows a good token is counted by account. Everybody else is counted by address, and only then: a stranger who
shares an address with a teacher (a hospital's gateway) cannot use up what the teacher may do. No header is believed
about where a request comes from: TLS ends here, so whoever could add one is the caller.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from sedml.errors import RateLimitedError
from sedml.service.server.settings import Settings

__all__ = ["Buckets", "Limits", "Room", "source_of"]

_MOST_BUCKETS = 20_000
_MEMORY = 512 << 20
_AUDIT_RATE = 0.2
_AUDIT_BURST = 20
_UPLOADS = 4


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
class Room:
    """Bytes that may be on their way in at once. One body always finds room, however large."""

    limit: int
    taken: int = 0

    @contextmanager
    def reserve(self, size: int) -> Iterator[None]:
        """Hold room for a body while it comes in."""
        if self.taken and self.taken + size > self.limit:
            raise RateLimitedError(
                "The server is receiving as much as it can handle at once.", "Send it again in a few seconds."
            )
        self.taken += size
        try:
            yield
        finally:
            self.taken -= size


@dataclass
class Limits:
    """All limits of one server."""

    accounts: Buckets
    addresses: Buckets
    audited: Buckets
    """Refusals that go into the audit log, by who was refused: a flood must not fill the disk."""
    memory: Room
    disk: Room

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """As the settings say."""
        return cls(
            accounts=Buckets(settings.rate_per_second, settings.rate_burst),
            addresses=Buckets(settings.anonymous_rate_per_second, settings.anonymous_rate_burst),
            audited=Buckets(_AUDIT_RATE, _AUDIT_BURST),
            memory=Room(_MEMORY),
            disk=Room(_UPLOADS * settings.max_data_bytes),
        )


def source_of(host: str) -> str:
    """What counts as one address: of IPv6 the network, since one machine has all of that."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
    return str(address)
