"""What a server receives tells it nothing about the votes, before them or with them.

The checks are those of `viewing`; each planted leak keeps every answer right and makes the same function fail.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from sedml.lab.semi_honest.lookup import Lookup, _whole
from sedml.lab.semi_honest.two_noise_task import Task
from support.made_viewing import MadeScene, assert_nothing_leaks, watch_made
from support.tiers import thorough
from support.viewing import (
    SAMPLES,
    TEACHERS,
    TOLD,
    LeakError,
    assert_uncorrelated,
    assert_uniform,
    scattered,
    unanimous_first,
)

# Eight samples pass, four in each half, and digits have 6, 4 or 2 bits, so that no message has padding bits.
CLASSES, SIGMAS = 6, (8.0, 16.0)
RUNS = 52
FEW = 12  # enough to see a value without its mask


TASK = Task(CLASSES, SAMPLES, TEACHERS, 3, *SIGMAS, nonce="the same in every run")
VOTES = {"unanimous": unanimous_first, "scattered": partial(scattered, CLASSES)}


@pytest.mark.parametrize(
    ("votes", "role"),
    [pytest.param("unanimous", 0, marks=thorough), ("scattered", 0), pytest.param("scattered", 1, marks=thorough)],
)
def test_what_a_server_receives_and_learns_is_uniform(votes, role):
    assert_nothing_leaks(MadeScene(TASK, VOTES[votes]()), role, RUNS)


def test_steps_and_sizes_are_the_same_for_any_votes():
    seen = []
    for votes in VOTES.values():
        run = MadeScene(TASK, votes()).run(1, 2)
        assert run.shares[0].consensus.sum() == SAMPLES // 2
        seen.append([(tap.steps, [part.size for part in tap.received]) for tap in (*run.offline, *run.taps)])
    assert seen[0] == seen[1]


def test_what_is_made_before_the_votes_does_not_depend_on_them():
    runs = [MadeScene(TASK, votes()).run(1, 2) for votes in VOTES.values()]
    for role in (0, 1):
        for one, other in zip(*(run.offline[role].received for run in runs), strict=True):
            assert (one == other).all()


def test_the_consensus_bit_is_the_only_value_that_stays_the_same():
    received, opened = watch_made(MadeScene(TASK, scattered(CLASSES)), 0, FEW)
    constant = [name.split(" ", 1)[1] for name, bits in received.items() if (bits == bits[0]).all()]
    assert constant == [TOLD]
    assert not any((bits == bits[0]).all() for bits in opened.values())


# Leaks, at both servers: answers stay right, and what hides them is gone.


def spec_of(pieces) -> Lookup:
    own = pieces["own"]
    return Lookup(own.shape[1], 2 * own.shape[2], pieces["d"].shape[0], own.shape[0])


def own_bits(pieces) -> np.ndarray:
    """What the sender's own bits add to its tables."""
    spec = spec_of(pieces)
    parts = [_whole(spec, entry) * own.astype(spec.word) for entry, own in enumerate(pieces["own"])]
    return np.bitwise_xor.reduce(parts)


def unmasked(name: str):
    """Entries of a table that their receiver finds in the clear."""

    def plant(_role, pieces):
        pieces[name]["z"] ^= own_bits(pieces[name])
        pieces[name]["own"][:] = 0

    return {"plant": plant}


def without_rho(level: int):
    """e itself is opened, so that both servers know who won."""

    def plant(_role, pieces):
        for key in ("bit", "rho", "rho_r", "rho_u"):
            pieces[f"label/{level}/rho"][key][:] = 0

    return {"plant": plant}


def without_difference_mask(level: int, mask: str):
    """The difference of two values, or of two indices, is opened."""

    def plant(_role, pieces):
        for key in (mask, f"rho_{mask}"):
            pieces[f"label/{level}/rho"][key][:] = 0

    return {"plant": plant}


def without_pads(name: str):
    """A table as it is, but for the one bit that hides the entry."""

    def plant(_role, pieces):
        pieces[name]["z"][:] = own_bits(pieces[name])
        pieces[name]["d"][:] = 0
        pieces[name]["keys"][:] = 0

    return {"plant": plant}


def with_known_pads(name: str):
    """The sum of pads that everybody knows says which of the bits differ."""

    def plant(_role, pieces):
        c, both = pieces[name]["c"], pieces[name]["both"]
        both[:] = 0
        both[..., 0] = (np.uint64(1) << np.arange(len(both), dtype=np.uint64))[:, np.newaxis]
        pieces[name]["zero"][:] = 0
        pieces[name]["key"][:] = np.bitwise_xor.reduce(both * c[..., np.newaxis].astype(np.uint64), axis=0)

    return {"plant": plant}


def without_triple(name: str):
    """Both factors of an AND are opened."""

    def plant(_role, pieces):
        for key in "abc":
            pieces[name][key][:] = 0

    return {"plant": plant}


LEAKS = {
    "entry of the threshold": (unmasked("threshold/digit0"), "threshold/answer"),
    "entry of the first level": (unmasked("label/0/digit0"), "found/2"),
    "entry of the second level": (unmasked("label/1/digit0"), "found/4"),
    "rho": (without_rho(0), "label/0/flip"),
    "r": (without_difference_mask(0, "r"), "label/0/ask"),
    "r of the second level": (without_difference_mask(1, "r"), "label/1/ask/0"),
    "u": (without_difference_mask(1, "u"), "label/1/ask/11"),
    "pads of the equality test": (with_known_pads("threshold/all"), "threshold/all/sum"),
    "pads of the threshold": (without_pads("threshold/digit0"), "threshold/answer"),
    "triple": (without_triple("threshold/and0"), "threshold/and0"),
}


@thorough
@pytest.mark.parametrize(("leak", "role"), [(leak, number % 2) for number, leak in enumerate(LEAKS)])
def test_a_missing_mask_is_found(leak, role):
    planted, where = LEAKS[leak]
    scene = MadeScene(TASK, scattered(CLASSES), **planted)
    with pytest.raises(LeakError, match=f" {where}: .* not random"):
        assert_nothing_leaks(scene, role, FEW)


@thorough
def test_pads_used_twice_are_found_though_each_message_alone_looks_random():
    def plant(_role, pieces):
        for key, piece in pieces["threshold/digit0"].items():
            rows = piece if key in ("c", "keys", "z") else piece.swapaxes(0, 1)
            rows[1] = rows[0]

    # Shares of counts are the same in every run, so what is asked under one mask differs by the same in every run.
    received, _ = watch_made(MadeScene(TASK, scattered(CLASSES), plant=plant), 0, RUNS)
    asked = {name: bits for name, bits in received.items() if "threshold/ask" in name}
    assert_uniform(asked)
    with pytest.raises(LeakError, match="pairs"):
        assert_uncorrelated(asked)


@thorough
def test_as_few_runs_without_a_leak_are_passed():
    assert_nothing_leaks(MadeScene(TASK, scattered(CLASSES)), 0, FEW)
