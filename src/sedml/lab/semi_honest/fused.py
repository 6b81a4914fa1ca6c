"""Algorithm 1 with phases 1 and 2 merged (`protocol="fused"`, the default).

max_i n_i + g >= T holds if and only if some n_i + g >= T. So the highest count is never computed: N sign tests of
n_i + g - T run side by side, and whether *none* of them reached the threshold is opened as one bit t. Same answer and
same leakage (only t) as the paper's tournament. The label phase is a tournament of duels on the noisy counts.

Rounds online: threshold (2 + log2 digits) + 3, label (3 + log2 digits) ceil(log2 N), where a number has two digits in
rings of up to 12 bits: 22 rounds from counts for N = 10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sedml.lab.semi_honest.gadgets.choose import Choice, choose, plan_choice
from sedml.lab.semi_honest.gadgets.millionaires import negative, plan_negative
from sedml.lab.semi_honest.gadgets.none_of import Equalities, all_set
from sedml.lab.semi_honest.gadgets.tournament import DuelStep, levels, tournament
from sedml.lab.semi_honest.party import Party
from sedml.lab.semi_honest.recipe import Recipe
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.mpc.ring import Array, Ring

__all__ = ["consensus_label", "duels", "first_of_highest", "margins", "recipes", "threshold_check"]

D = TypeVar("D")


def recipes(task: Task, samples: int) -> dict[str, Recipe]:
    """What both phases need for a block of so many samples."""
    needs = plan_negative("threshold", task.classes, samples, task.widths.threshold)
    needs["threshold/all"] = Equalities(task.classes, samples)
    for level, spec in enumerate(duels(Choice, task, samples)):
        needs |= plan_choice(f"label/{level}", spec)
    return needs


def threshold_check(party: Party, task: Task, counts: Array, g: Array) -> npt.NDArray[np.bool_]:
    """counts: uint[N, Q] shares, g: this server's noise int[Q] -> consensus, public (Alg. 1 lines 5-19)."""
    below, _ = negative(party, "threshold", margins(party, task, counts, g), task.widths.threshold)
    return ~all_set(party, "threshold/all", below)


def margins(party: Party, task: Task, counts: Array, g: Array) -> Array:
    """[n_i + g - T]: uint[N, Q]."""
    ring = Ring(task.widths.threshold)
    own = g.astype(np.int64) - task.threshold if party.role == 0 else g
    found: Array = (ring.reduce(counts) + ring.reduce(own)) & ring.mask
    return found


def consensus_label(party: Party, task: Task, counts: Array, g_i: Array) -> Array:
    """counts: uint[N, A] shares, g_i: this server's noise int[N, A] -> [i*]: uint[A] (Alg. 1 lines 20-32)."""
    specs = duels(Choice, task, counts.shape[-1])
    return first_of_highest(
        party, task, counts, g_i, lambda level, *pair: choose(party, f"label/{level}", specs[level], *pair)
    )


def first_of_highest(party: Party, task: Task, counts: Array, g_i: Array, step: DuelStep) -> Array:
    """The tournament of duels on the noisy counts, each level by `step`."""
    ring, index_ring = Ring(task.widths.label), Ring(task.index_width)
    noisy = (ring.reduce(counts) + ring.reduce(g_i)) & ring.mask
    classes = np.arange(task.classes, dtype=index_ring.dtype)[:, np.newaxis]
    indices = party.constant(np.repeat(classes, counts.shape[-1], axis=1))
    return tournament(noisy, indices, step)[1]


def duels(kind: Callable[..., D], task: Task, samples: int) -> list[D]:
    """The duels of each level; the first knows the indices, the last is not asked for the value."""
    counts = levels(task.classes)
    last = len(counts) - 1
    return [
        kind(rows, samples, task.widths.label, task.index_width, value=level < last, secret_index=level > 0)
        for level, rows in enumerate(counts)
    ]
