"""A server that takes a threshold of its own, or flips comparisons, to read which class leads: it learns nothing.

Where shares are not authenticated, S1 leaves out its noise, takes another threshold and flips its share of one class's
comparison: then the bit that is opened, which should say whether any class has enough votes, says whether this one
class has. Here no such bit is opened to a server, another threshold or a flipped gate is caught, and what a server sees
of many samples side by side tells those where a class leads from the others no better than a coin.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sedml.mpc.authenticated.gates import garble
from sedml.protocol import preparation
from sedml.protocol.block import _all_wires, _threshold_bits
from sedml.protocol.block_shape import Shape
from sedml.protocol.drawn_noise import draw_noise
from sedml.protocol.task import Block, Task
from sedml.protocol.votes import histogram
from support.harness import fixed_seed, numbers
from support.labelling import Case, Outcome, edges_of_noise, quick, quick_patches, run, split_shares

TEACHERS, SAMPLES, CLASSES, WANTED = 20, 400, 4, 2
TASK = Task(CLASSES, SAMPLES, TEACHERS, 12, 3.0, nonce="the same in every run")
SHAPE = Shape(TASK, Block(0, 0, SAMPLES))
liars = pytest.mark.parametrize("liar", [0, 1], ids=["S0 lies", "S1 lies"])


def voted() -> np.ndarray:
    rng = numbers(5)
    truth = rng.integers(0, CLASSES, SAMPLES)
    agree = rng.random((TEACHERS, SAMPLES)) < 0.8
    return np.where(agree, truth, rng.integers(0, CLASSES, (TEACHERS, SAMPLES)))


COUNTS = histogram(voted(), CLASSES)
LEADS = COUNTS.argmax(axis=0) == WANTED


def attack(liar: int, shift: np.ndarray | int = 0, noise: int = 0, **options) -> Outcome:
    """The liar puts in shares that it has shifted, and the same noise everywhere."""
    shares = [share.copy() for share in split_shares(TASK, COUNTS)]
    shares[liar] = (shares[liar] + shift) % (1 << TASK.widths.counts)
    noises = [draw_noise(TASK, SAMPLES, fixed_seed(5)), draw_noise(TASK, SAMPLES, fixed_seed(6))]
    noises[liar] = np.full((CLASSES, SAMPLES), noise)
    patches = quick_patches(1)
    for role, more in options.pop("patches", {}).items():
        patches[role] = [*patches[role], *more]
    given = Case(TASK, tuple(shares), tuple(noises))
    return run(given, ends=quick(), number=1, keys=(1, 2), patches=patches, liar=liar, **options)


def seen_by(liar: int, outcome: Outcome) -> np.ndarray:
    """One row for each bit that the liar knows of a sample: what came, M of all wires, P; bool[bits, samples]."""
    half, halves = SHAPE.half, []
    width = SHAPE.planes[0]

    def bits(role: int, step: str, count: int) -> np.ndarray:
        array = outcome.answered.sent(role, step)[0]
        return np.unpackbits(array, count=count * half, bitorder="little").reshape(count, half)

    public = outcome.shares[liar].public.reshape(2, -1, half)
    for garbler in (0, 1):
        masked = bits(1 - garbler, "block/masked", width)
        values = bits(garbler, "block/inputs", width)
        ands = bits(1 - garbler, "block/evaluated", SHAPE.plan.ands)
        wires = _all_wires(SHAPE, values, _threshold_bits(SHAPE), ands)
        halves.append(np.concatenate([masked, wires, public[garbler]]))
    return np.concatenate(halves, axis=1)[:, :SAMPLES].astype(np.bool_)


@liars
@pytest.mark.parametrize("how", ["honestly", "its class alone", "no noise"])
def test_nothing_that_it_sees_tells_where_a_class_leads(how, liar):
    """Of all bits that it knows of a sample none agrees with the answer more often than chance explains."""
    shift = np.zeros((CLASSES, 1), int)
    if how == "its class alone":
        shift[:] = 1 << (TASK.widths.counts - 1)
        shift[WANTED] = 0
    low, _ = edges_of_noise(TASK)
    outcome = attack(liar, shift, low if how == "its class alone" else 0)
    view = seen_by(liar, outcome)
    agree = (view == LEADS).sum(axis=1)
    constant = view.all(axis=1) | ~view.any(axis=1)
    expected = LEADS.mean() * view.mean(axis=1) + (1 - LEADS.mean()) * (1 - view.mean(axis=1))
    spread = np.sqrt(SAMPLES * np.maximum(expected * (1 - expected), 1e-9))
    score = np.abs(agree - SAMPLES * expected) / spread
    assert (~constant).sum() > 300
    assert 2 * stats.norm.sf(score[~constant].max()) * view.shape[0] > 1e-6


@liars
def test_the_requester_sees_where_it_leads_so_the_question_has_an_answer(liar):
    """The labels do tell, with the noise that is charged for: the attack is on what a server sees."""
    labels = attack(liar).labels
    assert ((labels == WANTED) == LEADS).mean() > 0.8


def flipped(which: slice):
    """The comparisons of the tables, the other way round."""

    def garbled(plan, inputs, a, b, out, delta, number):
        out = out.copy()
        out[which] ^= delta
        return garble(plan, inputs, a, b, out, delta, number)

    return garbled


@liars
@pytest.mark.parametrize("which", [slice(-1, None), slice(-3, None), slice(-40, -39)])
def test_a_comparison_that_is_flipped_is_caught(which, liar):
    outcome = attack(liar, patches={liar: [(preparation, "garble", flipped(which))]})
    assert outcome.by == f"S{1 - liar}"
    assert not outcome.shares


@liars
def test_neither_server_ends_up_with_a_label_or_a_consensus_bit(liar):
    """Its share of the result is the same number of bits, half of them set, for all answers and for none."""
    for shift in (0, -COUNTS):  # counts as they are, and none at all
        outcome = attack(liar, shift)
        share = outcome.shares[liar]
        for bits in (share.public, share.own):
            assert stats.binomtest(int(bits.sum()), bits.size, 0.5).pvalue > 1e-6
