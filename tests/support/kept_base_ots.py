"""Base transfers made once and kept for many meetings of a test: their public-key cryptography takes most of the time.

Nothing else is kept: each connection has its own trees. Not for tests of the set-up itself.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

from sedml.mpc.channel import memory_pair
from sedml.mpc.ot.base_ot import COUNT, base_ots
from sedml.mpc.ot.trees import BaseOts
from sedml.mpc.prg import Seed, expand
from sedml.mpc.steps import Steps, drive

__all__ = ["kept_base_ots"]


@lru_cache(maxsize=1)
def _made() -> tuple[BaseOts, BaseOts]:
    with ThreadPoolExecutor(2) as pool:
        s0, s1 = pool.map(lambda role, end: drive(end, 0, base_ots(role)), (0, 1), memory_pair(bytes(16)))
    return s0, s1


def kept_base_ots() -> Callable[[int, Seed], Steps[BaseOts]]:
    """To put in the place of `extension.base_ots`: a message with nothing in it, and what a real one left behind."""
    made = _made()

    def kept(role: int, coins: Seed) -> Steps[BaseOts]:
        drawn = expand(coins, "kept", 32 + COUNT * 64)
        yield "ot/base", [drawn[:32], drawn[32:].reshape(COUNT, 2, 32)]
        return made[role]

    return kept
