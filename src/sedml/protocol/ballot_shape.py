"""The shape of a ballot: how many bytes a teacher sends to each server, whoever else takes part."""

from __future__ import annotations

from dataclasses import dataclass

from sedml.mpc.bits import packed_size
from sedml.mpc.prg import SEED_BYTES
from sedml.mpc.ring import Ring

__all__ = ["PAGE", "BallotShape"]

PAGE = 4096
"""Samples of a page: S1's half can be read from any page on."""


@dataclass(frozen=True)
class BallotShape:
    """One class index a sample, in Z_{2^width}."""

    samples: int
    classes: int
    width: int

    @property
    def ring(self) -> Ring:
        """The ring of the class indices."""
        return Ring(self.width)

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes that a teacher sends to S0 and to S1."""
        pages, rest = divmod(self.samples, PAGE)
        return SEED_BYTES, pages * self.packed(PAGE) + self.packed(rest)

    def packed(self, samples: int) -> int:
        """Bytes that so many samples take in S1's half."""
        return packed_size(samples, self.width)

    def page_bytes(self, role: int) -> int:
        """Bytes of a whole page of a half; S0's half is a single one."""
        return SEED_BYTES if role == 0 else self.packed(PAGE)

    def pages(self, role: int, start: int, stop: int) -> range:
        """The pages of a half that hold samples [start, stop)."""
        return range(1) if role == 0 else range(start // PAGE, -(-stop // PAGE))
