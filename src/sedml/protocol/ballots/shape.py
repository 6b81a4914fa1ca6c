"""How large a ballot is: samples, classes and votes a sample, its pages, and the layout of the proof of each page.

A ballot is cut into pages of 4,096 samples, each of which is shared, proved and examined by itself: no server or
teacher needs more than a page of a ballot in memory. A page has one number of F for every class of every sample, row
by row. What is proved of it is that each of C = samples * (classes + 1) numbers, which are the entries and the sums
of the rows, is one of 0 ... m. The C numbers are laid out on L wires of M values each, and the proof is a polynomial
with m M + 3 m + 4 values. Both servers are told L elements of E, and S1 is sent the values: the fewest bytes go out
where 2 L = m M. M is at most 128, as a teacher's work grows with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral

from sedml.errors import TaskError
from sedml.mpc.prg import SEED_BYTES
from sedml.privacy.unit import MAX_VOTES
from sedml.protocol.ballots.field import DEGREE, ELEMENT_BYTES

PAGE = 4096
"""Samples of a page."""
MAX_CLASSES = 1 << 14
"""Far fewer than would let a row of votes wrap around the field."""
MAX_RING_WIDTH = 24
"""Bits of a ring that counts can be brought into: p is 1 modulo 2^24."""
HASH_BYTES = 32
MASKS = DEGREE
"""Random values of a wire, as many as make its value at a point of E uniform."""

_MOST_VALUES = 128


@dataclass(frozen=True)
class PageShape:
    """One page: `samples` rows of `classes` entries, of at least 0, that add up to `votes` at most."""

    samples: int
    classes: int
    votes: int

    @property
    def entries(self) -> int:
        """Numbers of F that are shared."""
        return self.samples * self.classes

    @property
    def checks(self) -> int:
        """C: numbers that must be one of 0 ... m."""
        return self.samples * (self.classes + 1)

    @property
    def values(self) -> int:
        """M, of each wire."""
        return max(1, min(_MOST_VALUES, math.isqrt(2 * self.checks // self.votes)))

    @property
    def wires(self) -> int:
        """L."""
        return -(-self.checks // self.values)

    @property
    def points(self) -> int:
        """Of a wire: its masks, then its values."""
        return MASKS + self.values

    @property
    def quotient(self) -> int:
        """Values of the proof: one more than its degree, (m + 1) (M + 3) - M."""
        return (self.votes + 1) * (self.points - 1) - self.values + 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes of this page for S0 (seed, c1, d1, told) and for S1 (blind, c0, told, its share of proof and votes)."""
        told = ELEMENT_BYTES * self.wires
        rest = ELEMENT_BYTES * self.quotient + 4 * self.entries
        return SEED_BYTES + 2 * HASH_BYTES + told, SEED_BYTES + HASH_BYTES + told + rest


@dataclass(frozen=True)
class BallotShape:
    """A whole ballot: `votes` is m, how many votes a teacher has on each sample."""

    samples: int
    classes: int
    votes: int = 1

    def __post_init__(self) -> None:
        for name, least, most in (("samples", 1, None), ("classes", 2, MAX_CLASSES), ("votes", 1, MAX_VOTES)):
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, Integral)
                or not least <= int(value) <= (most or int(value))
            ):
                limits = f"at least {least}" if most is None else f"{least} to {most:,}"
                raise TaskError(f"A ballot cannot have {value} {name}.", f"Use {limits}.")
            object.__setattr__(self, name, int(value))

    @property
    def page_count(self) -> int:
        """How many pages it has."""
        return -(-self.samples // PAGE)

    def page(self, index: int) -> PageShape:
        """The shape of a page; the last one may be shorter."""
        return PageShape(min(PAGE, self.samples - index * PAGE), self.classes, self.votes)

    @property
    def sizes(self) -> tuple[int, int]:
        """Bytes that a teacher sends to S0 and to S1."""
        whole, last = self.page(0).sizes, self.page(self.page_count - 1).sizes
        more = self.page_count - 1
        return more * whole[0] + last[0], more * whole[1] + last[1]
