"""A task: the frozen terms of one aggregation, what follows from them, and their hash.

Both servers derive everything they do from the task (widths, blocks, buckets), and its id, the hash of the terms,
stands in every frame, so that nobody can be made to run other terms.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING

from sedml.errors import RingError, TaskError
from sedml.mpc.authenticated.buckets import bucket_size
from sedml.privacy.noise import noise_bits
from sedml.protocol.ballots.shape import MAX_RING_WIDTH, PAGE, BallotShape
from sedml.protocol.label_circuit import circuit_of, value_bits

if TYPE_CHECKING:
    from sedml.mpc.garbling.circuit import Circuit

EXTRA_ATTEMPTS = 15
"""How many times more than it has blocks a job may begin one: each is another try for a cheat (`buckets`)."""
_SECURITY = 40
"""Bits of statistical security of a whole job, all its attempts together."""
_BLOCK_ANDS = 600_000
"""AND gates of a block at most: about 350 MB of a server's memory while it is prepared."""


@dataclass(frozen=True)
class Widths:
    """Bits: of the ring of the counts, of a server's noise, and of a noisy count."""

    counts: int
    noise: int
    value: int


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


def blocks_of(samples: int, size: int) -> Iterator[Block]:
    """So many samples in blocks of this size; the last one has what is left."""
    for index, start in enumerate(range(0, samples, size)):
        yield Block(index, start, min(start + size, samples))


@dataclass(frozen=True)
class Task:
    """The terms. `teachers` is how many ballots there are; `threshold` is a count of votes."""

    classes: int
    samples: int
    teachers: int
    threshold: int
    sigma: float
    votes: int = 1
    """How many a ballot has on each sample."""
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    """Makes two jobs of the same terms two tasks."""

    def __post_init__(self) -> None:
        for name, least in (("classes", 2), ("samples", 1), ("teachers", 1), ("threshold", 1), ("votes", 1)):
            object.__setattr__(self, name, _whole(name, getattr(self, name), least))
        # One type, so that 40 and 40.0 are the same terms and have the same hash.
        given: object = self.sigma
        if not isinstance(given, bool) and isinstance(given, Real):
            object.__setattr__(self, "sigma", float(given))
        _ = self.widths

    @cached_property
    def id(self) -> bytes:
        """16 bytes: the hash of the terms."""
        terms = json.dumps(asdict(self), sort_keys=True).encode()
        return hashlib.blake2b(terms, digest_size=16, person=b"sedml-task-v4").digest()

    @property
    def most_votes(self) -> int:
        """K: the largest count that there can be."""
        return self.teachers * self.votes

    @cached_property
    def widths(self) -> Widths:
        """Wide enough that nothing overflows.

        A count is -1 to K (it may be one short: `ballots.to_ring`), and folded 0 to 2^(w-1) - 1: w is one more than the
        bits of K. Noise and sums cannot overflow, by how many bits they have.
        """
        counts, noise = self.most_votes.bit_length() + 1, noise_bits(self.sigma)
        if counts > MAX_RING_WIDTH:
            raise RingError(
                f"The counts of this task need {counts} bits, more than {MAX_RING_WIDTH}.",
                "Use fewer teachers, or fewer votes of each.",
            )
        return Widths(counts, noise, value_bits(counts, noise))

    @property
    def circuit(self) -> Circuit:
        """What is computed for a sample."""
        return circuit_of(self.classes, self.widths.counts, self.widths.noise)

    @property
    def ands(self) -> int:
        """AND gates of a sample."""
        return self.circuit.ands

    @property
    def index_width(self) -> int:
        """Bits of a class index."""
        return (self.classes - 1).bit_length()

    @property
    def ballot(self) -> BallotShape:
        """What each teacher sends."""
        return BallotShape(self.samples, self.classes, self.votes)

    @cached_property
    def block_samples(self) -> int:
        """Samples to a block, which bounds memory whatever the size of the job; a page of ballots has whole blocks."""
        return min(PAGE, 1 << max(3, (_BLOCK_ANDS // self.ands).bit_length() - 1))

    @property
    def block_count(self) -> int:
        """How many blocks the job has."""
        return -(-self.samples // self.block_samples)

    @property
    def blocks(self) -> Iterator[Block]:
        """The blocks of the job, in order."""
        return blocks_of(self.samples, self.block_samples)

    def bucket_size(self, ands: int) -> int:
        """How many leaky ANDs make one, where so many are made together: for all attempts of the job as one."""
        return bucket_size(ands, _SECURITY + math.log2(self.block_count + EXTRA_ATTEMPTS))


def _whole(name: str, value: object, least: int) -> int:
    """A whole number of any integer type, NumPy's too."""
    if not isinstance(value, bool) and isinstance(value, Integral) and int(value) >= least:
        return int(value)
    raise TaskError(f"{name} must be a whole number of at least {least}.", f"Set {name}.")
