"""The paper's ballots: a teacher's votes as shared one-hot vectors (Alg. 1 lines 1-4).

The servers add them up without a message, and nothing stops a teacher from hiding many votes in one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sedml.lab.paper.two_noise_task import Task
from sedml.lab.sharing import share
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array
from sedml.protocol.task import Block

_LABEL = "ballot"


def cast_onehot(votes: Array, task: Task) -> tuple[bytes, bytes]:
    """votes: int[Q] in [-1, N) -> the halves for S0, a seed, and for S1."""
    seed, layout = Seed.random(), task.counts_layout
    values = (votes == np.arange(task.classes)[:, np.newaxis]).astype(layout.ring.dtype)
    return seed.key, layout.to_wire(share(layout, values, seed, _LABEL)[1]).tobytes()


def counts_share(role: int, ballots: Sequence[bytes], task: Task, block: Block) -> Array:
    """One server's share of the counts of a block: uint[N, Q] (Alg. 1 line 5)."""
    layout = task.counts_layout
    total = np.zeros((task.classes, block.samples), layout.ring.dtype)
    for ballot in ballots:
        if role == 0:
            whole = layout.draw(expand(Seed(ballot), _LABEL, layout.drawn_bytes))
        else:
            whole = layout.from_wire(np.frombuffer(ballot, np.uint8))
        total += whole[:, block.start : block.stop]
    counts: Array = total & layout.ring.mask
    return counts
