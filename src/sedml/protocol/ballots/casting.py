"""What a teacher does: split its votes into two halves with a proof.

All randomness of a ballot is made here, from the teacher's secret and everything that a ballot is for: release, job,
teacher, shape, page, server and votes. So the same votes give the same bytes again, if an answer was lost, and
nothing else ever meets the same masks: from two ballots with the same ones a server could read votes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from sedml.errors import PredictionsError
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array
from sedml.protocol.ballots.field import Words, add, subtract
from sedml.protocol.ballots.page import Challenge, digest, masks_of, quotient_of, votes_of
from sedml.protocol.ballots.proof import evaluate, prove
from sedml.protocol.ballots.shape import PAGE, BallotShape, PageShape
from sedml.protocol.votes import ABSTAIN, is_masked

RELEASE = 1
"""Of the randomness of ballots: raise it whenever anything changes that a ballot is derived from."""


@dataclass(frozen=True)
class Ballot:
    """A ballot: its name, 32 bytes, and its halves for S0 and S1."""

    name: bytes
    halves: tuple[bytes, bytes] = field(repr=False)


def cast(votes: Array, shape: BallotShape, job: bytes, teacher: str, secret: Seed) -> Ballot:
    """votes: int[m, Q], the class that each of the teacher's m votes on a sample is for, or -1."""
    if (
        votes.shape != (shape.votes, shape.samples)
        or votes.dtype.kind not in "iu"
        or is_masked(votes)
        or votes.min() < ABSTAIN
        or votes.max() >= shape.classes
    ):
        raise PredictionsError(
            f"A ballot needs {shape.votes} x {shape.samples} votes, each {ABSTAIN} to {shape.classes - 1}.",
            "Pass a row of what as_votes returns.",
        )
    fixed = votes.astype("<i4")  # from here on: what is shared and what the randomness is drawn for must be the same
    purpose = page_context(shape, job, teacher, 0) + RELEASE.to_bytes(4, "little")
    root = Seed(digest("secret", secret.key, purpose, fixed.tobytes()))
    pages = [_cast_page(fixed, shape, job, teacher, root, index) for index in range(shape.page_count)]
    names, *halves = zip(*pages, strict=True)
    return Ballot(ballot_name(names), (b"".join(halves[0]), b"".join(halves[1])))


def _cast_page(
    votes: Array, shape: BallotShape, job: bytes, teacher: str, root: Seed, index: int
) -> tuple[bytes, bytes, bytes]:
    """The name and the parts of one page."""
    page, seed = shape.page(index), root.child(f"page/{index}")
    here = votes[:, index * PAGE : (index + 1) * PAGE]
    entries = (here + page.classes * np.arange(page.samples))[here != ABSTAIN]
    rows = np.bincount(entries, minlength=page.entries).astype(np.uint32)
    return share(rows, page, page_context(shape, job, teacher, index), seed.child("S0"), seed.child("S1"))


def share(x: Words, shape: PageShape, context: bytes, seed: Seed, blind: Seed) -> tuple[bytes, bytes, bytes]:
    """The name of a page and its parts for S0 and S1, whatever x is: uint32[entries]. Seed and blind are for this
    page only.
    """
    x0 = votes_of(seed, shape)
    x1 = subtract(x, x0).astype(np.uint32)
    challenge = Challenge(context, shape, digest("c0", seed.key), digest("c1", blind.key, x1))
    masks0 = masks_of(seed, challenge)
    masks = add(masks0, masks_of(blind, challenge)).astype(np.uint32)
    quotient0, quotient = quotient_of(seed, shape), prove(x, masks, challenge.rho, shape)
    quotient1 = subtract(quotient, quotient0).astype(np.uint32)
    d1 = digest("d1", blind.key, quotient1)
    z = challenge.point(d1)
    told = evaluate(x, masks, quotient, z, shape)[:-1]
    v0 = evaluate(x0, masks0, quotient0, z, shape)
    part0 = seed.key + challenge.c1 + d1 + told.tobytes()
    part1 = blind.key + challenge.c0 + told.tobytes() + quotient1.tobytes() + x1.tobytes()
    return challenge.name(d1, told, v0), part0, part1


def page_context(shape: BallotShape, job: bytes, teacher: str, index: int) -> bytes:
    """Whose page of which ballot this is: a part meant for another job, teacher, shape or page has another name."""
    sizes = np.array([len(job), shape.samples, shape.classes, shape.votes, index], "<u8")
    return digest("context", sizes.tobytes(), job, teacher.encode())


def ballot_name(pages: Iterable[bytes]) -> bytes:
    """The name of the whole ballot, from those of its pages."""
    return digest("ballot", b"".join(pages))
