"""A server that shifts its own share of the counts: without the fold a vote is read, with it the noise hides what it hid.

Counting is adding, so a server cannot read or multiply a vote. But it may put in what it likes as its own share, and numbers
live on a circle, where one vote turns the largest into the smallest. The circuit folds the circle before noise is added: then
a vote moves a count by one at most, wherever it was shifted to. The planted fault is the circuit without the fold.

Exact, for few teachers: the honest server's noise by its table, every shift, every noise that the liar may put in.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sedml.mpc.garbling.arithmetic import add, add_whole, below, highest
from sedml.mpc.garbling.circuit import Builder, Circuit
from sedml.privacy.noise import noise_table, server_sigma
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.task import Task
from support.harness import fixed_seed
from support.labelling import Case, edges_of_noise, fold, quick, quick_patches, run, split_shares

TEACHERS, SIGMA = 3, 4.0
TASK = Task(2, 64, TEACHERS, 2, SIGMA, nonce="the same in every run")
WIDTH = TASK.widths.counts


def law() -> tuple[np.ndarray, np.ndarray]:
    """The honest server's noise: values, and their probabilities."""
    table = noise_table(server_sigma(SIGMA))
    ends = table.high.astype(object) * 2**64 + table.low.astype(object)
    cumulative = np.append(ends / 2**128, [1.0] * (2 * table.bound + 1 - len(ends))).astype(float)
    return np.arange(-table.bound, table.bound + 1), np.diff(cumulative, prepend=0.0)


VALUES, CHANCES = law()


def outcomes(counts: tuple[int, int], shift: tuple[int, int], noise: tuple[int, int], folded: bool) -> np.ndarray:
    """The exact chances of no label, of class 0 and of class 1, over the honest server's noise."""
    total = (np.array(counts) + shift) % (1 << WIDTH)
    seen = fold(total, WIDTH) if folded else total
    one, other = seen[0] + noise[0] + VALUES[:, np.newaxis], seen[1] + noise[1] + VALUES
    chance = CHANCES[:, np.newaxis] * CHANCES
    there = np.maximum(one, other) >= TASK.threshold
    return np.array([chance[~there].sum(), chance[there & (one >= other)].sum(), chance[there & (one < other)].sum()])


def worst(folded: bool) -> float:
    """The largest distance between the outcomes with and without one vote, or with another one, over all lies."""
    low, high = edges_of_noise(TASK)
    noises = [(0, 0), (low, high), (high, low), (0, low), (low, 0)]
    found = 0.0
    for shift in product(range(1 << WIDTH), repeat=2):
        for others in [(a, b) for a in range(TEACHERS) for b in range(TEACHERS - a)]:
            for noise in noises:
                laws = [
                    outcomes((others[0] + mine[0], others[1] + mine[1]), shift, noise, folded)
                    for mine in ((0, 0), (1, 0), (0, 1))
                ]
                found = max(found, *(abs(x - y).sum() / 2 for x in laws for y in laws))
    return found


def moved_by_one() -> float:
    """What a number and the next one differ by under the honest server's noise alone."""
    wide = np.pad(CHANCES, 1)
    return float(abs(np.diff(wide)).sum() / 2)


def test_the_law_is_that_of_the_noise():
    assert CHANCES.sum() == pytest.approx(1)
    assert (CHANCES * VALUES**2).sum() == pytest.approx(SIGMA**2 / 2, rel=1e-3)


def test_with_the_fold_no_shift_tells_more_than_two_counts_that_move_by_one():
    assert worst(folded=True) <= 2 * moved_by_one()
    assert 2 * moved_by_one() < 0.3


def test_without_it_some_shift_confirms_a_vote():
    assert worst(folded=False) > 0.6


def without_the_fold(classes: int, counts: int, noise: int) -> Circuit:
    """`circuit_of` as it would be on the circle."""
    value = value_without(counts, noise)
    build = Builder(2 * classes * (counts + noise) + value)
    parts = np.split(build.inputs, np.cumsum([counts * classes, counts * classes, noise * classes, noise * classes]))
    garbler, evaluator, one, two = (part.reshape(-1, classes) for part in parts[:4])
    noisy = add_whole(build, add_whole(build, one, two), add(build, garbler, evaluator))
    index, most = highest(build, noisy[:value])
    there = build.not_(below(build, most[:, np.newaxis], parts[4][:, np.newaxis]))
    return build.build(np.concatenate([there, build.and_(np.broadcast_to(there, index.shape), index)]))


def value_without(counts: int, noise: int) -> int:
    return (2 * ((1 << noise) - 1) + (1 << counts)).bit_length()


def attacked(liar: int, voted: bool, threshold: int) -> np.ndarray:
    """The labels of 64 samples, all with the same counts, of which the liar has shifted the first to the ring's edge.

    It knows all votes but one, and puts in the same noise everywhere.
    """
    task = Task(2, 64, 60, threshold, SIGMA, nonce="the same in every run")
    counts = np.array([[7 + voted], [20]]).repeat(64, axis=1)
    size = 1 << task.widths.counts
    shares = [share.copy() for share in split_shares(task, counts)]
    shift = np.array([[size - 1 - 7], [-20]])
    shares[liar] = (shares[liar] + shift) % size
    noises = [draw_noise(task, 64, fixed_seed(5)), draw_noise(task, 64, fixed_seed(6))]
    noises[liar] = np.zeros((2, 64), np.int64)
    given = Case(task, tuple(shares), tuple(noises))
    return run(given, ends=quick(), number=1, patches=quick_patches(1), liar=liar).labels


@pytest.mark.parametrize("liar", [0, 1])
def test_the_attack_succeeds_on_the_planted_circuit(liar, monkeypatch):
    """One vote turns 127 into 0: a label of every sample, or of none."""
    monkeypatch.setattr(task_module, "circuit_of", without_the_fold)
    monkeypatch.setattr(task_module, "value_bits", value_without)
    assert (attacked(liar, voted=False, threshold=20) == 0).all()
    assert (attacked(liar, voted=True, threshold=20) != 0).all()


@pytest.mark.parametrize("liar", [0, 1])
def test_it_fails_on_ours(liar):
    """The two ends of the ring are folded to the same number: with the vote and without it, the same labels."""
    for threshold in (1, 3, 20):
        with_it, without = (attacked(liar, voted, threshold) for voted in (True, False))
        assert (with_it == without).all()
    assert len(set(attacked(liar, True, 3))) == 3  # for they are not all alike
