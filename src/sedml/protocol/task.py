"""A task: the frozen terms of one aggregation, what follows from them, and their hash.

Both servers and the dealer derive everything they do from the task (ring widths, blocks, correlations), and
its id, the hash of the terms, stands in every frame, so that nobody can be made to run other terms.
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
from sedml.mpc.ring import MAX_WIDTH, index_width
from sedml.privacy.noise import NoiseSource, total_bound
from sedml.protocol.ballot_shape import BallotShape

__all__ = ["AskedProtocol", "Block", "Protocol", "Randomness", "Task", "VoteForm", "Widths", "ring_widths"]

Protocol: TypeAlias = Literal["fused", "garbled", "paper"]
AskedProtocol: TypeAlias = Literal["auto", "fused", "garbled"]
"""As the requester of a deployment names it; "auto" leaves it to what the servers have measured between them."""
VoteForm: TypeAlias = Literal["index", "onehot", "counts"]
Randomness: TypeAlias = Literal["dealer", "servers"]

PAPER_RING_BITS = 32
_BLOCK_SAMPLES = 1 << 18
_BLOCK_WORDS = 1 << 22
"""One-hot tables of one block, in words of 8 bytes: 32 MB."""
_BLOCK_TRANSFERS = 1 << 20
"""Oblivious transfers each way of one block, where the servers make their own randomness: 32 MB."""
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
    votes: VoteForm = "index"
    noise: NoiseSource = "both"
    ring_bits: int | None = None
    """The paper's l: all rings of protocol "paper" have this many bits (32 unless given)."""
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    """Makes two jobs of the same terms two tasks, so that they never share randomness."""
    randomness: Randomness = "dealer"
    """Who makes the one-use randomness: a dealer, or the two servers between themselves."""

    def __post_init__(self) -> None:
        for name, least in (("classes", 2), ("samples", 1), ("teachers", 1), ("threshold", 1)):
            object.__setattr__(self, name, _whole(name, getattr(self, name), least))
        if self.ring_bits is not None:
            object.__setattr__(self, "ring_bits", _whole("ring_bits", self.ring_bits, None))
        for name in ("sigma1", "sigma2"):
            # One type, so that 40 and 40.0 are the same terms and have the same hash.
            if isinstance(getattr(self, name), Real) and not isinstance(getattr(self, name), bool):
                object.__setattr__(self, name, float(getattr(self, name)))
        choices = (("protocol", Protocol), ("votes", VoteForm), ("randomness", Randomness))
        for name, allowed in ((name, get_args(kind)) for name, kind in choices):
            if getattr(self, name) not in allowed:
                raise TaskError(f"{name}={getattr(self, name)!r} is unknown.", f"Use one of {', '.join(allowed)}.")
        if self.ring_bits is not None and self.protocol != "paper":
            raise TaskError(
                f"ring_bits was given for protocol '{self.protocol}', which chooses its own rings.",
                "Leave it out, or use protocol 'paper'.",
            )
        if self.protocol == "garbled" and self.randomness == "dealer":
            raise TaskError(
                "Protocol 'garbled' was asked for with a dealer, and there is nothing to deal.",
                "Use randomness 'servers' with it, or protocol 'fused'.",
            )
        if self.protocol == "paper" and self.randomness == "servers":
            raise TaskError(
                "Protocol 'paper' was asked for without a dealer, which its model has.",
                "Use randomness 'dealer' with it, or protocol 'fused'.",
            )
        _ = self.widths

    @cached_property
    def id(self) -> bytes:
        """16 bytes: the hash of the terms."""
        known = asdict(self)
        if self.randomness == "dealer":
            del known["randomness"]  # the first tasks did not have it
        terms = json.dumps(known, sort_keys=True).encode()
        return hashlib.blake2b(terms, digest_size=16, person=b"sedml-task-v1").digest()

    @cached_property
    def widths(self) -> Widths:
        """The rings of the comparisons, wide enough for this task."""
        bounds = total_bound(self.sigma1, self.noise), total_bound(self.sigma2, self.noise)
        needed = ring_widths(self.teachers, self.threshold, *bounds)
        if self.protocol != "paper":
            return needed
        # The index rides along in the same ring, so that must hold the classes too.
        least = max(needed.counts, self.index_width)
        asked = PAPER_RING_BITS if self.ring_bits is None else self.ring_bits
        if not least <= asked <= MAX_WIDTH:
            raise RingError(
                f"A ring of {asked} bits was asked for, and this task needs {least} to {MAX_WIDTH}.",
                f"Set ring_bits to at least {least}.",
            )
        return Widths(asked, asked, asked)

    @property
    def index_width(self) -> int:
        """Bits of a class index or an abstention."""
        return index_width(self.classes)

    @property
    def ballot(self) -> BallotShape:
        """What each teacher sends."""
        if self.votes == "index":
            return BallotShape(self.samples, self.classes, 1, self.index_width)
        entries = self.classes if self.votes == "onehot" else 0
        return BallotShape(self.samples, self.classes, entries, self.widths.counts)

    @property
    def block_samples(self) -> int:
        """Samples to a block: what bounds memory whatever the size of the job."""
        if self.randomness == "servers":
            transfers = self.classes * (self.widths.threshold + self.widths.label)
            transfers *= _TABLES if self.protocol == "garbled" else 1
            transfers += self.teachers * self.index_width if self.votes == "index" else 0
            return max(8, _BLOCK_TRANSFERS // transfers // 8 * 8)
        if self.votes != "index":
            return max(8, min(_BLOCK_SAMPLES, 10 * _BLOCK_SAMPLES // self.classes) // 8 * 8)
        words = self.teachers * max(1, (1 << self.index_width) // 16)
        return max(8, min(_BLOCK_SAMPLES, _BLOCK_WORDS // words) // 8 * 8)

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


def _whole(name: str, value: object, least: int | None) -> int:
    """A whole number of any integer type, NumPy's too."""
    if not isinstance(value, bool) and isinstance(value, Integral) and (least is None or int(value) >= least):
        return int(value)
    at_least = "" if least is None else f" of at least {least}"
    raise TaskError(f"{name} must be a whole number{at_least}.", f"Set {name}.")
