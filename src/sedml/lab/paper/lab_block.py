"""One block of Algorithm 1 on shares, as one of the two servers runs it: the paper's three phases.

Count the votes, check the threshold, find the labels of the samples that passed. What the two servers learn is
`LabelShare.consensus`; `LabelShare.labels` are for the requester, who gets them as the tournament leaves them: to one
that dealt the masks, as in the paper, the two halves tell more than the label.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sedml.lab.paper import three_phases
from sedml.lab.paper.check_and_label_noise import Noise
from sedml.lab.paper.opened_labels import LabelShare, label_ring
from sedml.lab.paper.party import Party
from sedml.lab.paper.two_noise_task import Task
from sedml.mpc.ring import Array

PHASES = ("count", "highest", "threshold", "label")


def run_block(party: Party, task: Task, load: Callable[[], Array], noise: Noise) -> LabelShare:
    """One server's side. `load` gives its shares of the counts: uint[N, Q]."""
    with party.phase("count"):
        counts = load()
    block, samples = party.correlations.block, counts.shape[-1]
    with party.phase("highest"):
        highest = three_phases.highest_vote(party, task, counts)
    with party.phase("threshold"):
        consensus = three_phases.threshold_check(party, task, highest, noise.threshold(block, samples))
    with party.phase("label"):
        passed, ring = int(consensus.sum()), label_ring(task)
        if passed == 0:
            return LabelShare(consensus, np.empty(0, ring.dtype))
        g_i = noise.label(block, task.classes, passed)
        labels = three_phases.consensus_label(party, task, counts[:, consensus], g_i)
        # The paper's label shares reduce to the ring of the class indices by themselves.
        return LabelShare(consensus, ring.reduce(labels))
