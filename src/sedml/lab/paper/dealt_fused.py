"""The fused protocol on dealt randomness: `sedml.lab.semi_honest.fused` with a dealer's gadgets, for comparison.

N sign tests of n_i + g - T side by side, an AND tree over the N signs, and the tournament of duels on the noisy counts.

Rounds: threshold 1 + carry + ceil(log4 N) + 1, label (2 + carry) ceil(log2 N), where carry is 1 for rings of
up to 17 bits: 17 rounds for N = 10.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.fields import Bits
from sedml.lab.paper.gadgets.and_tree import and_tree, plan_and_tree
from sedml.lab.paper.gadgets.select import Duel, duel, plan_duel
from sedml.lab.paper.gadgets.sign import plan_sign, sign
from sedml.lab.semi_honest.fused import duels, first_of_highest, margins
from sedml.lab.semi_honest.party import Party
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.mpc.bits import from_planes
from sedml.mpc.ring import Array

__all__ = ["consensus_label", "plan", "threshold_check"]


def plan(task: Task, samples: int) -> dict[str, Correlation]:
    """What both phases need for a block of so many samples."""
    pieces = plan_sign("threshold", task.classes, samples, task.widths.threshold)
    pieces |= plan_and_tree("threshold/and", task.classes, samples)
    for level, spec in enumerate(duels(Duel, task, samples)):
        pieces |= plan_duel(f"label/{level}", spec)
    return pieces


def threshold_check(party: Party, task: Task, counts: Array, g: Array) -> npt.NDArray[np.bool_]:
    """counts: uint[N, Q] shares, g: this server's noise int[Q] -> consensus, public (Alg. 1 lines 5-19)."""
    samples = counts.shape[-1]
    below = sign(party, "threshold", margins(party, task, counts, g), task.widths.threshold)
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
