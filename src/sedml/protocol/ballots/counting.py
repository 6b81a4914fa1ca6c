"""What a server does with the halves of ballots: examine each alone, add up those that count, and bring the sum into
a ring.

Nothing of this is said to the other server but names. Each name that both have counts once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sedml.errors import BallotError, RingError, ShareError
from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.mpc.ring import Array, Ring
from sedml.protocol.ballots.casting import ballot_name, page_context
from sedml.protocol.ballots.field import P, Words
from sedml.protocol.ballots.page import examine_page, votes_of
from sedml.protocol.ballots.shape import MAX_RING_WIDTH, BallotShape, PageShape


@dataclass(frozen=True)
class Examined:
    """A server's half of a ballot: its name, and what is kept of each page, S0's seed or S1's share of the votes.

    The pages are parts of the half, not copies.
    """

    name: bytes
    pages: tuple[memoryview, ...] = field(repr=False)


def examine(role: int, half: bytes, shape: BallotShape, job: bytes, teacher: str) -> Examined:
    """Compute the name of the ballot that this is a half of; raises if it cannot be one."""
    if len(half) != shape.sizes[role]:
        raise BallotError(
            "The ballot does not have the size that the job's terms give it.", "Cast it for these terms again."
        )
    names, kept, rest = [], [], memoryview(half)
    for index in range(shape.page_count):
        page = shape.page(index)
        part, rest = rest[: page.sizes[role]], rest[page.sizes[role] :]
        names.append(examine_page(role, part, page, page_context(shape, job, teacher, index)))
        kept.append(part[:SEED_BYTES] if role == 0 else part[-4 * page.entries :])
    return Examined(ballot_name(names), tuple(kept))


def kept_bytes(role: int, shape: PageShape) -> int:
    """Bytes that a server keeps of a page."""
    return SEED_BYTES if role == 0 else 4 * shape.entries


def add_up(role: int, pages: Iterable[bytes | memoryview], shape: PageShape) -> Words:
    """This server's share in F of all counts of a page, from what it keeps of every ballot: uint32[Q, N]."""
    sums = np.zeros(shape.entries, np.uint64)
    for kept in pages:
        if len(kept) != kept_bytes(role, shape):
            raise ShareError(
                "A page of a ballot is not what was kept of it.", "Restore the newest backup of the store."
            )
        sums += votes_of(Seed(bytes(kept)), shape) if role == 0 else np.frombuffer(kept, "<u4")
    return (sums % np.uint64(P)).astype(np.uint32).reshape(shape.samples, shape.classes)


def to_ring(role: int, sums: npt.NDArray[np.uint32], width: int) -> Array:
    """Shares in F of counts, uint32[Q, N] -> shares in Z_{2^width}, uint[N, Q]. Nothing is sent.

    What is shared is n or, with a chance of (n + 1) / p, n - 1. The two sums add up to n + p over the integers, or to
    n with that chance. S0 takes 1 away, and p is 1 modulo 2^width. So whatever a server and its friends make of all
    other shares, one vote more moves what comes out by 1 or by 0; with another p it would move by 1 - p at the edge
    of the field, to which they can bring it.
    """
    if not 1 <= width <= MAX_RING_WIDTH:
        raise RingError(f"Counts cannot be brought into a ring of {width} bits.", f"Use at most {MAX_RING_WIDTH}.")
    return np.ascontiguousarray(Ring(width).reduce(sums - np.uint32(1 - role)).T)
