"""Ballots that prove themselves: two servers add them up, and each examines its half alone.

A teacher's votes are one number for each class of each sample, shared additively over a prime field, with a proof
that every sample has as many votes as the terms allow. So counting is adding, which a server does without the other
one, and there is nothing to cheat with: a server can add only what teachers sent.

`shape` says how large things are, `field` and `proof` are the arithmetic, `page` what two servers see of a page,
`casting` is the teacher's side and `counting` a server's.
"""

from sedml.protocol.ballots.casting import Ballot, cast
from sedml.protocol.ballots.counting import Examined, add_up, examine, kept_bytes, to_ring
from sedml.protocol.ballots.shape import MAX_RING_WIDTH, PAGE, BallotShape, PageShape

__all__ = [
    "MAX_RING_WIDTH",
    "PAGE",
    "Ballot",
    "BallotShape",
    "Examined",
    "PageShape",
    "add_up",
    "cast",
    "examine",
    "kept_bytes",
    "to_ring",
]
