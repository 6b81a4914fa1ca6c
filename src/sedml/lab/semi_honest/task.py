"""A task: the frozen terms of one aggregation, what follows from them, and their hash.

Both servers derive everything they do from the task (ring widths, blocks, one-use randomness), and its id, the hash of
the terms, stands in every frame, so that nobody can be made to run other terms.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Literal, TypeAlias, get_args

from sedml.errors import RingError, TaskError
from sedml.mpc.ring import index_width
from sedml.privacy.noise import total_bound
from sedml.protocol.ballots.shape import MAX_RING_WIDTH, PAGE, BallotShape

__all__ = ["Block", "Protocol", "Task", "Widths", "ring_widths"]

Protocol: TypeAlias = Literal["fused", "garbled"]

_BLOCK_TRANSFERS = 1 << 20
"""Oblivious transfers each way of one block: 32 MB."""
_TABLES = 4
"""How many transfers take the room of one whose bit goes into a garbled circuit, with the tables that this has."""


@dataclass(frozen=True)
class Widths:
    """Ring widths in bits: of the threshold check, of the label tournament, and of the counts fed to both."""

    threshold: int
    label: int
    counts: int


@dataclass(frozen=True)
class Block:
    """Samples [start, stop) of a task, aggregated together and independently of all others."""

    index: int
    start: int
    stop: int

    @property
    def samples(self) -> int:
        """How many samples it has."""
        return self.stop - self.start


def ring_widths(teachers: int, threshold: int, bound1: int, bound2: int, *, most: int = MAX_RING_WIDTH) -> Widths:
    """The narrowest rings in which no comparison overflows, of so many bits at most.

    Proof. The servers test signs of two kinds of numbers, with counts -1 <= n_i <= K (a count may be one short:
    `ballots.to_ring`), |g| <= B1, |g_i| <= B2:
      n_i + g - T     lies in [-1 - B1 - T, K + B1 - T],
      m_p - m_q       = n_p - n_q + g_p - g_q lies in [-K - 1 - 2 B2, K + 1 + 2 B2].
    Z_{2^w} read as two's complement holds exactly [-2^(w-1), 2^(w-1) - 1], so the sign bit of a number x is
    right if |x| <= 2^(w-1) - 1, that is if w >= bit_length(|x|) + 1, and w below is that for the largest
    |x| of each kind. Shares in the wider ring of the counts reduce to either modulus without interaction.
    """
    w_threshold = max(1 + bound1 + threshold, teachers + bound1 - threshold).bit_length() + 1
    w_label = (teachers + 1 + 2 * bound2).bit_length() + 1
    widest = max(w_threshold, w_label)
    if widest > most:
        raise RingError(
            f"The comparisons of this task need {widest} bits, more than {most}.",
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
            object.__setattr__(self, name, _whole(name, getattr(self, name), least))
        for name in ("sigma1", "sigma2"):
            # One type, so that 40 and 40.0 are the same terms and have the same hash.
            if isinstance(getattr(self, name), Real) and not isinstance(getattr(self, name), bool):
                object.__setattr__(self, name, float(getattr(self, name)))
        if self.protocol not in get_args(Protocol):
            raise TaskError(f"protocol={self.protocol!r} is unknown.", f"Use one of {', '.join(get_args(Protocol))}.")
        _ = self.widths

    @cached_property
    def id(self) -> bytes:
        """16 bytes: the hash of the terms."""
        terms = json.dumps(asdict(self), sort_keys=True).encode()
        return hashlib.blake2b(terms, digest_size=16, person=b"sedml-task-v2").digest()

    @cached_property
    def widths(self) -> Widths:
        """The rings of the comparisons, wide enough for this task."""
        return ring_widths(self.teachers, self.threshold, total_bound(self.sigma1), total_bound(self.sigma2))

    @property
    def index_width(self) -> int:
        """Bits of a class index or an abstention."""
        return index_width(self.classes)

    @property
    def ballot(self) -> BallotShape:
        """What each teacher sends."""
        return BallotShape(self.samples, self.classes)

    @property
    def block_samples(self) -> int:
        """Samples to a block, which bounds memory whatever the size of the job; a page of ballots has whole blocks."""
        transfers = self.classes * (self.widths.threshold + self.widths.label)
        transfers *= _TABLES if self.protocol == "garbled" else 1
        return min(PAGE, 1 << max(3, (_BLOCK_TRANSFERS // transfers).bit_length() - 1))

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


def _whole(name: str, value: object, least: int) -> int:
    """A whole number of any integer type, NumPy's too."""
    if not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least:
        return int(value)
    raise TaskError(f"{name} must be a whole number of at least {least}.", f"Set {name}.")
