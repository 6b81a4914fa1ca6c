"""Two servers that make their randomness between themselves, in two threads over a link in memory.

Nothing here is random either: whatever a server asks of the operating system comes from a stream of fixed bytes of its
own, so set-up, transfers and gadgets are the same on every run.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest

from sedml.errors import PeerGoneError
from sedml.mpc.channel import memory_pair
from sedml.mpc.ot.base_ot import base_ots
from sedml.mpc.ot.extension import Extension
from sedml.mpc.ot.trees import LEAVES, TREES, BaseOts, Trees, share_trees
from sedml.mpc.prg import expand
from sedml.mpc.steps import drive
from support.harness import TASK_ID, TIMEOUT, Tap, fixed_seed

KEYS = (11, 12)
"""Of the coins of S0 and of S1, where a test does not say otherwise."""

_own = threading.local()
_making = threading.Lock()  # both servers may ask for the shared trees at once, and `cache` would make them twice
_token_bytes = secrets.token_bytes


def coins(key: int) -> Callable[[int], bytes]:
    """Stands for the operating system: the same bytes, in the same order, for the same key."""
    drawn = 0

    def draw(size: int) -> bytes:
        nonlocal drawn
        drawn += size
        return expand(fixed_seed(key), "coins", size, offset=drawn - size).tobytes()

    return draw


def _draw(size: int) -> bytes:
    return getattr(_own, "coins", _token_bytes)(size)


def taps() -> tuple[Tap, Tap]:
    """Both ends of a link."""
    s0, s1 = memory_pair(TASK_ID, timeout=TIMEOUT)
    return Tap(s0), Tap(s1)


class Liar(Tap):
    """The end of a server that changes what it sends at one step."""

    def __init__(self, channel, step: str, change: Callable[[list[np.ndarray]], None]) -> None:
        super().__init__(channel)
        self._step, self._change = step, change

    def exchange(self, block: int, step: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        if step == self._step:
            arrays = [array.copy() for array in arrays]
            self._change(arrays)
        return super().exchange(block, step, arrays)


def lying(role: int, step: str, change: Callable[[list[np.ndarray]], None]) -> tuple[Tap, Tap]:
    """Both ends of a link, of which one server changes, in place, what it sends at a step."""
    ends = list(memory_pair(TASK_ID, timeout=TIMEOUT))
    return tuple(Liar(end, step, change) if end is ends[role] else Tap(end) for end in ends)


def outcomes(side: Callable[[int, Tap], Any], *, keys=KEYS, links: tuple[Tap, Tap] | None = None) -> list[Any]:
    """What `side(role, link)` returns, or raises, as S0 and as S1."""
    links = links or taps()

    def played(role: int) -> Any:
        _own.coins = coins(keys[role])
        try:
            return side(role, links[role])
        except BaseException:
            links[role].close()
            raise

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as threads:
        patch.setattr(secrets, "token_bytes", _draw)
        futures = [threads.submit(played, role) for role in (0, 1)]
    return [future.exception() or future.result() for future in futures]


def both(side: Callable[[int, Tap], Any], *, keys=KEYS, links: tuple[Tap, Tap] | None = None) -> tuple[Any, Any]:
    """What both servers came to; raises the first error."""
    s0, s1 = outcomes(side, keys=keys, links=links)
    # A broken link is only the consequence of the other one's error.
    for error in sorted((s0, s1), key=lambda outcome: isinstance(outcome, PeerGoneError)):
        if isinstance(error, BaseException):
            raise error
    return s0, s1


@cache
def _bases() -> tuple[BaseOts, BaseOts]:
    return both(lambda role, link: drive(link, 0, base_ots(role)))


@cache
def _trees() -> tuple[Trees, Trees]:
    bases = _bases()
    return both(lambda role, link: drive(link, 0, share_trees(bases[role])))


def shared_bases() -> tuple[BaseOts, BaseOts]:
    """Both sides of the base OTs, made once."""
    with _making:
        return _bases()


def shared_trees() -> tuple[Trees, Trees]:
    """Both sides of the trees, made once."""
    with _making:
        return _trees()


def trusted_trees(key0: int, key1: int, deltas: Sequence[np.ndarray] | None = None) -> tuple[Trees, Trees]:
    """Trees as a trusted party would hand them out: S0's secrets follow from one key, S1's from the other. Quick."""
    drawn = [expand(fixed_seed(key), "trees", TREES * (LEAVES * 16 + 1)) for key in (key0, key1)]
    own = [part[TREES:].reshape(TREES, LEAVES, 16) for part in drawn]
    # As `base_ots` has it, the lowest bit of Delta is 1.
    lowest = np.arange(TREES) == 0
    deltas = deltas or [part[:TREES] % LEAVES | lowest for part in drawn]
    known = []
    for delta, theirs in zip(deltas, reversed(own), strict=True):
        order = np.arange(LEAVES) ^ delta[:, np.newaxis]
        leaves = np.take_along_axis(theirs, order[..., np.newaxis], axis=1)
        leaves[:, 0] = 0
        known.append(leaves)
    return tuple(Trees(*parts) for parts in zip(own, deltas, known, strict=True))


def extensions(label: bytes = b"label", trees: tuple[Trees, Trees] | None = None) -> tuple[Extension, Extension]:
    """Both ends of a new extension."""
    s0, s1 = trees or shared_trees()
    return Extension(s0, label), Extension(s1, label)


def extended(count: int, ends: tuple[Extension, Extension] | None = None, block: int = 0, **options):
    """So many transfers at both servers."""
    ends = ends or extensions()
    return both(lambda role, link: drive(link, block, ends[role].extend(count)), **options)
