"""Buckets: B leaky ANDs of random places give one AND of which nobody knows anything.

B rows of n leaky ANDs; all rows but the first are put in a random order, by coins that neither server chose. Of bucket
i, with e_b = y_0 ^ y_b opened (`masks`):

    x = XOR x_b        y = y_0        z = XOR (z_b ^ e_b x_b),   e_0 = 0

x stays unknown unless the cheat guessed its part in all B of a bucket.

*How many.* A cheat that guesses t_b in row b survives with probability 2^-(t_0 + .. + t_{B-1}). Then bucket i has
nothing but guesses with probability (t_1 / n) .. (t_{B-1} / n) for t_0 buckets, so that some bucket has, and the cheat
survived, with at most the product of all t_b 2^-t_b over n^(B-1). As t 2^-t <= 1/2,

    P <= 2^-B n^-(B-1).

(WRK17 put all B n ANDs into one random order, which gives a bit or two more for the same B and takes longer.) An order
is that of random numbers of 32 bits, equal ones in the order of their places: which place one gets is then uniform but
for a part of n 2^-32, so that P grows by less than a thousandth.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from sedml.mpc.kernel import kernel
from sedml.mpc.prg import Seed, expand

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.uint32]


def bucket_size(ands: int, bits: float) -> int:
    """The smallest B with which a cheat knows something of an AND, and is not caught, with at most 2^-bits."""
    size = 2
    while size + (size - 1) * math.log2(ands) < bits:
        size += 1
    return size


def places(coins: Seed, ands: int, size: int) -> Places:
    """uint32[size - 1, ands]: which of all leaky ANDs the bucket has from each row but the first."""
    found = np.empty((size - 1, ands), np.uint32)
    fast = kernel()
    for row in range(size - 1):
        keys = expand(coins, f"row {row + 1}", 4 * ands).view(np.uint32)
        if fast is None:
            # By the lower half, then by the upper one: sorting 16 bits takes time that is linear in how many there are.
            low = np.argsort(keys.astype(np.uint16), kind="stable")
            found[row] = low[np.argsort((keys >> np.uint32(16)).astype(np.uint16)[low], kind="stable")]
        else:
            fast.order(keys, found[row])
        found[row] += np.uint32((row + 1) * ands)
    return found


def bucket_bits(bits: Bytes, place: Places) -> tuple[Bytes, Bytes, Bytes]:
    """This server's parts of e uint8[size - 1, n], x and y uint8[n], from those of the leaky ANDs uint8[size n, 3]."""
    n = place.shape[1]
    fast = kernel()
    if fast is not None:
        e, x, y = np.empty(place.shape, np.uint8), np.empty(n, np.uint8), np.empty(n, np.uint8)
        fast.bucket_bits(place, bits, e, x, y)
        return e, x, y
    others = bits[place]
    x = np.bitwise_xor.reduce(others[..., 0], axis=0)
    x ^= bits[:n, 0]
    y = bits[:n, 1].copy()
    return others[..., 1] ^ y, x, y
