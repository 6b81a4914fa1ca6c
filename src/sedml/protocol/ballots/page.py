"""One page of a ballot: what is sent to each server, what is public of it, and its name.

S0's part of a page is a seed, S1's what is missing from it, so that each alone is uniformly random. Nobody talks: the
teacher derives all challenges from commitments, the servers derive them again, and each computes the page's name from
its part alone. Two servers that have the same name hold a page that is right (docs/explanation/protocol.md, with
proofs).

    c0 = H(seed)    c1 = H(blind, S1's share of the votes)          fix the votes;
    challenge = H(context, shape, c0, c1)                           gives rho, and the masks of either seed;
    d1 = H(blind, S1's share of H)                                  fixes the proof (S0's share follows from the seed);
    z  = H(challenge, d1)                                           where it is examined.

What S0 computes from its part, v0 = (f(z), V(z) H(z)), and what S1 computes, v1, add up to (F, sum_l rho_l g(F_l)).
The name is H(challenge, d1, F, v0): S0 has v0, and S1 computes it as that sum less v1.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sedml.errors import BallotError
from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.protocol.ballots.field import DEGREE, ELEMENT_BYTES, P, Words, draw, subtract
from sedml.protocol.ballots.proof import evaluate, expected
from sedml.protocol.ballots.shape import HASH_BYTES, MASKS, PageShape

_TAG = b"sedml-ballot-v1/"


def digest(purpose: str, *parts: bytes | npt.NDArray[np.uint32]) -> bytes:
    """SHA-256 with a tag of its own for every purpose; all parts but the last have fixed sizes."""
    state = hashlib.sha256(_TAG + purpose.encode() + b"/")
    for part in parts:
        state.update(part if isinstance(part, bytes) else np.ascontiguousarray(part).data)
    return state.digest()


@dataclass(frozen=True)
class Challenge:
    """What follows from both commitments to the votes. `context` says whose page of which ballot this is."""

    context: bytes
    shape: PageShape
    c0: bytes
    c1: bytes

    @cached_property
    def seed(self) -> Seed:
        """Public, but nobody knows it before the votes are fixed."""
        sizes = np.array([self.shape.samples, self.shape.classes, self.shape.votes], np.uint64)
        return Seed(digest("challenge", sizes.view(np.uint32), self.c0, self.c1, self.context))

    @cached_property
    def rho(self) -> Words:
        """uint32[L, 4]."""
        return draw(self.seed, "rho", DEGREE * self.shape.wires).reshape(-1, DEGREE)

    def point(self, d1: bytes) -> Words:
        """z: uint32[4], outside of the field of p^2 elements, in which a wire's masks would not hide its values."""
        z = draw(Seed(digest("point", self.seed.key, d1)), "z", DEGREE)
        if not (z[1] or z[3]):
            raise BallotError(
                "The point of the proof lies where masks do not hide votes, by a chance of 2^-62.", "Report it."
            )
        return z

    def name(self, d1: bytes, told: Words, v0: npt.NDArray[np.uint32]) -> bytes:
        """32 bytes, which both servers compute."""
        return digest("page", self.seed.key, d1, told, v0)


def votes_of(seed: Seed, shape: PageShape) -> Words:
    """S0's share of the votes: uint32[entries]."""
    return draw(seed, "votes", shape.entries)


def quotient_of(seed: Seed, shape: PageShape) -> Words:
    """S0's share of H: uint32[quotient, 4]."""
    return draw(seed, "quotient", DEGREE * shape.quotient).reshape(-1, DEGREE)


def masks_of(secret: Seed, challenge: Challenge) -> Words:
    """A server's share of the masks, uint32[4, L]: they are never sent, and differ with every challenge."""
    wires = challenge.shape.wires
    return draw(secret.child("masks/" + challenge.seed.key.hex()), "masks", MASKS * wires).reshape(MASKS, wires)


def examine_page(role: int, part: memoryview, shape: PageShape, context: bytes) -> bytes:
    """The name of the page that this is a server's part of; raises if it cannot be one."""
    if len(part) != shape.sizes[role]:
        raise BallotError("A page of the ballot does not have the size of its shape.", "Cast it for these terms again.")
    head = SEED_BYTES + HASH_BYTES
    secret, first, rest = Seed(bytes(part[:SEED_BYTES])), bytes(part[SEED_BYTES:head]), part[head:]
    told_bytes = ELEMENT_BYTES * shape.wires
    if role == 0:
        d1, told = bytes(rest[:HASH_BYTES]), _numbers(rest[HASH_BYTES:]).reshape(-1, DEGREE)
        challenge = Challenge(context, shape, digest("c0", secret.key), first)
        share, quotient = votes_of(secret, shape), quotient_of(secret, shape)
    else:
        told = _numbers(rest[:told_bytes]).reshape(-1, DEGREE)
        cut = told_bytes + ELEMENT_BYTES * shape.quotient
        quotient, share = _numbers(rest[told_bytes:cut]).reshape(-1, DEGREE), _numbers(rest[cut:])
        d1 = digest("d1", secret.key, quotient)
        challenge = Challenge(context, shape, first, digest("c1", secret.key, share))
    v = evaluate(share, masks_of(secret, challenge), quotient, challenge.point(d1), shape)
    if role == 1:
        whole = np.concatenate([told, expected(told, challenge.rho, shape)[np.newaxis]])
        v = subtract(whole, v).astype(np.uint32)
    return challenge.name(d1, told, v)


def _numbers(data: memoryview) -> Words:
    numbers = np.require(np.frombuffer(data, "<u4"), np.uint32, "A")
    if numbers.max() >= P:
        raise BallotError("A number of the ballot is not in its field.", "Cast the ballot again.")
    return numbers
