"""A session: what two servers set up when they connect, and what dies with the connection.

Base transfers for a list of blocks (`sedml.mpc.ot.fresh_deltas`), drawn anew every time, in memory only. **Each block
has a Delta of its own.** In the middle of making leaky ANDs a cheat can flip a bit, see a digest and hang up; with that
it can work out half of the other's Delta at home, in 2^63 steps (`sedml.mpc.authenticated.leaky`). No vote was ever
under that Delta, then, and none will be.

2 rounds, whatever the number of blocks. A block is begun once in a session, and none once one of them has failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

from sedml.errors import ChannelError, CorrelationReusedError
from sedml.mpc.authenticated.authenticated_bits import wipe
from sedml.mpc.ot.fresh_deltas import bases
from sedml.mpc.ot.trees import BaseOts
from sedml.mpc.steps import Steps


@dataclass
class Session:
    """One server's side of a connection."""

    role: int
    _bases: dict[int, BaseOts] = field(repr=False)
    """Of the blocks that are not begun."""
    _over: bool = False
    _lock: Lock = field(default_factory=Lock, repr=False)

    def begin(self, block: int) -> BaseOts:
        """The base transfers of a block, once."""
        self.check()
        with self._lock:
            base = self._bases.pop(block, None)
        if base is None:
            raise CorrelationReusedError(
                f"Block {block} was begun before in this session, or is none of its blocks.",
                "Open a new connection: randomness that is used twice would reveal shares.",
            )
        return base

    def check(self) -> None:
        """Raise if the session is over: then no block of it may say another word."""
        if self._over:
            raise ChannelError("Another block of this connection has failed.", "Open a new connection.")

    def end(self) -> None:
        """A block has failed: none goes on."""
        self._over = True

    def wipe(self) -> None:
        """End it, and overwrite what is left."""
        self.end()
        with self._lock:
            for base in self._bases.values():
                wipe(base.sent, base.choices)
            self._bases.clear()


def open_session(role: int, blocks: Sequence[int]) -> Steps[Session]:
    """Set up for these blocks, with fresh randomness; both servers name the same ones."""
    return Session(role, dict(zip(blocks, (yield from bases(role, len(blocks))), strict=True)))
