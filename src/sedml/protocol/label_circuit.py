"""The circuit of a sample: shares of the counts and both servers' noise in, the label or none out.

1. Add the two shares of a count in Z_{2^w}, and *fold*: flip all other bits if the top one is set. A server that lies
   about its share shifts the sum; in a ring it would then move the edge at which a count turns from the highest to the
   lowest. Folded, the counts of neighbours still differ by at most 1, whatever the shift (docs/explanation/privacy.md).
2. Add both servers' noise, numbers of b bits that count from -2^(b-1), as integers: nothing wraps, whatever they are.
3. The first of the highest wins; there is a label if its noisy count reaches T, and none otherwise.

ANDs for N classes, counts of c = w - 1 bits and sums of s bits: N (c + 2 b + 1) to add, 2 s (N - 1) for the duels, some
for their indices, s for T and one for each bit of the index: 490 for 10 classes, 250 teachers and a sigma of 40.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sedml.mpc.garbling.circuit import Circuit


def value_bits(counts: int, noise: int) -> int:
    """Bits of a noisy count, from the bits of the ring of the counts and of each server's noise.

    They hold one more than the highest noisy count, so that there is a threshold that none reaches.
    """
    return (2 * ((1 << noise) - 1) + (1 << (counts - 1))).bit_length()


@lru_cache(maxsize=16)
def circuit_of(classes: int, counts: int, noise: int) -> Circuit:
    """Inputs, all numbers bit by bit: the garbler's shares, the evaluator's, the noise of both, T + 2^noise.

    Outputs: whether there is a label, and the bits of its index, all 0 without one.
    """
    # Whoever votes wants the widths alone.
    from sedml.mpc.garbling.arithmetic import add, add_whole, below, highest
    from sedml.mpc.garbling.circuit import Builder

    value = value_bits(counts, noise)
    build = Builder(2 * classes * (counts + noise) + value)
    cuts = np.cumsum([counts * classes, counts * classes, noise * classes, noise * classes])
    parts = np.split(build.inputs, cuts)
    garbler, evaluator, one, two = (part.reshape(-1, classes) for part in parts[:4])
    total = add(build, garbler, evaluator)
    folded = build.xor(total[:-1], np.broadcast_to(total[-1], total[:-1].shape))
    noisy = add_whole(build, add_whole(build, one, two), folded)[:value]
    index, most = highest(build, noisy)
    there = build.not_(below(build, most[:, np.newaxis], parts[4][:, np.newaxis]))
    return build.build(np.concatenate([there, build.and_(np.broadcast_to(there, index.shape), index)]))
