"""A session: what two servers set up when they connect, and what dies with the connection.

Base transfers and trees of seeds (`sedml.mpc.ot`), and with them this server's Delta, drawn anew every time, in memory
only. After a broken run a cheat may be able to work out parts of a Delta at home, so none outlives its connection.

Blocks share the Delta and nothing else: each has streams and tweaks of its own, and is begun once in a session. 2
rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

from sedml.errors import CorrelationReusedError
from sedml.mpc.authenticated.bits import wipe
from sedml.mpc.ot.extension import Extension, set_up
from sedml.mpc.ot.trees import Trees
from sedml.mpc.steps import Steps

__all__ = ["Session", "open_session"]

_BLOCK_TRANSFERS = 1 << 40
"""Numbers of transfers that are kept for one block: all have different tweaks."""


@dataclass(frozen=True)
class Session:
    """One server's side of a connection."""

    role: int
    _trees: Trees = field(repr=False)
    _begun: set[int] = field(default_factory=set, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def begin(self, block: int) -> Extension:
        """The transfers of a block, once."""
        with self._lock:
            if block in self._begun:
                raise CorrelationReusedError(
                    f"Block {block} was begun before in this session.",
                    "Open a new connection: randomness that is used twice would reveal shares.",
                )
            self._begun.add(block)
        return Extension(self._trees, b"block %d" % block, block * _BLOCK_TRANSFERS)

    def wipe(self) -> None:
        """Overwrite the seeds and the Delta: the connection is over."""
        wipe(self._trees.own, self._trees.delta, self._trees.known)


def open_session(role: int) -> Steps[Session]:
    """Set up, with fresh randomness."""
    return Session(role, (yield from set_up(role)))
