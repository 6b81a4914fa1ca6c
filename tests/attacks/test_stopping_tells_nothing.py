"""Whether the honest server stops does not depend on what it puts in: a lie that may go unnoticed asks no question.

A cheat sees whether the other goes on. For lies whose detection is a matter of chance, the chance is the same for very
different shares and noise of the honest server, and comes from randomness that is fresh for every attempt.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from sedml.protocol.block import _all_wires, _threshold_bits
from sedml.protocol.block_shape import Shape
from sedml.protocol.task import Block, Task
from support.harness import numbers
from support.labelling import Case, edges_of_noise, quick, quick_patches, run
from support.tiers import thorough

SIGNIFICANT = 1e-6
"""Seeds are fixed: a test that passes goes on passing."""
roles = pytest.mark.parametrize("liar", [0, 1], ids=["S0 lies", "S1 lies"])


def put_in(task: Task, kind: str, liar: int) -> Case:
    """The liar's inputs are the same; the honest server's are as different as can be."""
    shape, rng = (task.classes, task.samples), numbers(1)
    low, high = edges_of_noise(task)
    mine = rng.integers(0, 1 << task.widths.counts, shape), rng.integers(low, high, shape)
    theirs = {
        "nothing": (np.zeros(shape, int), np.zeros(shape, int)),
        "much": ((task.teachers - mine[0]) % (1 << task.widths.counts), np.full(shape, high)),
    }[kind]
    both = (mine, theirs) if liar == 0 else (theirs, mine)
    return Case(task, (both[0][0], both[1][0]), (both[0][1], both[1][1]))


def quickly(given: Case, number: int, liar: int, **options):
    # What the liar draws is the same in every run, what the honest server draws is new: as it is for every attempt.
    keys = (7, 100 + number) if liar == 0 else (100 + number, 7)
    return run(given, ends=quick(keys), number=1, keys=keys, patches=quick_patches(1, keys), liar=liar, **options)


# Samples side by side: every masked value, which is what decides whether a wrong row of a table counts


@roles
def test_masked_values_of_all_wires_are_coins_that_the_inputs_do_not_move(liar):
    """A wrong row of an AND shows just where the masked value of its operand is 1 (`test_gates`).

    Of operands whose mask has a bit of the evaluator's, these are coins of its own; of the others the garbler, who
    lies, has sent the masked value itself.
    """
    task = replace(Task(3, 600, 5, 3, 1.0, nonce="same"))
    shape = Shape(task, Block(0, 0, 600))
    found = {}
    for kind in ("nothing", "much"):
        outcome = quickly(put_in(task, kind, liar), 1, liar)
        values = np.unpackbits(
            outcome.answered.sent(liar, "block/inputs")[0], count=shape.planes[0] * 300, bitorder="little"
        )
        ands = np.unpackbits(
            outcome.answered.sent(1 - liar, "block/evaluated")[0], count=shape.ands // 2, bitorder="little"
        )
        wires = _all_wires(shape, values.reshape(-1, 300), _threshold_bits(shape), ands.reshape(-1, 300))
        plan = shape.plan
        found[kind] = np.concatenate([wires[plan.a] ^ wires[plan.a2], wires[plan.b] ^ wires[plan.b2], wires[plan.out]])
    nothing, much = (one.sum(axis=1) for one in found.values())
    fixed = (nothing % 300 == 0) & (nothing == much)  # noise and T: 0 or 1 for everybody, whatever goes in
    coins = np.minimum(nothing, 300 - nothing), np.minimum(much, 300 - much)
    tests = 3 * shape.plan.ands
    for one in coins:
        assert (tests * 2 * stats.binom.cdf(one[~fixed], 300, 0.5) > SIGNIFICANT).all()
    assert (found["nothing"][fixed] == found["much"][fixed]).all()
    assert (~fixed).sum() > 2 * shape.plan.ands


# Attempts: how often the honest server stops


def one_row(row: int, which: int):
    """One row of one AND of one sample."""

    def lie(mine, _theirs):
        mine[0][row, which, 0] ^= np.uint64(1)

    return lie


def one_colour(which: int):
    def lie(mine, _theirs):
        mine[1][which // 8] ^= np.uint8(1 << which % 8)

    return lie


def one_g(mine, _theirs):
    mine[0][11] ^= np.uint64(1 << 33)


TINY = Task(2, 2, 2, 1, 0.3, nonce="same")
LIES = {
    "a row of the last AND": ("block/tables", one_row(0, -1), 0.5),
    "the other row of the last AND": ("block/tables", one_row(1, -1), 0.5),
    "a row of the first AND of the duel": ("block/tables", one_row(0, -9), 0.5),
    "one leaky AND": ("leaky/g", one_g, 0.5),
    "a colour": ("block/tables", one_colour(5), 1.0),
}


def stops(kind: str, liar: int, name: str, tries: int) -> int:
    step, lie, _ = LIES[name]
    given = put_in(TINY, kind, liar)
    stopped = 0
    for number in range(tries):
        outcome = quickly(given, number, liar, lies={step: lie})
        assert outcome.by in ("", f"S{1 - liar}")
        if not outcome.caught:
            assert (outcome.labels == given.labels).all()
        stopped += outcome.caught
    return stopped


def assert_as_often(liar: int, name: str, tries: int) -> None:
    chance, found = LIES[name][2], [stops(kind, liar, name, tries) for kind in ("nothing", "much")]
    if chance == 1.0:
        assert found == [tries, tries]
        return
    for one in found:
        assert stats.binomtest(one, tries, chance).pvalue > SIGNIFICANT
    assert stats.fisher_exact([[one, tries - one] for one in found]).pvalue > SIGNIFICANT


@roles
@pytest.mark.parametrize("name", LIES)
def test_the_honest_server_stops_as_often_whatever_it_puts_in(name, liar):
    assert_as_often(liar, name, 40)


@thorough
@roles
@pytest.mark.parametrize("name", LIES)
def test_the_honest_server_stops_as_often_whatever_it_puts_in_over_many_attempts(name, liar):
    assert_as_often(liar, name, 120)


@roles
def test_a_guess_in_the_preparation_is_caught_in_the_same_attempts_whatever_goes_in(liar):
    """Exactly: nothing that it depends on is an input."""
    caught = {
        kind: [quickly(put_in(TINY, kind, liar), number, liar, lies={"leaky/g": one_g}).caught for number in range(12)]
        for kind in ("nothing", "much")
    }
    assert caught["nothing"] == caught["much"]
    assert 0 < sum(caught["much"]) < 12


def test_a_check_that_looked_at_values_would_be_found():
    """The planted fault: without masks of ANDs the honest evaluator stops or not by what the values are."""

    def no_masks(choices: np.ndarray) -> None:
        shape = Shape(TINY, Block(0, 0, 2))
        if choices.size >= sum(shape.sections):
            choices[shape.sections[0] : sum(shape.sections[:2])] = 0

    step, lie, _ = LIES["a row of the last AND"]
    rates = []
    for kind in ("nothing", "much"):
        given, stopped = put_in(TINY, kind, 0), 0
        for number in range(40):
            keys = (7, 100 + number)
            plants = {1: no_masks}
            stopped += run(
                *(given,),
                ends=quick(keys, plants),
                number=1,
                keys=keys,
                patches=quick_patches(1, keys, plants),
                liar=0,
                lies={step: lie},
            ).caught
        rates.append(stopped)
    assert (
        stats.binomtest(rates[0], 40, 0.5).pvalue < SIGNIFICANT
        or stats.fisher_exact([[one, 40 - one] for one in rates]).pvalue < SIGNIFICANT
    )
