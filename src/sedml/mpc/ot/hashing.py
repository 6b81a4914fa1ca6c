"""From rows that are correlated by Delta to keys that are not: a tweakable hash from a fixed permutation.

H(x, i) = pi(pi(x) ^ i) ^ pi(x) with pi AES-128 under a public key: TMMO of Guo, Katz, Wang and Yu (IEEE S&P 2020,
ePrint 2019/074), tweakable circular correlation robust in the ideal-permutation model. A tweak is used for
one row and its Delta-shifted twin, and never again: it counts all transfers of an extension, block by block.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.mpc.kernel import Kernel, kernel
from sedml.mpc.permutation import permutation, permute, room_for

_KEY = b"sedml ot hashing"  # public

Words = npt.NDArray[np.uint64]


def hash_rows(rows: Words, first: int, blocks: int = 1) -> Words:
    """rows: uint64[n, 2], of the transfers from number `first` on -> uint64[n, 2 blocks], so many blocks for each."""
    fast = kernel()
    if fast is not None and blocks == 1:
        found = np.empty((len(rows), 2), np.uint64)
        fast.hash_rows(round_keys(fast), np.ascontiguousarray(rows), first, found)
        return found
    inner = _permute(np.ascontiguousarray(rows))
    tweaks = np.arange(first, first + len(rows), dtype=np.uint64)
    if blocks == 1:
        outer = inner.copy()
        outer[:, 0] ^= tweaks
        hashed = _permute(outer)
        hashed ^= inner
        return hashed
    outer = np.repeat(inner[:, np.newaxis], blocks, axis=1)
    outer[..., 0] ^= tweaks[:, np.newaxis]
    outer[..., 1] ^= np.arange(blocks, dtype=np.uint64)
    hashed = _permute(outer)
    hashed ^= inner[:, np.newaxis]
    return hashed.reshape(len(rows), 2 * blocks)


def _permute(blocks: Words) -> Words:
    return permute(permutation(_KEY), blocks, room_for(blocks.nbytes // 16))


def round_keys(fast: Kernel) -> bytes:
    """The round keys of pi, for the kernel."""
    return fast.schedule(_KEY)
