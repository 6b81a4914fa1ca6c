"""Label shares: what one server ends a block with, its bytes on disk and on the wire, and what two of them open to.

The bytes of a share: one consensus bit a sample (planes), then the shares of the samples that passed, `label_ring`
bits each, packed. Only the requester ever holds both.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sedml.errors import ShareError
from sedml.mpc.bits import from_planes, pack, packed_size, plane_bytes, to_planes, unpack
from sedml.mpc.ring import Array, Ring
from sedml.lab.semi_honest.task import Task
from sedml.protocol.votes import NO_CONSENSUS

__all__ = ["LabelShare", "from_bytes", "label_ring", "most_bytes", "reveal", "to_bytes"]


@dataclass(frozen=True)
class LabelShare:
    """A block's result at one server: consensus bool[Q], public, and label shares uint[A] where it is true."""

    consensus: npt.NDArray[np.bool_]
    labels: Array = field(repr=False)

    @property
    def consensus_bytes(self) -> bytes:
        """The public part, which is the same at both servers."""
        return to_planes(self.consensus).tobytes()


def label_ring(task: Task) -> Ring:
    """The ring of the label shares; the requester adds the two (Alg. 1 line 33)."""
    return Ring(task.index_width)


def to_bytes(task: Task, share: LabelShare) -> bytes:
    """A share as it is stored and sent."""
    return share.consensus_bytes + pack(share.labels, label_ring(task).width).tobytes()


def from_bytes(task: Task, samples: int, document: bytes) -> LabelShare:
    """A share of so many samples out of its bytes; raises unless there are exactly as many as it takes."""
    content, bits = np.frombuffer(document, np.uint8), plane_bytes(samples)
    if content.size >= bits:
        consensus = from_planes(content[:bits], samples).astype(np.bool_)
        passed = int(consensus.sum())
        if content.size == _size(task, samples, passed):
            return LabelShare(consensus, unpack(content[bits:], label_ring(task).width, passed))
    raise ShareError(
        "A label share has the wrong size.", "Fetch the labels again; if that does not help, tell the operators."
    )


def most_bytes(task: Task, samples: int) -> int:
    """What a share of so many samples takes if all of them passed."""
    return _size(task, samples, samples)


def reveal(task: Task, share0: LabelShare, share1: LabelShare) -> npt.NDArray[np.int64]:
    """What the requester does with the two servers' shares: i* = [i*]_0 + [i*]_1 (Alg. 1 line 33), or their XOR.

    A class that does not exist is no label, and no error. A server that shifts its shares and hears of an error, or of
    whatever the requester does about it, would learn something about the label.
    """
    if not np.array_equal(share0.consensus, share1.consensus):
        raise ShareError(
            "The two servers do not agree on which samples have a consensus.",
            "Do not use these labels; run the job again, and look at the servers.",
        )
    labels = np.full(share0.consensus.size, NO_CONSENSUS, np.int64)
    if task.protocol == "garbled":
        opened = share0.labels ^ share1.labels
    else:
        opened = (share0.labels + share1.labels) & label_ring(task).mask
    labels[share0.consensus] = np.where(opened < task.classes, opened.astype(np.int64), NO_CONSENSUS)
    return labels


def _size(task: Task, samples: int, passed: int) -> int:
    return plane_bytes(samples) + packed_size(passed, label_ring(task).width)
