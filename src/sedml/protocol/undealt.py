"""Algorithm 1 as `fused` runs it, on randomness that the two servers make between themselves (`randomness="servers"`).

Same answers and same leakage as `fused`: only t is opened. Nobody deals, so nobody but a server knows any mask.
`recipes` says what a block needs; it is made before the votes are known (`sedml.mpc.ot.recipe`).

Rounds online: count 1, threshold (2 + log2 digits) + 3, label (3 + log2 digits) ceil(log2 N), where a number has two
digits in rings of up to 12 bits: 22 rounds from counts for N = 10.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.mpc.gadgets.choose import Choice, choose, plan_choice
from sedml.mpc.gadgets.millionaires import negative, plan_negative
from sedml.mpc.gadgets.none_of import Equalities, all_set
from sedml.mpc.gadgets.tally import plan_tally, tally
from sedml.mpc.ot.recipe import Recipe
from sedml.mpc.party import Party
from sedml.mpc.ring import Array, Ring
from sedml.protocol import garbled
from sedml.protocol.fused import duels, first_of_highest
from sedml.protocol.task import Task

__all__ = ["consensus_label", "count", "recipes", "threshold_check"]


def recipes(task: Task, samples: int) -> dict[str, Recipe]:
    """What all phases need for a block of so many samples."""
    needs: dict[str, Recipe] = {}
    if task.votes == "index":
        needs |= plan_tally("count", task.teachers, task.classes, samples, task.widths.counts)
    if task.protocol == "garbled":
        return needs | {"garbled": garbled.recipe(task, samples)}
    needs |= plan_negative("threshold", task.classes, samples, task.widths.threshold)
    needs["threshold/all"] = Equalities(task.classes, samples)
    for level, spec in enumerate(duels(Choice, task, samples)):
        needs |= plan_choice(f"label/{level}", spec)
    return needs


def count(party: Party, task: Task, votes: Array) -> Array:
    """votes: uint[K, Q] shares -> [n]: uint[N, Q] (Alg. 1 line 5)."""
    return tally(party, "count", votes, task.classes, task.widths.counts)


def threshold_check(party: Party, task: Task, counts: Array, g: Array) -> npt.NDArray[np.bool_]:
    """counts: uint[N, Q] shares, g: this server's noise int[Q] -> consensus, public (Alg. 1 lines 5-19)."""
    ring = Ring(task.widths.threshold)
    own = g.astype(np.int64) - task.threshold if party.role == 0 else g
    below, _ = negative(party, "threshold", (ring.reduce(counts) + ring.reduce(own)) & ring.mask, ring.width)
    return ~all_set(party, "threshold/all", below)


def consensus_label(party: Party, task: Task, counts: Array, g_i: Array) -> Array:
    """counts: uint[N, A] shares, g_i: this server's noise int[N, A] -> [i*]: uint[A] (Alg. 1 lines 20-32)."""
    specs = duels(Choice, task, counts.shape[-1])
    return first_of_highest(
        party, task, counts, g_i, lambda level, *pair: choose(party, f"label/{level}", specs[level], *pair)
    )
