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
from sedml.mpc.ring import MAX_WIDTH, index_width
from sedml.privacy.noise import total_bound
from sedml.protocol.task import Block

__all__ = ["Protocol", "Task", "Widths", "ring_widths"]

Protocol: TypeAlias = Literal["fused", "garbled"]

_BLOCK_TRANSFERS = 1 << 20
"""Oblivious transfers each way of one block: 32 MB."""
_TABLES = 4
"""How many transfers take the room of one whose bit goes into a garbled circuit, with the tables that this has."""
_MOST_SAMPLES = 4096


@dataclass(frozen=True)
class Widths:
    """Ring widths in bits: of the threshold check, of the label tournament, and of the counts fed to both."""

    threshold: int
    label: int
    counts: int


def ring_widths(teachers: int, threshold: int, bound1: int, bound2: int) -> Widths:
    """The narrowest rings in which no comparison overflows.

    Proof. The servers test signs of two kinds of numbers, with counts 0 <= n_i <= K, |g| <= B1, |g_i| <= B2:
      n_i + g - T     lies in [-B1 - T, K + B1 - T],
      m_p - m_q       = n_p - n_q + g_p - g_q lies in [-K - 2 B2, K + 2 B2].
    Z_{2^w} read as two's complement holds exactly [-2^(w-1), 2^(w-1) - 1], so the sign bit of a number x is
    right if |x| <= 2^(w-1) - 1, that is if w >= bit_length(|x|) + 1, and w below is that for the largest
    |x| of each kind. Shares in the wider ring of the counts reduce to either modulus without interaction.
    """
    w_threshold = max(bound1 + threshold, teachers + bound1 - threshold).bit_length() + 1
    w_label = (teachers + 2 * bound2).bit_length() + 1
    widest = max(w_threshold, w_label)
    if widest > MAX_WIDTH:
        raise RingError(
            f"The comparisons of this task need {widest} bits, more than {MAX_WIDTH}.",
            "Use fewer teachers, a lower threshold or less noise.",
        )
    return Widths(w_threshold, w_label, widest)


@dataclass(frozen=True)
class Task:
    """The terms. `teachers` is how many took part; `threshold` is a count of votes."""

    classes: int
    samples: int
    teachers: int
    threshold: int
    sigma1: float
    sigma2: float
    protocol: Protocol = "fused"
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    """Makes two jobs of the same terms two tasks, so that they never share randomness."""

    def __post_init__(self) -> None:
        for name, least in (("classes", 2), ("samples", 1), ("teachers", 1), ("threshold", 1)):
            if getattr(self, name) < least:
                raise TaskError(f"{name} must be at least {least}.", f"Set {name}.")
        if self.protocol not in get_args(Protocol):
            raise TaskError(f"protocol={self.protocol!r} is unknown.", f"Use one of {', '.join(get_args(Protocol))}.")
        _ = self.widths

    @cached_property
    def id(self) -> bytes:
        """16 bytes: the hash of the terms."""
        terms = json.dumps(asdict(self), sort_keys=True).encode()
        return hashlib.blake2b(terms, digest_size=16, person=b"sedml-lab-task").digest()

    @cached_property
    def widths(self) -> Widths:
        """The rings of the comparisons, wide enough for this task."""
        return ring_widths(self.teachers, self.threshold, total_bound(self.sigma1), total_bound(self.sigma2))

    @property
    def index_width(self) -> int:
        """Bits of a class index or an abstention."""
        return index_width(self.classes)

    @property
    def block_samples(self) -> int:
        """Samples to a block, which bounds memory whatever the size of the job."""
        transfers = self.classes * (self.widths.threshold + self.widths.label)
        transfers *= _TABLES if self.protocol == "garbled" else 1
        return min(_MOST_SAMPLES, 1 << max(3, (_BLOCK_TRANSFERS // transfers).bit_length() - 1))

    @property
    def block_count(self) -> int:
        """How many blocks the job has."""
        return -(-self.samples // self.block_samples)

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks of the job, in order."""
        size = self.block_samples
        for index in range(self.block_count):
            yield Block(index, index * size, min((index + 1) * size, self.samples))
