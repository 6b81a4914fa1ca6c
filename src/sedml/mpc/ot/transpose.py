"""Bit matrices on their side: from 128 long columns to one 128-bit row for each transfer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.mpc.kernel import kernel

_CHUNK = 512  # words of a column: 64 rows of so many words stay in the second-level cache
_SWAPS = tuple(
    (np.uint64(shift), np.uint64(mask))
    for shift, mask in (
        (32, 0x00000000FFFFFFFF),
        (16, 0x0000FFFF0000FFFF),
        (8, 0x00FF00FF00FF00FF),
        (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    )
)

Words = npt.NDArray[np.uint64]


def to_rows(columns: Words, words: int | None = None, into: Words | None = None) -> Words:
    """The first m words of columns uint64[128, ...], bit i in bit i % 64 of word i // 64 -> rows: uint64[64 m, 2].

    64 x 64 blocks by halving: swap the off-diagonal halves of pairs of rows, then quarters, down to single bits
    (Warren, Hacker's Delight, section 7-3), for many blocks at once.
    """
    m = columns.shape[1] if words is None else words
    found = np.empty((64 * m, 2), np.uint64) if into is None else into
    fast = kernel()
    if fast is not None:
        fast.transpose(np.ascontiguousarray(columns), columns.shape[1], m, found)
        return found
    columns = columns[:, :m]
    rows = found.reshape(m, 64, 2)
    spare = np.empty(64 * _CHUNK, np.uint64)
    for start in range(0, m, _CHUNK):
        part = columns[:, start : start + _CHUNK].reshape(2, 64, -1).copy()
        width = part.shape[2]
        for shift, mask in _SWAPS:
            pairs = part.reshape(-1, 2, int(shift), width)
            low, high = pairs[:, 0], pairs[:, 1]
            swap = spare[: low.size].reshape(low.shape)
            np.right_shift(low, shift, out=swap)
            swap ^= high
            swap &= mask
            high ^= swap
            np.left_shift(swap, shift, out=swap)
            low ^= swap
        rows[start : start + width] = part.transpose(2, 1, 0)
    return found
