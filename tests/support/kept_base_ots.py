"""Base transfers made once and kept for many meetings of a test: their public-key cryptography takes most of the time.

Nothing else of a meeting is kept: each has its own trees, its own label and its own streams, and sends what it would
send. Not for tests of the set-up itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

from sedml.mpc.channel import Channel, memory_pair
from sedml.mpc.ot.base_ot import COUNT, base_ots
from sedml.mpc.ot.trees import BaseOts

__all__ = ["kept_base_ots"]


@lru_cache(maxsize=1)
def _made() -> tuple[BaseOts, BaseOts]:
    with ThreadPoolExecutor(2) as pool:
        s0, s1 = pool.map(base_ots, (0, 1), memory_pair(bytes(16)))
    return s0, s1


def kept_base_ots() -> Callable[[int, Channel], BaseOts]:
    """To put in the place of `base_ots`: the same message, with nothing in it, and what a real one left behind."""
    made = _made()

    def kept(role: int, channel: Channel) -> BaseOts:
        sizes = (32,), (COUNT, 2, 32)
        said = [np.frombuffer(secrets.token_bytes(np.prod(size)), np.uint8).reshape(size) for size in sizes]
        channel.exchange(0, "ot/base", said)
        return made[role]

    return kept
