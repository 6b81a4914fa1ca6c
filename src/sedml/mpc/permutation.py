"""AES-128 under a public key, as the fixed permutation pi of a hash: `ot.hashing` and `authenticated.gates`.

No secret is encrypted for anyone. Each use has a key of its own, so that no two share a permutation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

_SLACK = 15  # what the library wants behind the end of a buffer it writes into


def permutation(key: bytes) -> CipherContext:
    """pi, for `permute`."""
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - as a permutation


def room_for(blocks: int) -> npt.NDArray[np.uint8]:
    """A buffer for so many blocks of 16 bytes at most, to be used again."""
    return np.empty(16 * blocks + _SLACK, np.uint8)


def permute(pi: CipherContext, blocks: npt.NDArray[np.uint64], room: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """pi of each block of contiguous uint64[..., 2], in `room`."""
    pi.update_into(blocks.reshape(-1).view(np.uint8).data, room[: blocks.nbytes + _SLACK].data)
    return room[: blocks.nbytes].view(np.uint64).reshape(blocks.shape)
