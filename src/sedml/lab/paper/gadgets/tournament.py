"""The highest of N shared values by a tournament: the paper's Remark, all duels of a level in one batch.

Neighbours meet (0 against 1, 2 against 3, ..), an odd one out waits at the end, and a tie is won by the left
one, so the order is kept and the final winner is the *first* index of the highest value, as in the sequential
loop of Algorithm 1 and in numpy.argmax. ceil(log2 N) levels, N - 1 duels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from sedml.mpc.ring import Array

DuelStep: TypeAlias = Callable[[int, Array, Array, Array, Array], tuple[Array, Array]]
"""duel(level, a, b, index_a, index_b) -> (winning values, and their indices)."""


def levels(entries: int) -> list[int]:
    """How many duels each level has."""
    duels = []
    while entries > 1:
        duels.append(entries // 2)
        entries -= entries // 2
    return duels


def tournament(values: Array, indices: Array, duel: DuelStep) -> tuple[Array, Array]:
    """values, indices: uint[N, Q] shares -> the highest value and its index, uint[Q] each."""
    for level, duels in enumerate(levels(len(values))):
        pairs = slice(0, 2 * duels)
        left, right = values[pairs][0::2], values[pairs][1::2]
        won, index = duel(level, left, right, indices[pairs][0::2], indices[pairs][1::2])
        values = np.concatenate([won, values[2 * duels :]])
        indices = np.concatenate([index, indices[2 * duels :]])
    return values[0], indices[0]
