"""Label shares: what one server ends a block with, and what two of them open to. Only the requester ever holds both."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sedml.errors import ShareError
from sedml.lab.paper.two_noise_task import Task
from sedml.mpc.ring import Array, Ring
from sedml.protocol.votes import NO_CONSENSUS


@dataclass(frozen=True)
class LabelShare:
    """A block's result at one server: consensus bool[Q], public, and label shares uint[A] where it is true."""

    consensus: npt.NDArray[np.bool_]
    labels: Array = field(repr=False)


def label_ring(task: Task) -> Ring:
    """The ring of the label shares; the requester adds the two (Alg. 1 line 33)."""
    return Ring(task.index_width)


def reveal(task: Task, share0: LabelShare, share1: LabelShare) -> npt.NDArray[np.int64]:
    """What the requester does with the two servers' shares: i* = [i*]_0 + [i*]_1 (Alg. 1 line 33)."""
    if not np.array_equal(share0.consensus, share1.consensus):
        raise ShareError(
            "The two servers do not agree on which samples have a consensus.",
            "Do not use these labels; run the job again, and look at the servers.",
        )
    labels = np.full(share0.consensus.size, NO_CONSENSUS, np.int64)
    labels[share0.consensus] = (share0.labels + share1.labels) & label_ring(task).mask
    return labels
