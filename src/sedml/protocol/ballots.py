"""A ballot: one teacher's votes on every sample, split in two for S0 and S1.

S0's half is a 32-byte seed. S1's is what is missing from it, packed: c bits a sample for the class index or an
abstention, shared in Z_{2^c}. Any bit string is at most one vote a sample; nothing stops a teacher from hiding many in
the paper's N ring elements a sample (Alg. 1 lines 1-4). Each half alone is uniformly random. Both can be read from any
sample on, page by page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from sedml.errors import PredictionsError, ShareError
from sedml.mpc.bits import pack, unpack
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array
from sedml.protocol.ballot_shape import PAGE, BallotShape
from sedml.protocol.task import Block, Task
from sedml.protocol.votes import ABSTAIN

__all__ = ["cast", "index_shares", "paged_shares"]

_LABEL = "ballot"


def cast(votes: Array, shape: BallotShape, seed: Seed | None = None) -> tuple[bytes, bytes]:
    """votes: int[Q] in [-1, N) -> the halves for S0 and S1.

    A `seed` makes the same halves of the same votes again; never use one for other votes, as the two halves that S1
    would hold reveal how the votes differ.
    """
    if votes.shape != (shape.samples,) or votes.min() < ABSTAIN or votes.max() >= shape.classes:
        raise PredictionsError(
            f"A ballot needs one vote for each of {shape.samples} samples, each {ABSTAIN} to {shape.classes - 1}.",
            "Pass a row of what as_votes returns.",
        )
    seed = seed or Seed.random()
    # An abstention is the first index above the classes.
    values = np.where(votes < 0, shape.classes, votes)
    ring = shape.ring
    share1 = (values.astype(ring.dtype) - _share0(seed.key, shape, 0, shape.samples)) & ring.mask
    pages = [share1[start : start + PAGE] for start in range(0, shape.samples, PAGE)]
    return seed.key, b"".join(pack(page, ring.width).tobytes() for page in pages)


def index_shares(role: int, ballots: Sequence[bytes], task: Task, block: Block) -> Array:
    """One server's shares of the class indices of a block: uint[K, Q]."""
    _check_number(len(ballots), task)
    _check_sizes(role, ballots, task.ballot.sizes[role])
    if role == 0:
        return np.stack([_share0(key, task.ballot, block.start, block.stop) for key in ballots])
    return _share1(ballots, task.ballot, block)


def paged_shares(role: int, ballots: Iterable[Sequence[bytes]], task: Task, block: Block) -> Array:
    """The same from ballots that come some at a time, and of which only the pages that hold the block are given.

    So nobody needs to have all of all ballots in memory, nor their pages (`BallotShape.pages`).
    """
    shape = task.ballot
    pages, page = shape.pages(role, block.start, block.stop), shape.page_bytes(role)
    size = min(shape.sizes[role], pages.stop * page) - pages.start * page
    shares = np.empty((task.teachers, block.samples), shape.ring.dtype)
    seat = 0
    for some in ballots:
        _check_number(seat + len(some), task, at_most=True)
        _check_sizes(role, some, size, seat)
        if role == 0:
            for place, key in enumerate(some, seat):
                shares[place] = _share0(key, shape, block.start, block.stop)
        else:
            shares[seat : seat + len(some)] = _share1(some, shape, block, cut=True)
        seat += len(some)
    _check_number(seat, task)
    return shares


def _check_number(ballots: int, task: Task, *, at_most: bool = False) -> None:
    if ballots != task.teachers and not (at_most and ballots < task.teachers):
        raise ShareError(
            f"There are {ballots} ballots for a task of {task.teachers} teachers.",
            "Make the task for the teachers that took part: its rings hold no more votes.",
        )


def _check_sizes(role: int, ballots: Sequence[bytes], size: int, first: int = 0) -> None:
    for position, ballot in enumerate(ballots, first):
        if len(ballot) != size:
            raise ShareError(
                f"Ballot {position} for S{role} has {len(ballot)} bytes, not {size}.",
                "Ask that teacher to submit again; a truncated share cannot be counted.",
            )


def _share0(key: bytes, shape: BallotShape, start: int, stop: int) -> Array:
    """uint[stop - start], expanded from the seed."""
    ring = shape.ring
    step = ring.dtype.itemsize
    stream = expand(Seed(key), _LABEL, (stop - start) * step, offset=start * step)
    return ring.reduce(np.ascontiguousarray(stream).view(ring.dtype))


def _share1(ballots: Sequence[bytes], shape: BallotShape, block: Block, cut: bool = False) -> Array:
    """uint[K, Q], unpacked from the pages that hold the block."""
    whole = shape.packed(PAGE)
    pages = shape.pages(1, block.start, block.stop)
    missing = pages.start * whole if cut else 0
    parts = []
    for page in pages:
        samples = min(PAGE, shape.samples - page * PAGE)
        start = page * whole - missing
        where = slice(start, start + shape.packed(samples))
        packed = np.stack([np.frombuffer(ballot[where], np.uint8) for ballot in ballots])
        values = unpack(packed, shape.width, samples)
        first, last = block.start - page * PAGE, block.stop - page * PAGE
        parts.append(values[:, max(0, first) : last])
    return np.concatenate(parts, axis=1)
