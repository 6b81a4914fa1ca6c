"""A task as the paper has it: dealt randomness, its three phases, one-hot votes, lone noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

from sedml.errors import RingError, TaskError
from sedml.lab.semi_honest.two_noise_task import Task, Widths, ring_widths
from sedml.mpc.prg import SEED_BYTES
from sedml.mpc.ring import MAX_WIDTH
from sedml.mpc.sharing import Additive
from sedml.privacy.noise import noise_table, total_bound

__all__ = ["Dealt", "LabTask", "NoiseSource", "VoteForm"]

Dealt: TypeAlias = Literal["fused", "paper"]
VoteForm: TypeAlias = Literal["onehot", "counts"]
NoiseSource: TypeAlias = Literal["both", "s0"]

_RING_BITS = 32
_BLOCK_SAMPLES = 1 << 18


@dataclass(frozen=True)
class LabTask(Task):
    """The terms; with all of these at their defaults, those of two semi-honest servers."""

    dealt: Dealt | None = None
    """What runs on randomness that a dealer deals: the fused protocol, or the paper's three phases."""
    votes: VoteForm = "counts"
    """What the servers start from: the paper's one-hot ballots, or counts that are shared."""
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
        return (SEED_BYTES, self.counts_layout.wire_bytes) if self.votes == "onehot" else (0, 0)

    @property
    def block_samples(self) -> int:
        """Samples to a block: what bounds memory whatever the size of the job."""
        if self.dealt is None:
            return super().block_samples
        return max(8, min(_BLOCK_SAMPLES, 10 * _BLOCK_SAMPLES // self.classes) // 8 * 8)
