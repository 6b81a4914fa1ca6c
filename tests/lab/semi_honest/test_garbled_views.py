"""What a server receives of garbled circuits tells it nothing about the votes, and nothing of the other's Delta.

The checks are those of `viewing` and `garbled_viewing`; each planted leak makes the same function fail, and all but
the last two keep every answer right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from sedml.lab.semi_honest import garbled, half_gates
from sedml.lab.semi_honest.garbled import GarbledHalf
from sedml.lab.semi_honest.semi_honest_block import recipes
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.mpc.prg import Seed
from support.garbled_viewing import GarbledScene, assert_apart
from support.made import extensions, trusted_trees
from support.made_viewing import assert_nothing_leaks, watch_made
from support.semi_honest import run_made
from support.tiers import thorough
from support.viewing import (
    SAMPLES,
    TEACHERS,
    TOLD_BY_EVALUATOR,
    LeakError,
    assert_uncorrelated,
    assert_uniform,
    scattered,
    unanimous_first,
)

CLASSES, SIGMAS = 6, (8.0, 16.0)
RUNS = 52
FEW = 12


@pytest.fixture(autouse=True)
def in_numpy(monkeypatch):
    """Whose labels can be watched; the kernel's tables and labels are the same (tests/mpc/test_kernel.py)."""
    monkeypatch.setattr(half_gates, "kernel", lambda: None)


TASK = Task(CLASSES, SAMPLES, TEACHERS, 3, *SIGMAS, "garbled", nonce="the same in every run")


def scene(**planted) -> GarbledScene:
    return GarbledScene(TASK, scattered(CLASSES), **planted)


VOTES = {"unanimous": unanimous_first, "scattered": partial(scattered, CLASSES)}


@pytest.mark.parametrize(("votes", "role"), [pytest.param("unanimous", 0, marks=thorough), ("scattered", 1)])
def test_what_a_server_receives_and_learns_is_uniform(votes, role):
    assert_nothing_leaks(GarbledScene(TASK, VOTES[votes]()), role, RUNS)


def test_no_two_blocks_that_a_server_sees_are_equal_or_delta_apart():
    run = scene().run(1, 2)
    assert len(run.deltas) == 2
    for role in (0, 1):
        assert_apart(scene().blocks(run, role), run.deltas)


def test_steps_and_sizes_are_the_same_for_any_votes_and_any_consensus():
    nobody = np.full((TEACHERS, SAMPLES), -1)
    seen = []
    for votes in (*(make() for make in VOTES.values()), nobody):
        run = GarbledScene(TASK, votes).run(1, 2)
        seen.append([(tap.steps, [part.size for part in tap.received]) for tap in (*run.offline, *run.taps)])
    assert seen[0] == seen[1] == seen[2]


def test_what_is_made_before_the_votes_does_not_depend_on_them():
    runs = [GarbledScene(TASK, votes()).run(1, 2) for votes in VOTES.values()]
    for role in (0, 1):
        for one, other in zip(*(run.offline[role].received for run in runs), strict=True):
            assert (one == other).all()


def test_the_consensus_bit_is_the_only_value_that_stays_the_same():
    received, opened = watch_made(scene(), 0, FEW)
    constant = [name.split(" ", 1)[1] for name, bits in received.items() if (bits == bits[0]).all()]
    assert constant == [TOLD_BY_EVALUATOR]
    assert not any((bits == bits[0]).all() for bits in opened.values())


# Leaks, at both servers.


@dataclass(frozen=True)
class WithoutMask(GarbledHalf):
    """r = 0: the garbler is told what r was, and takes the label of that for the label of 0."""

    def prepare(self, role, ots, coins):
        count = self.transfers
        [told] = yield "make", [np.packbits(ots.choices[:count], bitorder="little")]
        theirs = np.unpackbits(told, count=count, bitorder="little").astype(np.uint64)[:, np.newaxis]
        altered = replace(ots, choices=np.zeros_like(ots.choices), sent=ots.sent ^ (theirs * ots.delta))
        return (yield from super().prepare(role, altered, coins))


@dataclass(frozen=True)
class WithOneMaskForTwo(GarbledHalf):
    """The second sample of each half has the r of the first; the garbler is told by how much that differs."""

    def prepare(self, role, ots, coins):
        mine = ots.choices.reshape(self.bits, self.half).copy()
        [told] = yield "make", [np.packbits(mine[:, 0] ^ mine[:, 1], bitorder="little")]
        mine[:, 1] = mine[:, 0]
        turned = np.zeros((self.bits, self.half, 1), np.uint64)
        turned[:, 1, 0] = np.unpackbits(told, count=self.bits, bitorder="little")
        altered = replace(ots, choices=mine.reshape(-1), sent=ots.sent ^ (turned.reshape(-1, 1) * ots.delta))
        return (yield from super().prepare(role, altered, coins))


def altered(kind):
    def alter(needs):
        spec = needs["garbled"]
        terms = spec.classes, spec.samples, spec.threshold_width, spec.label_width
        return {**needs, "garbled": kind(*terms)}

    return alter


@thorough
def test_a_missing_mask_is_found():
    with pytest.raises(LeakError, match=r" garbled/masked: .* not random"):
        assert_nothing_leaks(scene(alter=altered(WithoutMask)), 0, FEW)


@thorough
def test_a_mask_used_twice_is_found_though_each_message_alone_looks_random():
    received, _ = watch_made(scene(alter=altered(WithOneMaskForTwo)), 1, RUNS)
    masked = {name: bits for name, bits in received.items() if "garbled/masked" in name}
    assert_uniform(masked)
    # Shares of counts are the same in every run, so the lowest bits under one mask differ by the same in every run.
    with pytest.raises(LeakError, match="pairs"):
        assert_uncorrelated(masked)


def test_labels_of_two_wires_that_are_the_same_are_found(monkeypatch):
    """Where their bits differ, the label of the wrong bit of a wire is there as well."""
    draw = garbled.expand

    def one_label_for_two(seed, label, size):
        rows = draw(seed, label, size).reshape(CLASSES, -1) if label == "labels" else draw(seed, label, size)
        if label == "labels":
            rows[1] = rows[0]
        return rows.reshape(-1)

    monkeypatch.setattr(garbled, "expand", one_label_for_two)
    run = scene().run(1, 2)
    with pytest.raises(LeakError, match=r"twice|Delta"):
        assert_apart(scene().blocks(run, 0), run.deltas)


def test_a_tweak_that_is_the_same_for_all_gates_is_found(monkeypatch):
    begin = half_gates._Side.begin

    def forgetful(side, inputs, tweak):
        begin(side, inputs, tweak)
        side._tweaks[:] = 0

    monkeypatch.setattr(half_gates._Side, "begin", forgetful)
    run = scene().run(1, 2)
    with pytest.raises(LeakError, match=r"twice|Delta"):
        assert_apart(scene().blocks(run, 1), run.deltas)


def two_blocks() -> tuple[np.ndarray, np.ndarray]:
    """S0's labels for 0 and what S1 received of its tables, for two blocks under one Delta; and that Delta."""
    task, ends, rows = TASK, extensions(b"two", trusted_trees(1, 2)), []
    for number in (0, 1):
        run = run_made(recipes(task, SAMPLES), lambda party: party.take("garbled"), block=number, ends=ends)
        rows += [run.shares[0]["own"].reshape(-1, 2), run.shares[1]["tables"].reshape(-1, 2)]
    return np.concatenate(rows), run.shares[0]["delta"]


def test_two_blocks_under_one_delta_have_nothing_in_common():
    rows, delta = two_blocks()
    assert_apart(rows, [delta])


def test_labels_used_for_two_blocks_under_one_delta_are_found(monkeypatch):
    child = Seed.child
    monkeypatch.setattr(Seed, "child", lambda seed, name: child(seed, "make/0" if name.startswith("make/") else name))
    rows, delta = two_blocks()
    with pytest.raises(LeakError, match="twice"):
        assert_apart(rows, [delta])


def test_a_label_of_the_wrong_bit_gives_wrong_answers():
    sign = slice((TASK.widths.threshold - 1) * CLASSES, TASK.widths.threshold * CLASSES)

    def plant(_role, pieces):
        pieces["garbled"]["own"][sign] ^= pieces["garbled"]["delta"]

    with pytest.raises(AssertionError):
        scene(plant=plant).run(1, 2)


def test_shares_of_samples_without_consensus_do_not_leave():
    run = scene().run(1, 2)
    for share in run.shares:
        assert 0 < share.consensus.sum() < SAMPLES
        assert share.labels.size == share.consensus.sum()
