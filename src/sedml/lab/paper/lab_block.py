"""One block of a task of the lab, as one of the two servers runs it: on dealt randomness, or from shared counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from sedml.lab.paper import dealt_fused, three_phases
from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.semi_honest import semi_honest_block
from sedml.lab.semi_honest.check_and_label_noise import Noise
from sedml.lab.semi_honest.gadgets.refresh import refresh
from sedml.lab.semi_honest.opened_labels import LabelShare, label_ring
from sedml.lab.semi_honest.party import Party
from sedml.mpc.prg import Seed
from sedml.mpc.ring import Array

__all__ = ["PHASES", "plan_block", "run_block"]

PHASES = ("count", "highest", "threshold", "label")


@lru_cache(maxsize=8)
def plan_block(task: LabTask, samples: int) -> Mapping[str, Correlation]:
    """What must be dealt for a block of so many samples. Worked out once: nearly all blocks of a task take the same."""
    return (three_phases.plan if task.dealt == "paper" else dealt_fused.plan)(task, samples)


def run_block(party: Party, task: LabTask, load: Callable[[], Array], noise: Noise, common: Seed) -> LabelShare:
    """One server's side. `load` gives its shares of the counts: uint[N, Q]."""
    if task.dealt is None:
        return semi_honest_block.run_block(party, task, load, noise, common)
    with party.phase("count"):
        counts = load()
    number, samples = party.correlations.block, counts.shape[-1]
    if task.dealt == "paper":
        with party.phase("highest"):
            n_star = three_phases.highest_vote(party, task, counts)
        with party.phase("threshold"):
            consensus = three_phases.threshold_check(party, task, n_star, noise.threshold(number, samples))
    else:
        with party.phase("threshold"):
            consensus = dealt_fused.threshold_check(party, task, counts, noise.threshold(number, samples))
    with party.phase("label"):
        passed = int(consensus.sum())
        if passed == 0:
            return LabelShare(consensus, np.empty(0, label_ring(task).dtype))
        label = three_phases.consensus_label if task.dealt == "paper" else dealt_fused.consensus_label
        labels = label(party, task, counts[:, consensus], noise.label(number, task.classes, passed))
        name = f"{task.id.hex()}/{number}/labels"
        # The paper's label shares reduce to the ring of the class indices by themselves.
        ring = label_ring(task)
        return LabelShare(consensus, refresh(party.role, common, name, ring.reduce(labels), ring))
