"""All that a server sees of a block, step by step, is uniform whatever the other server's shares and noise are.

So it can be simulated from its own inputs alone: the simulator plays the other server with shares and noise of zero. In
every run all that the watching server brings (its coins, its choices, its Delta, what it puts in) is the same, and so
is what the other puts in; only the other's randomness differs. Then every bit that comes, and what follows from it (the
masked values of all wires, the public part of the label share), must be a fair coin, and no two of those that depend on
votes may agree.

What a statistical test cannot see, that tables hide their other rows, rests on the hash (docs/explanation/protocol.md).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from scipy import stats

from sedml.protocol import preparation
from sedml.protocol.block import _all_wires, _threshold_bits
from sedml.protocol.block_shape import Shape
from sedml.protocol.inputs import InputLabels
from sedml.protocol.task import Block, Task
from support.labelling import Case, Outcome, Plant, edges_of_noise, quick, quick_patches, run, split_shares
from support.tiers import ROLES, thorough
from support.viewing import SIGNIFICANT, LeakError, assert_uncorrelated, assert_uniform, stack

TASK = Task(2, 4, 2, 2, 0.3, nonce="the same in every run")
SHAPE = Shape(TASK, Block(0, 0, 4))
RUNS, FEW = 56, 36
WITH_VOTES = ("block/masked[0]", "block/inputs[0]", "block/evaluated[0]", "wires", "public")
NUMBER = 6


def put_in(kind: str, watcher: int) -> Case:
    """The watcher always puts in the same; the other's shares and noise are zero, at their ends, or of all kinds."""
    low, high = edges_of_noise(TASK)
    size = 1 << TASK.widths.counts
    own = split_shares(TASK, np.array([[2, 0, 1, 2], [0, 2, 1, 0]]), 3)[watcher]
    theirs, noise = {
        "zero": (np.zeros((2, 4), int), np.zeros((2, 4), int)),
        "unanimous": ((np.array([[2] * 4, [0] * 4]) - own) % size, np.full((2, 4), high)),
        "split": (
            (np.array([[1, 0, 2, 0], [1, 2, 0, 0]]) - own) % size,
            np.array([[low, 0, high, -1], [1, high, low, 0]]),
        ),
    }[kind]
    pair = [None, None]
    pair[watcher], pair[1 - watcher] = own, theirs
    noises = [None, None]
    noises[watcher], noises[1 - watcher] = np.array([[0, 1, 0, -1], [1, 0, 0, 1]]), noise
    return Case(TASK, tuple(pair), tuple(noises))


def packed(array: np.ndarray, count: int) -> np.ndarray:
    return np.unpackbits(array, count=count, bitorder="little").astype(np.bool_)


def bits_of(array: np.ndarray) -> np.ndarray:
    return np.unpackbits(np.ascontiguousarray(array).reshape(-1).view(np.uint8)).astype(np.bool_)


def counts_of_bits(step: str) -> list[int | None]:
    """Bits of the arrays of a step that are packed."""
    n, shares = SHAPE.ands, SHAPE.planes[0] * SHAPE.half
    return {
        "leaky/d": [SHAPE.size * n],
        "block/products": [(SHAPE.size - 1) * n, n, n, SHAPE.outputs + 128, 2 * SHAPE.planes[1] * SHAPE.half],
        "block/tables": [None, n // 2, None, 128, None],
        "block/masked": [shares],
        "block/inputs": [shares, None, None],
        "block/evaluated": [n // 2, None],
    }.get(step, [None] * 9)


def parts_of(step: str, arrays: list[np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """The bits of every array of a step."""
    counts = counts_of_bits(step)
    return [
        (f"{step}[{i}]", bits_of(array) if counts[i] is None else packed(array, counts[i]))
        for i, array in enumerate(arrays)
    ]


def seen(outcome: Outcome, watcher: int) -> list[tuple[str, np.ndarray]]:
    """All that comes, and what the watcher makes of it."""
    other = 1 - watcher
    view = [part for step, arrays in outcome.said[other] for part in parts_of(step, arrays)]
    if outcome.answered is None or len(outcome.answered.said[0]) < 4:
        return view
    threshold = _threshold_bits(SHAPE)
    for garbler in (0, 1):
        values = packed(outcome.answered.sent(garbler, "block/inputs")[0], SHAPE.planes[0] * 2).reshape(-1, 2)
        ands = packed(outcome.answered.sent(1 - garbler, "block/evaluated")[0], SHAPE.ands // 2).reshape(-1, 2)
        wires = _all_wires(SHAPE, values.astype(np.uint8), threshold, ands.astype(np.uint8))
        if garbler == other:  # in the other half the watcher's own masks are in it, which stay the same
            view.append(("wires", wires[SHAPE.plan.out].reshape(-1).astype(np.bool_)))
    if outcome.shares:
        view.append(("public", outcome.shares[watcher].public.astype(np.bool_)))
    return view


def watched(
    watcher: int, kind: str, runs: int, first: int = 100, plants: dict[int, Plant] | None = None, **options
) -> dict[str, np.ndarray]:
    views = []
    for key in range(first, first + runs):
        keys = (5, key) if watcher == 0 else (key, 5)
        patches = quick_patches(NUMBER, keys, plants)
        for role, more in options.get("patches", {}).items():
            patches[role] = [*patches[role], *more]
        outcome = run(
            put_in(kind, watcher),
            ends=quick(keys, plants),
            number=NUMBER,
            keys=keys,
            patches=patches,
            liar=watcher,  # its checks pass whatever it sees
            prepared=options.get("prepared"),
        )
        views.append(seen(outcome, watcher))
    return stack(views)


@cache
def undisturbed(watcher: int, kind: str, runs: int = RUNS, first: int = 100) -> dict[str, np.ndarray]:
    """Without a planted leak."""
    return watched(watcher, kind, runs, first)


def of_votes(view: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Plain bits that depend on votes: labels and tables are pseudo-random anyway."""
    return {name: bits for name, bits in view.items() if name.split(" ", 1)[1] in WITH_VOTES}


@pytest.mark.parametrize("kind", ["zero", "unanimous", "split"])
@pytest.mark.parametrize("watcher", [0, 1])
def test_what_a_server_sees_is_uniform_whatever_the_other_puts_in(watcher, kind):
    view = undisturbed(watcher, kind)
    assert {name.split(" ", 1)[1].split("[")[0] for name in view} == {
        *("leaky/g", "leaky/d", "leaky/commit", "leaky/open", "block/products", "block/tables"),
        *("block/masked", "block/inputs", "block/evaluated", "block/correct", "wires", "public"),
    }
    assert_uniform({name: multiple_of_four(bits) for name, bits in view.items()})
    assert_uncorrelated(of_votes(view))


def multiple_of_four(bits: np.ndarray) -> np.ndarray:
    """Nibbles are looked at: a few bits more come from their own beginning."""
    return bits[:, : bits.shape[1] // 4 * 4]


def assert_alike(real: dict[str, np.ndarray], simulated: dict[str, np.ndarray]) -> None:
    """No bit of the view is 1 more often in one than in the other; nor do two bits agree more often."""
    assert real.keys() == simulated.keys()
    for name, bits in real.items():
        other = simulated[name]
        for one, two in ((bits, other), (bits[:, 1:] ^ bits[:, :-1], other[:, 1:] ^ other[:, :-1])):
            ones, twos = one.sum(axis=0), two.sum(axis=0)
            total = len(one) + len(two)
            pooled = (ones + twos) / total
            spread = np.sqrt(np.maximum(pooled * (1 - pooled), 1 / total) * (1 / len(one) + 1 / len(two)))
            score = np.abs(ones / len(one) - twos / len(two)) / spread
            if score.size and 2 * stats.norm.sf(score.max()) * score.size < SIGNIFICANT:
                raise LeakError(f"{name}: tells real from simulated")


@pytest.mark.parametrize("watcher", [0, 1])
def test_a_view_simulated_from_the_own_inputs_alone_looks_like_the_real_one(watcher):
    for kind in ("unanimous", "split"):
        assert_alike(undisturbed(watcher, kind), undisturbed(watcher, "zero", first=5000))


@thorough
@pytest.mark.parametrize("watcher", [0, 1])
def test_the_same_of_many_runs(watcher):
    simulated = watched(watcher, "zero", 160, first=5000)
    for kind in ("unanimous", "split"):
        view = watched(watcher, kind, 160)
        assert_uniform({name: multiple_of_four(bits) for name, bits in view.items()})
        assert_uncorrelated(of_votes(view))
        assert_alike(view, simulated)


# Planted leaks


def zeroed(*places: slice | int) -> Callable[[np.ndarray], None]:
    def plant(choices: np.ndarray) -> None:
        if choices.size >= sum(SHAPE.sections):  # not those of the outputs
            for place in places:
                choices[place] = 0

    return plant


def only_outputs(choices: np.ndarray) -> None:
    if choices.size < sum(SHAPE.sections):
        choices[:] = 0


STARTS = [int(start) for start in np.cumsum([0, *SHAPE.sections])]
COUNT_BITS = SHAPE.planes[0] * SHAPE.half
PLANTS = {
    "no masks of ANDs": (zeroed(slice(STARTS[1], STARTS[2])), "block/evaluated[0]"),
    "the mask of one output missing": (zeroed(STARTS[1] + SHAPE.ands // 2 - 1, STARTS[2] - 1), "block/evaluated[0]"),
    "no masks of the garbler's shares": (zeroed(slice(STARTS[3], STARTS[3] + COUNT_BITS)), "block/inputs[0]"),
    "no masks r of the evaluator's shares": (zeroed(slice(STARTS[4], STARTS[4] + COUNT_BITS)), "block/masked[0]"),
    "one bit of r missing": (zeroed(STARTS[4]), "block/masked[0]"),
    "no masks of noise": (zeroed(slice(STARTS[3] + COUNT_BITS, STARTS[4])), "block/products[4]"),
    "no bits u that hide the outputs": (only_outputs, "public"),
}


TELLING = ("no masks of ANDs", "no bits u that hide the outputs")
"""Of what the other puts in, and not of something that is the same in both."""


@pytest.mark.parametrize("watcher", ROLES)
@pytest.mark.parametrize("name", PLANTS)
def test_a_missing_mask_is_found(name, watcher):
    plant, where = PLANTS[name]
    view = watched(watcher, "split", FEW, plants={1 - watcher: plant})
    found = {step: bits for step, bits in view.items() if step.endswith(where)}
    with pytest.raises(LeakError):
        assert_uniform({step: multiple_of_four(bits) for step, bits in found.items()})
    if name in TELLING:
        with pytest.raises(LeakError):
            assert_alike(view, watched(watcher, "zero", FEW, first=5000, plants={1 - watcher: plant}))


@pytest.mark.parametrize("watcher", ROLES)
def test_labels_that_are_used_again_are_found(watcher):
    """The same labels for 0 on every run: whoever sees that of 1 as well has the Delta."""
    right = preparation.draw_labels
    kept: dict[str, InputLabels] = {}

    def again(shape: Shape) -> InputLabels:
        first = kept.setdefault("labels", right(shape))
        return InputLabels(first.shares.copy(), first.threshold.copy())

    view = watched(watcher, "split", FEW, patches={1 - watcher: [(preparation, "draw_labels", again)]})
    labels = {name: bits for name, bits in view.items() if name.endswith("block/inputs[1]")}
    with pytest.raises(LeakError):
        assert_uniform({name: multiple_of_four(bits) for name, bits in labels.items()})


@pytest.mark.parametrize("watcher", [0, 1])
def test_as_few_runs_without_a_leak_are_passed(watcher):
    view, simulated = (
        {name: bits[:FEW] for name, bits in undisturbed(watcher, kind, first=first).items()}
        for kind, first in (("split", 100), ("zero", 5000))
    )
    assert_uniform({name: multiple_of_four(bits) for name, bits in view.items()})
    assert_alike(view, simulated)
