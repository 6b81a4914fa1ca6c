"""How many blocks of a job are under way at once, and from when on workers are worth it: by a simple model.

A block takes a core for about as long as its AND gates do. What waits for the link costs no core, so that far
servers have more blocks under way; each takes its memory.
"""

from __future__ import annotations

from math import ceil

from sedml.protocol.task import Task

_PER_AND = 0.7e-6
"""Seconds of a core: 0.35 s for 500,000 of them."""
_ROUNDS = 12
"""Of a block, from its preparation until both have saved it."""
_MOST = 3
"""Blocks under way at once: each takes about 300 MB."""
_NEGLIGIBLE = 0.25
"""Waiting, as a part of the work, for which another block under way is not worth its memory."""
_ENOUGH = 2.0
"""Seconds of work from which on workers gain more than it takes to start them."""


def blocks_under_way(task: Task, delay: float, most: int) -> int:
    """How many, on a link with this delay one way."""
    waiting = _ROUNDS * delay / _block_seconds(task)
    return max(1, min(1 + ceil(waiting - _NEGLIGIBLE), most, _MOST, task.block_count))


def worth_workers(task: Task, blocks: int) -> bool:
    """Whether so many blocks have enough work for workers."""
    return blocks > 1 and blocks * _block_seconds(task) >= _ENOUGH


def _block_seconds(task: Task) -> float:
    return _PER_AND * task.ands * min(task.samples, task.block_samples)
