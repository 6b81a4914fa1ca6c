"""A task: the frozen terms of one aggregation as in the paper, with two noises, and what follows from them."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from sedml.errors import RingError, TaskError
from sedml.lab.sharing import Additive
from sedml.mpc.prg import SEED_BYTES
from sedml.privacy.noise import total_bound
from sedml.protocol.task import Block, blocks_of

VoteForm: TypeAlias = Literal["counts", "onehot"]
"""What the servers start from: counts that are shared, or the paper's one-hot ballots."""

RING_BITS = 32
"""The paper's l: its one ring has so many bits."""
_MOST_SAMPLES = 1 << 18  # of 10 classes in a block


@dataclass(frozen=True)
class Task:
    """The terms. `teachers` is how many took part; `threshold` is a count of votes."""

    classes: int
    samples: int
    teachers: int
    threshold: int
    sigma1: float
    sigma2: float
    votes: VoteForm = "counts"
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    """Makes two jobs of the same terms two tasks, so that they never share randomness."""

    def __post_init__(self) -> None:
        for name, least in (("classes", 2), ("samples", 1), ("teachers", 1), ("threshold", 1)):
            if getattr(self, name) < least:
                raise TaskError(f"{name} must be at least {least}.", f"Set {name}.")
        if self.votes not in get_args(VoteForm):
            raise TaskError(f"votes={self.votes!r} is unknown.", f"Use one of {get_args(VoteForm)}.")
        if self.width > RING_BITS:
            raise RingError(
                f"The comparisons of this task need {self.width} bits, more than {RING_BITS}.",
                "Use fewer teachers, a lower threshold or less noise.",
            )

    @cached_property
    def id(self) -> bytes:
        """16 bytes: the hash of the terms."""
        terms = json.dumps(asdict(self), sort_keys=True).encode()
        return hashlib.blake2b(terms, digest_size=16, person=b"sedml-lab-task").digest()

    @property
    def width(self) -> int:
        """Bits of the narrowest ring in which no comparison overflows.

        Proof. The servers test signs of two kinds of numbers, with counts 0 <= n_i <= K, |g| <= B1, |g_i| <= B2:
          n_i + g - T     lies in [-B1 - T, K + B1 - T],
          m_p - m_q       = n_p - n_q + g_p - g_q lies in [-K - 2 B2, K + 2 B2].
        Z_{2^w} read as two's complement holds exactly [-2^(w-1), 2^(w-1) - 1], so the sign bit of a number x is
        right if |x| <= 2^(w-1) - 1, that is if w >= bit_length(|x|) + 1. The index of a class rides along.
        """
        bound1, bound2 = total_bound(self.sigma1), total_bound(self.sigma2)
        checked = max(bound1 + self.threshold, self.teachers + bound1 - self.threshold)
        compared = self.teachers + 2 * bound2
        return max(checked.bit_length() + 1, compared.bit_length() + 1, self.index_width)

    @property
    def index_width(self) -> int:
        """c = ceil(log2(N + 1)): bits of a class index or an abstention."""
        return self.classes.bit_length()

    @property
    def counts_layout(self) -> Additive:
        """The layout of shared counts, and of a one-hot ballot: one entry a class and sample."""
        return Additive((self.classes, self.samples), RING_BITS)

    @property
    def teacher_bytes(self) -> tuple[int, int]:
        """What each teacher sends to S0 and to S1."""
        return (SEED_BYTES, self.counts_layout.wire_bytes) if self.votes == "onehot" else (0, 0)

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks of the job, in order; their size bounds memory whatever that of the job."""
        return blocks_of(self.samples, max(8, min(_MOST_SAMPLES, 10 * _MOST_SAMPLES // self.classes) // 8 * 8))
