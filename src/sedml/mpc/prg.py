"""Seeds and the pseudo-random generator: all one-use randomness is expanded from here.

A `Seed` is 32 bytes of operating-system entropy. `expand(seed, label, n)` is AES-128-CTR under a key that BLAKE2b
derives from the seed and the label, so each (task, block, gadget, step) has its own independent stream, addressed by
name rather than by how much was drawn before: blocks can run in any order, and again after a crash, but then with
the very same shares and noise, or else with fresh seeds. Tests build seeds from fixed bytes; nothing else should.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sedml.errors import ShareError
from sedml.mpc.kernel import kernel

SEED_BYTES = 32
_BLOCK = 16


@dataclass(frozen=True)
class Seed:
    """32 secret bytes; its repr shows none of them."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != SEED_BYTES:
            raise ShareError(f"A seed of {len(self.key)} bytes was given.", f"A seed has exactly {SEED_BYTES} bytes.")

    @classmethod
    def random(cls) -> Seed:
        """A fresh seed from the operating system."""
        return cls(secrets.token_bytes(SEED_BYTES))

    def child(self, label: str) -> Seed:
        """The seed of one named purpose; children of different labels are independent."""
        return Seed(_derive(self, "child/" + label))


def expand(seed: Seed, label: str, size: int, *, offset: int = 0) -> npt.NDArray[np.uint8]:
    """Bytes [offset, offset + size) of the stream of `label`, as a writable array."""
    key, start = stream_key(seed, label)
    first, skip = divmod(offset, _BLOCK)
    counter = (int.from_bytes(start, "big") + first) % (1 << 128)
    fast = kernel()
    if fast is not None:
        drawn = np.empty(skip + size, np.uint8)
        fast.stream(key, counter.to_bytes(16, "big"), drawn)
        return drawn[skip:]
    encryptor = Cipher(algorithms.AES(key), modes.CTR(counter.to_bytes(16, "big"))).encryptor()
    stream = np.zeros(skip + size, np.uint8)
    encryptor.update_into(stream.data, stream.data)
    return stream[skip:]


def stream_key(seed: Seed, label: str) -> tuple[bytes, bytes]:
    """The AES key and the first counter of the stream of `label`."""
    derived = _derive(seed, "stream/" + label)
    return derived[:_BLOCK], derived[_BLOCK:]


def _derive(seed: Seed, label: str) -> bytes:
    return hashlib.blake2b(label.encode(), key=seed.key, person=b"sedml-prg-v1", digest_size=32).digest()
