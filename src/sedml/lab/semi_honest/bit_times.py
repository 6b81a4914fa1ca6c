"""A shared bit times a shared vector: what the servers' choice bits are multiplied with, before any vote is known.

Each server's choice bit of an OT that it receives is its XOR share of a random bit b. For a vector [v] in Z_{2^w},
b v = sum_i (b_i v_i + b_{1-i} (1 - 2 b_i) v_i): the first term is local, the second is one server's bit times the
other's vector. The other, as sender with pads p_0, p_1, sends tau = p_0 + (1 - 2 b_i) v_i - p_1 and keeps -p_0; the one
with the bit adds the pad of its choice and, if that is 1, tau. (Gilboa, CRYPTO 1999, as a correlated OT.)

1 round, w bits an entry each way, and no transfer besides the one that made the bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sedml.mpc.kernel import kernel
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.ot.hashing import hash_rows, round_keys
from sedml.mpc.ring import Array, Ring

__all__ = ["Scaled", "scale"]


@dataclass(frozen=True)
class Scaled:
    """A product under way: what is sent, and what is kept to be added to what comes."""

    tau: Array = field(repr=False)
    kept: Array = field(repr=False)
    bit: Array = field(repr=False)

    def finish(self, came: Array) -> Array:
        """This server's share of b v."""
        share: Array = self.kept + self.bit * came
        return share


def scale(ots: Transfers, vectors: Array, ring: Ring) -> Scaled:
    """The bits of n transfers times vectors: uint[lanes, n] in the ring's type, one each."""
    lanes = len(vectors)
    fast = kernel()
    if fast is not None:
        tau, kept = np.empty((2, *vectors.shape), ring.dtype)
        rows, given = (ots.sent, ots.received, ots.delta, ots.first), np.ascontiguousarray(vectors)
        fast.scale(round_keys(fast), *rows, ots.choices, ring.dtype.itemsize, given, lanes, tau, kept)
        return Scaled(tau, kept, ots.choices.astype(ring.dtype))
    blocks = -(-lanes * ring.dtype.itemsize // 16)
    zero, one, chosen = (
        np.ascontiguousarray(hash_rows(rows, ots.first, blocks).view(ring.dtype)[:, :lanes].T)
        for rows in (ots.sent, ots.sent ^ ots.delta, ots.received)
    )
    bit = ots.choices.astype(ring.dtype)
    own = bit * vectors
    # (1 - 2 b) v, all modulo the container's size; whoever uses the shares reduces them.
    tau = zero + (vectors - own - own) - one
    return Scaled(tau, own - zero + chosen, bit)
