"""Fixed inputs and shares, and a record of everything that two servers exchange.

Nothing here is random: seeds are made of fixed bytes, so a failure comes back on the next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sedml.lab.sharing import Additive, Field
from sedml.mpc.channel import accept, connect, listen
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Ring
from sedml.privacy.noise import noise_table, server_sigma

TASK_ID = bytes(range(16))
TIMEOUT = 120.0


def fixed_seed(number: int) -> Seed:
    """Seed number so-and-so, always the same."""
    return Seed(number.to_bytes(32, "little"))


def numbers(key: int) -> np.random.Generator:
    """Inputs of a test; never used as shares' randomness by the package itself."""
    return np.random.default_rng(key)


class Tap:
    """A channel that notes, step by step, what was sent and received."""

    def __init__(self, channel) -> None:
        self.channel = channel
        self.steps: list[tuple[int, str]] = []
        self.sent: list[np.ndarray] = []
        self.received: list[np.ndarray] = []

    @property
    def traffic(self):
        return self.channel.traffic

    def exchange(self, block: int, step: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        sent = _flat(arrays)
        theirs = self.channel.exchange(block, step, arrays)
        self.steps.append((block, step))
        self.sent.append(sent)
        self.received.append(_flat(theirs))
        return theirs

    def close(self) -> None:
        self.channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def rounds(self) -> int:
        return len(self.steps)

    @property
    def payload(self) -> int:
        """Bytes sent, frame headers not counted."""
        return sum(part.size for part in self.sent)


def _flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    parts = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays]
    return np.concatenate([np.empty(0, np.uint8), *parts])


def split(layout: Field, value: np.ndarray, key: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Two shares of a value, from a fixed seed."""
    share0 = layout.draw(expand(fixed_seed(key), "split", layout.drawn_bytes))
    return share0, layout.remainder(value, share0)


def split_ring(values: np.ndarray, width: int, key: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Two additive shares of integers, negative ones too."""
    layout = Additive(values.shape, width)
    return split(layout, layout.ring.reduce(values), key)


def join_ring(shares: tuple[np.ndarray, np.ndarray], width: int) -> np.ndarray:
    return Additive(shares[0].shape, width).combine(*shares)


def packed_size(count: int, width: int) -> int:
    """Bytes that so many numbers of so many bits take on the wire."""
    return -(-count * width // 8)


def bounds(sigma: float) -> tuple[int, int]:
    """The largest noise that S0 and S1 can each draw."""
    return (noise_table(server_sigma(sigma)).bound,) * 2


def tls_pair(task_id: bytes, credentials):
    """Both ends of a TLS link over loopback."""
    with listen("127.0.0.1", 0) as listener, ThreadPoolExecutor(1) as thread:
        ours = thread.submit(accept, listener, task_id, credentials[0], timeout=TIMEOUT)
        theirs = connect(listener.getsockname(), task_id, credentials[1], timeout=TIMEOUT)
        return ours.result(), theirs


def signed(ring: Ring, values: np.ndarray) -> np.ndarray:
    """Ring elements as two's complement numbers in [-2^(width-1), 2^(width-1)): what sign tests mean by negative."""
    shift = 64 - ring.width
    return (values.astype(np.int64) << shift) >> shift
