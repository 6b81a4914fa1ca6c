"""Algorithm 1 with phases 1 and 2 merged (`protocol="fused"`, the default).

max_i n_i + g >= T holds if and only if some n_i + g >= T. So the highest count is never computed: N sign
tests of n_i + g - T run side by side, an AND tree over the N signs says whether *none* of them reached the
threshold, and that bit t is opened. Same answer and same leakage (only t) as the paper's tournament.
The label phase is the tournament of duels on the noisy counts.

Rounds: threshold 1 + carry + ceil(log4 N) + 1, label (2 + carry) ceil(log2 N), where carry is 1 for rings of
up to 17 bits: 17 rounds for N = 10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sedml.mpc.bits import from_planes
from sedml.mpc.correlations import Correlation
from sedml.mpc.gadgets.and_tree import and_tree, plan_and_tree
from sedml.mpc.gadgets.select import Duel, duel, plan_duel
from sedml.mpc.gadgets.sign import plan_sign, sign
from sedml.mpc.gadgets.tournament import DuelStep, levels, tournament
from sedml.mpc.party import Party
from sedml.mpc.ring import Array, Ring
from sedml.mpc.sharing import Bits
from sedml.protocol.task import Task

__all__ = ["consensus_label", "duels", "first_of_highest", "plan", "threshold_check"]

D = TypeVar("D")


def plan(task: Task, samples: int) -> dict[str, Correlation]:
    """What both phases need for a block of so many samples."""
    pieces = plan_sign("threshold", task.classes, samples, task.widths.threshold)
    pieces |= plan_and_tree("threshold/and", task.classes, samples)
    for level, spec in enumerate(duels(Duel, task, samples)):
        pieces |= plan_duel(f"label/{level}", spec)
    return pieces


def threshold_check(party: Party, task: Task, counts: Array, g: Array) -> npt.NDArray[np.bool_]:
    """counts: uint[N, Q] shares, g: this server's noise int[Q] -> consensus, public (Alg. 1 lines 5-19)."""
    ring = Ring(task.widths.threshold)
    samples = counts.shape[-1]
    own = g.astype(np.int64) - task.threshold if party.role == 0 else g
    below = sign(party, "threshold", (ring.reduce(counts) + ring.reduce(own)) & ring.mask, ring.width)
    share = and_tree(party, "threshold/and", below, samples)
    [t] = party.open_("threshold/t", [(Bits((samples,)), share)])
    consensus: npt.NDArray[np.bool_] = from_planes(t, samples) == 0
    return consensus


def consensus_label(party: Party, task: Task, counts: Array, g_i: Array) -> Array:
    """counts: uint[N, A] shares, g_i: this server's noise int[N, A] -> [i*]: uint[A] (Alg. 1 lines 20-32)."""
    specs = duels(Duel, task, counts.shape[-1])
    return first_of_highest(
        party, task, counts, g_i, lambda level, *pair: duel(party, f"label/{level}", specs[level], *pair)
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
