"""Algorithm 1 on shares: one block, as one of the two servers runs it.

`plan_block` says what the dealer must deal, `run_block` runs a server's side: count the votes, check the
threshold, find the labels of the samples that passed. What the two servers learn is `LabelShare.consensus`;
`LabelShare.labels` are for the requester.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np

from sedml.mpc.correlations import Correlation
from sedml.mpc.gadgets.count import count, plan_count
from sedml.mpc.gadgets.onehot import NIBBLE
from sedml.mpc.gadgets.refresh import refresh, refresh_bits
from sedml.mpc.party import Party
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array, Ring
from sedml.protocol import fused, garbled, paper, undealt
from sedml.protocol.drawn_noise import Noise
from sedml.protocol.labels import LabelShare, label_ring
from sedml.protocol.task import Task

__all__ = ["PHASES", "PROTOCOL_VERSION", "Phase", "plan_block", "run_block"]

PROTOCOL_VERSION = 2
"""Of what two servers say to each other, from their set-up to the label shares.

Raise it with every change of a message: a job that one release has begun must not go on with another that would say
something else under the same masks.
"""

Phase: TypeAlias = Literal["count", "highest", "threshold", "label"]
PHASES: tuple[Phase, ...] = ("count", "highest", "threshold", "label")


def plan_block(task: Task, samples: int) -> dict[str, Correlation]:
    """Every piece of one-use randomness that a block of so many samples takes."""
    return dict(_plan(task, samples))


@lru_cache(maxsize=8)
def _plan(task: Task, samples: int) -> dict[str, Correlation]:
    """Worked out once: nearly all blocks of a task take the same."""
    pieces: dict[str, Correlation] = {}
    if task.votes == "index":
        pieces |= plan_count("count", task.teachers, task.classes, samples, _count_width(task))
    return pieces | (fused.plan(task, samples) if task.protocol == "fused" else paper.plan(task, samples))


def run_block(party: Party, task: Task, load: Callable[[], Array], noise: Noise, common: Seed) -> LabelShare:
    """One server's side of one block.

    `load` reads its shares: of class indices uint[K, Q] for votes="index", of counts uint[N, Q] otherwise.
    `common` is what the two servers agreed on (`gadgets.refresh`); the requester must not know it.
    """
    block = party.correlations.block
    with party.phase("count"):
        counts = load()
        if task.votes == "index" and task.randomness == "servers":
            counts = undealt.count(party, task, counts)
        elif task.votes == "index":
            counts = count(party, "count", counts, task.classes, _count_width(task))
            counts = Ring(task.widths.counts).reduce(counts)
    samples = counts.shape[-1]
    if task.protocol == "garbled":
        with party.phase("label"):
            own = noise.threshold(block, samples), noise.label(block, task.classes, samples)
            consensus, index = garbled.consensus_and_label(party, task, counts, *own)
            name = f"{task.id.hex()}/{block}/labels"
            return LabelShare(consensus, refresh_bits(common, name, index[consensus], task.index_width))
    ours = undealt if task.randomness == "servers" else fused
    if task.protocol == "paper":
        with party.phase("highest"):
            n_star = paper.highest_vote(party, task, counts)
        with party.phase("threshold"):
            consensus = paper.threshold_check(party, task, n_star, noise.threshold(block, samples))
    else:
        with party.phase("threshold"):
            consensus = ours.threshold_check(party, task, counts, noise.threshold(block, samples))
    with party.phase("label"):
        passed = int(consensus.sum())
        if passed == 0:
            return LabelShare(consensus, np.empty(0, label_ring(task).dtype))
        chosen = counts if passed == samples else counts[:, consensus]
        find = ours.consensus_label if task.protocol == "fused" else paper.consensus_label
        labels = find(party, task, chosen, noise.label(block, task.classes, passed))
        labels = refresh(party.role, common, f"{task.id.hex()}/{block}/labels", labels, label_ring(task))
    return LabelShare(consensus, labels)


def _count_width(task: Task) -> int:
    """Counting works with multiples of 16, so it needs a ring of more than 4 bits; the rest reduce it."""
    return max(task.widths.counts, NIBBLE + 1)
