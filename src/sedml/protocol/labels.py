"""Label shares: what one server ends a block with, its bytes on disk and on the wire, and what two of them open to.

Of every output v (whether there is a label, and the bits of its index; `sedml.mpc.authenticated.outputs`) a share has
P = v ^ u_0 ^ u_1, which both servers know, the server's u, its keys for the other's u, and the Delta that these are
under; besides, 64 more of u, and a digest of the MACs of all u. The size follows from the terms and the number of
samples alone.

The bytes: P and u, bit-packed, the digest, the keys, 8 bytes each, and the Delta. Only the requester ever holds both
shares.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sedml.errors import CheatingError, ShareError
from sedml.mpc.authenticated.authenticated_bits import spread
from sedml.mpc.authenticated.outputs import PADDING, mac_digest
from sedml.protocol.task import Task
from sedml.protocol.votes import NO_CONSENSUS

_DIGEST = 32
_WORD = 8


@dataclass(frozen=True)
class LabelShare:
    """A block's result at one server."""

    public: npt.NDArray[np.uint8] = field(repr=False)
    """P: 0/1 uint8[outputs]."""
    own: npt.NDArray[np.uint8] = field(repr=False)
    """u: 0/1 uint8[outputs + PADDING]."""
    digest: npt.NDArray[np.uint8] = field(repr=False)
    """uint8[32], of the MACs of u."""
    keys: npt.NDArray[np.uint64] = field(repr=False)
    """uint64[outputs + PADDING], for the other server's u."""
    delta: np.uint64 = field(repr=False)


def output_count(task: Task, samples: int) -> int:
    """Output bits of a block of so many samples; an odd number of samples has one more that nobody asked for."""
    return 2 * -(-samples // 2) * (1 + task.index_width)


def share_size(task: Task, samples: int) -> int:
    """Bytes of a share of so many samples, whatever the answers."""
    count = output_count(task, samples)
    return -(-count // 8) - (-(count + PADDING) // 8) + _DIGEST + _WORD * (count + PADDING + 1)


def to_bytes(task: Task, share: LabelShare) -> bytes:
    """A share as it is stored and sent."""
    bits = (np.packbits(part, bitorder="little").tobytes() for part in (share.public, share.own))
    return b"".join(
        [*bits, share.digest.tobytes(), share.keys.astype("<u8").tobytes(), int(share.delta).to_bytes(_WORD, "little")]
    )


def from_bytes(task: Task, samples: int, document: bytes) -> LabelShare:
    """A share of so many samples out of its bytes; raises unless there are exactly as many as it takes."""
    if len(document) != share_size(task, samples):
        raise ShareError(
            "A label share has the wrong size.", "Fetch the labels again; if that does not help, tell the operators."
        )
    count, content = output_count(task, samples), np.frombuffer(document, np.uint8)
    cuts = np.cumsum([-(-count // 8), -(-(count + PADDING) // 8), _DIGEST])
    public, own, digest, words = np.split(content, cuts)
    numbers = np.frombuffer(words.tobytes(), "<u8").astype(np.uint64)
    return LabelShare(
        np.unpackbits(public, count=count, bitorder="little"),
        np.unpackbits(own, count=count + PADDING, bitorder="little"),
        digest,
        numbers[:-1],
        numbers[-1],
    )


def reveal(task: Task, samples: int, share0: LabelShare, share1: LabelShare) -> npt.NDArray[np.int64]:
    """What the requester does with the two servers' shares: check them against each other, and open the labels.

    One message for whatever is wrong. Who lied cannot be told from it, and it depends on no label: what a server does
    to its share is refused, or not, whatever the other's is.
    """
    fits = np.array_equal(share0.public, share1.public)
    for one, other in ((share0, share1), (share1, share0)):
        macs = other.keys ^ (spread(one.own) & other.delta)
        fits &= np.array_equal(mac_digest("share", macs), one.digest)
    if not fits:
        raise CheatingError(
            "The label shares of the two servers do not fit together: one of them was changed.",
            "Do not use any label of this job. Tell both operators.",
        )
    count = output_count(task, samples)
    opened = share0.public ^ share0.own[:count] ^ share1.own[:count]
    # Both halves of the samples, bit by bit: [half, bit, sample].
    there, *index = opened.reshape(2, 1 + task.index_width, -1).transpose(1, 0, 2).reshape(1 + task.index_width, -1)
    labels = np.zeros(there.size, np.int64)
    for bit, plane in enumerate(index):
        labels |= plane.astype(np.int64) << bit
    return np.where(there.astype(np.bool_) & (labels < task.classes), labels, NO_CONSENSUS)[:samples]
