"""What one server can compute of a ballot with a guess of the votes: the masks of the other server, if it is right.

A server is told F, the values of all wires at z. It subtracts its own share of them and what the guess would leave to
the other server; four numbers of F are left for every wire, and four weights of masks make them.
"""

from __future__ import annotations

import numpy as np

from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.protocol.ballots import page
from sedml.protocol.ballots.field import DEGREE, P, matmul, subtract
from sedml.protocol.ballots.page import Challenge, digest
from sedml.protocol.ballots.proof import _lagrange, evaluate
from sedml.protocol.ballots.shape import HASH_BYTES, MASKS, PageShape

__all__ = ["other_masks"]


def other_masks(role: int, part: bytes, shape: PageShape, context: bytes, guess: np.ndarray) -> np.ndarray:
    """uint64[L, 4], from a server's part of a page and votes uint32[entries]."""
    secret, first = Seed(part[:SEED_BYTES]), part[SEED_BYTES : SEED_BYTES + HASH_BYTES]
    rest = part[SEED_BYTES + HASH_BYTES :]
    told_bytes = 4 * DEGREE * shape.wires
    if role == 0:
        d1, told, mine = rest[:HASH_BYTES], rest[HASH_BYTES:], page.votes_of(secret, shape)
        challenge = Challenge(context, shape, digest("c0", secret.key), first)
    else:
        told, mine = rest[:told_bytes], np.frombuffer(rest[-4 * shape.entries :], "<u4")
        d1 = digest("d1", secret.key, np.frombuffer(rest[told_bytes : -4 * shape.entries], "<u4"))
        challenge = Challenge(context, shape, first, digest("c1", secret.key, mine))
    z, nothing = challenge.point(d1), np.zeros((shape.quotient, DEGREE), np.uint32)
    # Shares add up, so the guess and this server's own masks are put in at once.
    known = evaluate(guess.astype(np.uint32), page.masks_of(secret, challenge), nothing, z, shape)[:-1]
    left = subtract(np.frombuffer(told, "<u4").reshape(-1, DEGREE), known)
    return matmul(left, _inverse(_lagrange(0, shape.points, z)[0][:MASKS]))


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Of a square matrix over F."""
    size = len(matrix)
    rows = [[*map(int, row), *(int(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for column in range(size):
        pivot = next(row for row in range(column, size) if rows[row][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        scale = pow(rows[column][column], -1, P)
        rows[column] = [value * scale % P for value in rows[column]]
        for other in range(size):
            if other != column:
                factor = rows[other][column]
                rows[other] = [(a - factor * b) % P for a, b in zip(rows[other], rows[column], strict=True)]
    return np.array([row[size:] for row in rows], np.uint64)
