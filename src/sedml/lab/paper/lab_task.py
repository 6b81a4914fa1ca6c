"""A task with terms that no deployment has: dealt randomness, the paper's phases, votes in other forms, lone noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from sedml.errors import RingError, TaskError
from sedml.mpc.ring import MAX_WIDTH
from sedml.mpc.sharing import Additive
from sedml.privacy.noise import noise_table, total_bound
from sedml.protocol.task import Task, Widths, ring_widths

__all__ = ["Dealt", "LabTask", "NoiseSource", "VoteForm"]

Dealt: TypeAlias = Literal["fused", "paper"]
VoteForm: TypeAlias = Literal["index", "onehot", "counts"]
NoiseSource: TypeAlias = Literal["both", "s0"]

_RING_BITS = 32
_BLOCK_SAMPLES = 1 << 18
_BLOCK_WORDS = 1 << 22
"""One-hot tables of one block, in words of 8 bytes: 32 MB."""


@dataclass(frozen=True)
class LabTask(Task):
    """The terms; with all of these at their defaults, those of a deployment."""

    dealt: Dealt | None = None
    """What runs on randomness that a dealer deals: the fused protocol, or the paper's three phases."""
    votes: VoteForm = "index"
    """What the servers start from: ballots of class indices, one-hot ballots, or counts that are already shared."""
    noise: NoiseSource = "both"
    ring_bits: int | None = None
    """The paper's l: all rings of its three phases have this many bits (32 unless given)."""

    def __post_init__(self) -> None:
        for name, kind in (("votes", VoteForm), ("noise", NoiseSource)):
            if getattr(self, name) not in get_args(kind):
                raise TaskError(f"{name}={getattr(self, name)!r} is unknown.", f"Use one of {get_args(kind)}.")
        if self.ring_bits is not None and self.dealt != "paper":
            raise TaskError("ring_bits is only for the paper's phases.", "Leave it out, or use protocol 'paper'.")
        if self.dealt is not None and self.protocol != "fused":
            raise TaskError("For protocol 'garbled' there is nothing to deal.", "Leave the dealer out.")
        super().__post_init__()

    @property
    def name(self) -> str:
        """The name of the protocol."""
        return self.dealt or self.protocol

    @property
    def randomness(self) -> str:
        """Who makes it."""
        return "dealer" if self.dealt else "servers"

    @cached_property
    def widths(self) -> Widths:
        """The rings, as wide as this noise needs, or as asked for."""
        sigmas = self.sigma1, self.sigma2
        bounds = (total_bound(sigma) if self.noise == "both" else noise_table(sigma).bound for sigma in sigmas)
        needed = ring_widths(self.teachers, self.threshold, *bounds)
        if self.dealt != "paper":
            return needed
        # The index rides along in the same ring, so that must hold the classes too.
        least = max(needed.counts, self.index_width)
        asked = _RING_BITS if self.ring_bits is None else self.ring_bits
        if not least <= asked <= MAX_WIDTH:
            raise RingError(
                f"A ring of {asked} bits was asked for, and this task needs {least} to {MAX_WIDTH}.",
                f"Set ring_bits to at least {least}.",
            )
        return Widths(asked, asked, asked)

    @property
    def counts_layout(self) -> Additive:
        """The layout of shared counts, and of a one-hot ballot: one entry a class and sample."""
        return Additive((self.classes, self.samples), self.widths.counts)

    @property
    def teacher_bytes(self) -> tuple[int, int]:
        """What each teacher sends to S0 and to S1."""
        to_s0, to_s1 = self.ballot.sizes
        return {"index": (to_s0, to_s1), "onehot": (to_s0, self.counts_layout.wire_bytes), "counts": (0, 0)}[self.votes]

    @property
    def block_samples(self) -> int:
        """Samples to a block: what bounds memory whatever the size of the job."""
        if self.dealt is None:
            return super().block_samples if self.votes == "index" else self._block_of(0)
        if self.votes == "index":
            words = self.teachers * max(1, (1 << self.index_width) // 16)
            return _eights(min(_BLOCK_SAMPLES, _BLOCK_WORDS // words))
        return _eights(min(_BLOCK_SAMPLES, 10 * _BLOCK_SAMPLES // self.classes))


def _eights(samples: int) -> int:
    return max(8, samples // 8 * 8)
