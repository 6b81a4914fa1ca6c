"""Connections of which nobody knows yet who they are: who has to go when there are too many.

Whoever is expected needs little time to say who it is. So the newest is always taken, and the oldest goes for it, of
the address that has most: a crowd from one address pushes out its own.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass
class Unidentified(Generic[K]):
    """Connections by any key, no more than `most` in all and `most_each` of one address."""

    most: int
    most_each: int
    _sources: dict[K, str] = field(default_factory=dict, repr=False)
    _by_source: dict[str, dict[K, None]] = field(default_factory=dict, repr=False)  # in the order of arrival

    def add(self, key: K, source: str) -> K | None:
        """Take one in; the one that goes for it, which is out already."""
        going = None
        if len(self._by_source.get(source, ())) >= self.most_each:
            going = next(iter(self._by_source[source]))
        elif len(self) >= self.most:
            most: dict[K, None] = max(self._by_source.values(), key=len)
            going = next(iter(most))
        if going is not None:
            self.leave(going)
        self._sources[key] = source
        self._by_source.setdefault(source, {})[key] = None
        return going

    def leave(self, key: K) -> str | None:
        """This one is gone, or known by now; its address, if it was here."""
        source = self._sources.pop(key, None)
        if source is not None:
            here = self._by_source[source]
            del here[key]
            if not here:
                del self._by_source[source]
        return source

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, key: object) -> bool:
        return key in self._sources


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
