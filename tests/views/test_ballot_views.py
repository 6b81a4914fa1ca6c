"""What a server receives of an honest teacher, its half of a ballot, is distributed alike whatever the teacher votes.

In every run the votes are the same and the teacher's secret differs. A number of F is looked at by its highest and its
lowest bits, which are fair coins as nearly as can be. A server also knows what it would be told if it knew the votes.
So what hides them, the masks of the other server, is computed as one who guesses the votes would, and must be uniform.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sedml.mpc.prg import SEED_BYTES
from sedml.protocol.ballots import BallotShape, cast, casting, page
from sedml.protocol.ballots.field import DEGREE, P
from sedml.protocol.ballots.page import digest, masks_of, votes_of
from sedml.protocol.ballots.shape import HASH_BYTES
from support.ballot_guess import other_masks
from support.harness import fixed_seed
from support.viewing import LeakError, assert_uncorrelated, assert_uniform, stack

SHAPE = BallotShape(6, 3)
VOTES = {"unanimous": [0] * 6, "scattered": [2, -1, 0, 1, 1, 2], "abstaining": [-1] * 6}
RUNS, FEW = 60, 25


def bits_of(words: np.ndarray) -> np.ndarray:
    """Six high and six low bits of every number of F: bool[12 n]."""
    flat = np.ascontiguousarray(words).reshape(-1).astype(np.uint64)
    parts = np.stack([flat * np.uint64(64) // np.uint64(P), flat % np.uint64(64)]).astype(np.uint8)
    return np.unpackbits(parts[..., np.newaxis], axis=-1)[..., 2:].reshape(-1).astype(np.bool_)


def view(role: int, votes: list[int], key: int) -> Iterator[tuple[str, np.ndarray]]:
    """All that is in one half, and what the other server's masks are to one who guesses the votes."""
    ballot = cast(np.array([votes]), SHAPE, b"the same job", "teacher", fixed_seed(key))
    half, shape, start = np.frombuffer(ballot.halves[role], np.uint8), SHAPE.page(0), 0
    sizes = {"seed": SEED_BYTES, "commitment": HASH_BYTES}
    sizes |= {"proof": HASH_BYTES} if role == 0 else {}
    sizes |= {"told": 4 * DEGREE * shape.wires}
    sizes |= {"quotient": 4 * DEGREE * shape.quotient, "votes": 4 * shape.entries} if role == 1 else {}
    for name, size in sizes.items():
        part = half[start : start + size]
        yield name, part if name in ("seed", "commitment", "proof") else bits_of(part.view("<u4"))
        start += size
    assert start == half.size
    rows = (np.array(votes)[:, np.newaxis] == np.arange(3)).astype(np.uint32).reshape(-1)
    yield (
        "masks",
        bits_of(
            other_masks(
                role, ballot.halves[role], shape, casting.page_context(SHAPE, b"the same job", "teacher", 0), rows
            )
        ),
    )


def watched(role: int, votes: list[int], runs: int) -> dict[str, np.ndarray]:
    return stack([list(view(role, votes, 1000 + run)) for run in range(runs)])


@pytest.mark.parametrize("votes", VOTES.values(), ids=VOTES.keys())
@pytest.mark.parametrize("role", [0, 1])
def test_a_half_is_uniform_whatever_the_votes(role, votes):
    seen = watched(role, votes, RUNS)
    assert_uniform(seen)
    assert_uncorrelated(seen)


def zeros(draw):
    return lambda *which: np.zeros_like(draw(*which))


def first_mask_missing(secret, challenge):
    masks = masks_of(secret, challenge)
    masks[0] = 0
    return masks


LEAKS = {
    "a share of S0 that hides nothing": (1, "votes_of", zeros(votes_of), "votes"),
    "no masks at S0": (1, "masks_of", zeros(masks_of), "masks"),
    "no masks at S1": (0, "masks_of", zeros(masks_of), "masks"),
    "one mask missing": (0, "masks_of", first_mask_missing, "masks"),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_missing_mask_is_found(leak, monkeypatch):
    role, name, planted, where = LEAKS[leak]
    for module in (casting, page):
        monkeypatch.setattr(module, name, planted)
    with pytest.raises(LeakError, match=f" {where}: .* not random"):
        assert_uniform(watched(role, VOTES["scattered"], FEW))


def test_a_seed_that_does_not_differ_is_found(monkeypatch):
    monkeypatch.setattr(
        casting, "digest", lambda purpose, *parts: bytes(32) if purpose == "secret" else digest(purpose, *parts)
    )
    with pytest.raises(LeakError, match=r" seed: .* not random"):
        assert_uniform(watched(0, VOTES["scattered"], FEW))


def test_as_few_runs_without_a_leak_are_passed():
    assert_uniform(watched(0, VOTES["scattered"], FEW))
    assert_uniform(watched(1, VOTES["scattered"], FEW))
