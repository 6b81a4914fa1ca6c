"""The teachers' two rounds: encrypted one-hot votes, and S0's sum of them.

In the first round a teacher sends E(1) for the class it votes for and E(0) for all others. In the second, for the
samples that passed the threshold, it sends the same again with its share of the label noise added.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sedml.lab.homomorphic import paillier
from sedml.lab.homomorphic.wire import pack, unpack
from sedml.mpc.ring import Array
from sedml.protocol.votes import Votes

__all__ = ["add_ballot", "ballot", "empty_sum", "noise_shares"]


def ballot(key: paillier.PublicKey, votes: Votes, classes: int, noise: list[int] | None = None) -> bytes:
    """A teacher: votes int[Q] -> its message, E(vote is i, plus noise) for class 0 and all samples, class 1, ..."""
    one_hot = (votes == np.arange(classes)[:, np.newaxis]).ravel().tolist()
    numbers = one_hot if noise is None else [vote + own for vote, own in zip(one_hot, noise, strict=True)]
    return pack([paillier.encrypt(key, m) for m in numbers], key.size)


def empty_sum(entries: int) -> list[int]:
    """A sum of no ballots: ciphertexts of zero, not random."""
    return [1] * entries


def add_ballot(key: paillier.PublicKey, total: list[int], message: bytes) -> list[int]:
    """S0: one more teacher's message; gives the new sum."""
    arrived = unpack(message, key.size, key.n_squared, len(total))
    return [paillier.add(key, c, d) for c, d in zip(total, arrived, strict=True)]


def noise_shares(noise: Array, teachers: int, n: int) -> Iterator[list[int]]:
    """Noise int[N, A], split into one share modulo n for each teacher: any but all of them are uniform."""
    rest: npt.NDArray[np.object_] = noise.astype(object).ravel()
    for _ in range(teachers - 1):
        share = [secrets.randbelow(int(n)) for _ in rest]
        rest = (rest - share) % int(n)
        yield share
    yield (rest % int(n)).tolist()
