"""Who holds the connections of the interface: unknown ones are few and can be cut, those of one account are not all.

A connection is unknown until a good token was shown on it. An unknown one goes when newer ones come (`Unidentified`);
one of an account that has many counts as unknown still.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self, TypeAlias

from sedml.service.server.http.limits import Places
from sedml.service.server.link.unidentified import Unidentified
from sedml.service.server.settings import Settings

Peer: TypeAlias = tuple[str, int]

_OF_AN_ACCOUNT = 2  # connections for each request that it may have under way


@dataclass
class Connections:
    """All connections of one server, by the address and port of the other end."""

    unknown: Unidentified[Peer]
    accounts: Places
    most: int = 0
    peak: int = 0
    """The most there were at once, since somebody has set this."""
    refused: int = 0
    """Connections that were cut, or not taken at all, since there were too many."""
    _known: dict[Peer, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The connections, limited as the settings say."""
        unknown: Unidentified[Peer] = Unidentified(settings.max_unknown_connections, settings.max_unknown_per_address)
        connections = cls(unknown, Places(_OF_AN_ACCOUNT * settings.max_requests_per_account))
        connections.allow(settings.max_connections)
        return connections

    def allow(self, most: int) -> None:
        """Hold no more than so many, and of them half at most that are unknown."""
        self.most = most
        self.unknown.most = min(self.unknown.most, max(1, most // 2))

    def __len__(self) -> int:
        return len(self.unknown) + len(self._known)

    def add(self, peer: Peer, source: str) -> Peer | None:
        """One that was taken; the one to cut for it."""
        going = self.unknown.add(peer, source)
        self.refused += going is not None
        self.peak = max(self.peak, len(self))
        return going

    def recognise(self, peer: Peer, account: str) -> None:
        """A good token of this account was shown."""
        if peer in self.unknown and self.accounts.enter(account):
            self.unknown.leave(peer)
            self._known[peer] = account

    def leave(self, peer: Peer) -> None:
        """This one is closed."""
        self.unknown.leave(peer)
        if (account := self._known.pop(peer, None)) is not None:
            self.accounts.leave(account)
