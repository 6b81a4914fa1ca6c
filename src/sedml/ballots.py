"""A ballot: one teacher's votes on every sample, split in two for S0 and S1.

S0's half is a 32-byte seed. S1's is what is missing from it, packed: c bits a sample for `votes="index"`
(the class index or an abstention, shared in Z_{2^c}; any bit string is at most one vote a sample), or N ring
elements a sample for `votes="onehot"` (Alg. 1 lines 1-4; nothing stops a teacher from hiding many votes in it).
Each half alone is uniformly random. Both can be read from any sample on, page by page.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sedml.bits import pack, packed_size, unpack
from sedml.errors import PredictionsError, ShareError
from sedml.prg import SEED_BYTES, Seed, expand
from sedml.ring import Array, Ring
from sedml.task import Block, Task
from sedml.votes import ABSTAIN

__all__ = ["ballot_sizes", "cast", "counts_share", "index_shares", "page_bytes", "pages_of"]

PAGE = 4096
_LABEL = "ballot"


def ballot_sizes(task: Task) -> tuple[int, int]:
    """Bytes that a teacher sends to S0 and to S1."""
    if task.votes == "counts":
        return 0, 0
    pages, rest = divmod(task.samples, PAGE)
    return SEED_BYTES, pages * _page_size(task, PAGE) + _page_size(task, rest)


def cast(votes: Array, task: Task, seed: Seed | None = None) -> tuple[bytes, bytes]:
    """votes: int[Q] in [-1, N) -> the halves for S0 and S1.

    A `seed` makes the same halves of the same votes again; never use one for other votes, as the two halves that S1
    would hold reveal how the votes differ.
    """
    if votes.shape != (task.samples,) or votes.min() < ABSTAIN or votes.max() >= task.classes:
        raise PredictionsError(
            f"A ballot needs one vote for each of {task.samples} samples, each {ABSTAIN} to {task.classes - 1}.",
            "Pass a row of what as_votes returns.",
        )
    seed = seed or Seed.random()
    if task.votes == "index":
        # An abstention is the first index above the classes.
        values = np.where(votes < 0, task.classes, votes)[:, np.newaxis]
    else:
        values = votes[:, np.newaxis] == np.arange(task.classes)
    ring = Ring(_width(task))
    share1 = (values.astype(ring.dtype) - _share0(seed.key, task, 0, task.samples)) & ring.mask
    pages = [share1[start : start + PAGE] for start in range(0, task.samples, PAGE)]
    return seed.key, b"".join(pack(page.reshape(-1), ring.width).tobytes() for page in pages)


def page_bytes(role: int, task: Task) -> int:
    """Bytes of a whole page of a half; S0's half is a single one."""
    return SEED_BYTES if role == 0 else _page_size(task, PAGE)


def pages_of(role: int, task: Task, block: Block) -> range:
    """The pages of a half that hold a block."""
    return range(1) if role == 0 else range(block.start // PAGE, -(-block.stop // PAGE))


def index_shares(role: int, ballots: Sequence[bytes], task: Task, block: Block, *, cut: bool = False) -> Array:
    """One server's shares of the class indices of a block: uint[K, Q].

    `cut`: of every half only the pages that hold the block are given (`pages_of`), so that nobody needs to have all
    of all ballots in memory.
    """
    _check(role, ballots, task, block if cut else None)
    if role == 0:
        return np.stack([_share0(key, task, block.start, block.stop)[:, 0] for key in ballots])
    return _share1(ballots, task, block, cut)[..., 0]


def counts_share(role: int, ballots: Sequence[bytes], task: Task, block: Block) -> Array:
    """One server's share of the counts of a block from one-hot ballots: uint[N, Q] (Alg. 1 line 5)."""
    _check(role, ballots, task)
    ring = Ring(_width(task))
    total = np.zeros((block.samples, task.classes), ring.dtype)
    for ballot in ballots:
        if role == 0:
            total += _share0(ballot, task, block.start, block.stop)
        else:
            total += _share1([ballot], task, block)[0]
    counts: Array = np.ascontiguousarray(total.T) & ring.mask
    return counts


def _width(task: Task) -> int:
    return task.index_width if task.votes == "index" else task.widths.counts


def _entries(task: Task) -> int:
    return 1 if task.votes == "index" else task.classes


def _page_size(task: Task, samples: int) -> int:
    return packed_size(samples * _entries(task), _width(task))


def _check(role: int, ballots: Sequence[bytes], task: Task, cut: Block | None = None) -> None:
    if len(ballots) != task.teachers:
        raise ShareError(
            f"There are {len(ballots)} ballots for a task of {task.teachers} teachers.",
            "Make the task for the teachers that took part: its rings hold no more votes.",
        )
    size = ballot_sizes(task)[role]
    if cut is not None:
        pages, page = pages_of(role, task, cut), page_bytes(role, task)
        size = min(size, pages.stop * page) - pages.start * page
    for position, ballot in enumerate(ballots):
        if len(ballot) != size:
            raise ShareError(
                f"Ballot {position} for S{role} has {len(ballot)} bytes, not {size}.",
                "Ask that teacher to submit again; a truncated share cannot be counted.",
            )


def _share0(key: bytes, task: Task, start: int, stop: int) -> Array:
    """uint[stop - start, entries], expanded from the seed."""
    ring = Ring(_width(task))
    step = _entries(task) * ring.dtype.itemsize
    stream = expand(Seed(key), _LABEL, (stop - start) * step, offset=start * step)
    words = np.ascontiguousarray(stream).view(ring.dtype).reshape(stop - start, -1)
    return ring.reduce(words)


def _share1(ballots: Sequence[bytes], task: Task, block: Block, cut: bool = False) -> Array:
    """uint[K, Q, entries], unpacked from the pages that hold the block."""
    width, entries, whole = _width(task), _entries(task), _page_size(task, PAGE)
    pages = pages_of(1, task, block)
    missing = pages.start * whole if cut else 0
    parts = []
    for page in pages:
        samples = min(PAGE, task.samples - page * PAGE)
        start = page * whole - missing
        where = slice(start, start + _page_size(task, samples))
        packed = np.stack([np.frombuffer(ballot[where], np.uint8) for ballot in ballots])
        values = unpack(packed, width, samples * entries).reshape(len(ballots), samples, entries)
        first, last = block.start - page * PAGE, block.stop - page * PAGE
        parts.append(values[:, max(0, first) : last])
    return np.concatenate(parts, axis=1)
