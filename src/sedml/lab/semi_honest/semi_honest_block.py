"""Algorithm 1 on shares: one block, as one of the two servers runs it.

`recipes` says which one-use randomness the two servers must make for it, `run_block` runs a server's side: count the
votes, check the threshold, find the labels of the samples that passed. What the two servers learn is
`LabelShare.consensus`; `LabelShare.labels` are for the requester.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from sedml.lab.semi_honest import fused, garbled
from sedml.lab.semi_honest.check_and_label_noise import Noise
from sedml.lab.semi_honest.gadgets.refresh import refresh, refresh_bits
from sedml.lab.semi_honest.opened_labels import LabelShare, label_ring
from sedml.lab.semi_honest.party import Party
from sedml.lab.semi_honest.recipe import Recipe
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array

__all__ = ["PHASES", "Phase", "recipes", "run_block"]

Phase: TypeAlias = Literal["count", "threshold", "label"]
PHASES: tuple[Phase, ...] = ("count", "threshold", "label")


def recipes(task: Task, samples: int) -> dict[str, Recipe]:
    """What a block of so many samples needs; it is made before the votes are known (`sedml.lab.semi_honest.recipe`)."""
    return {"garbled": garbled.recipe(task, samples)} if task.protocol == "garbled" else fused.recipes(task, samples)


def run_block(party: Party, task: Task, count: Callable[[], Array], noise: Noise, common: Seed) -> LabelShare:
    """One server's side of one block. `count` gives its shares of the counts: uint[N, Q].

    `common` is what the two servers agreed on (`gadgets.refresh`); the requester must not know it.
    """
    with party.phase("count"):
        counts = count()
    block, samples = party.correlations.block, counts.shape[-1]
    name = f"{task.id.hex()}/{block}/labels"
    if task.protocol == "garbled":
        with party.phase("label"):
            own = noise.threshold(block, samples), noise.label(block, task.classes, samples)
            consensus, index = garbled.consensus_and_label(party, task, counts, *own)
            return LabelShare(consensus, refresh_bits(common, name, index[consensus], task.index_width))
    with party.phase("threshold"):
        consensus = fused.threshold_check(party, task, counts, noise.threshold(block, samples))
    with party.phase("label"):
        passed = int(consensus.sum())
        if passed == 0:
            return LabelShare(consensus, np.empty(0, label_ring(task).dtype))
        chosen = counts if passed == samples else counts[:, consensus]
        labels = fused.consensus_label(party, task, chosen, noise.label(block, task.classes, passed))
        return LabelShare(consensus, refresh(party.role, common, name, labels, label_ring(task)))
