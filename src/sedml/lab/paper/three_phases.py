"""Algorithm 1 in its three phases, as the paper writes them.

The paper's gadgets in the paper's order, in one ring of l = 32 bits: SCMP by the carry look-ahead adder, its
conversion to Z_{2^l}, selection by multiplication, and the batched tournament of its Remark. Here so that its tables
can be measured phase by phase.

Rounds of a comparison: 1 + ceil(log2(l-1)) + 1; of a level of the tournament 1 more. 72 for N = 10, l = 32.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.gadgets.leaf_and import LeafProduct, leaf_product
from sedml.lab.paper.gadgets.multiply import Triple, multiply
from sedml.lab.paper.gadgets.scmp import plan_scmp, scmp
from sedml.lab.paper.gadgets.tournament import levels, tournament
from sedml.lab.paper.party import Party
from sedml.lab.paper.two_noise_task import RING_BITS, Task
from sedml.lab.sharing import Additive, from_planes
from sedml.mpc.ring import Array, Ring


def plan(task: Task, samples: int) -> dict[str, Correlation]:
    """What the three phases need for a block of so many samples."""
    width = RING_BITS
    pieces = _plan_compare("threshold", 1, samples, width)
    # Phase 1 selects the value; phase 3 the value and its index.
    for phase, products in (("highest", 1), ("label", 2)):
        for level, rows in enumerate(levels(task.classes)):
            name = f"{phase}/{level}"
            pieces |= _plan_compare(name, rows, samples, width)
            pieces[f"{name}/select"] = Triple((products, rows, samples), width)
    return pieces


def highest_vote(party: Party, task: Task, counts: Array) -> Array:
    """Phase 1. counts: uint[N, Q] shares -> [n*]: uint[Q] (lines 6-11)."""
    width = RING_BITS

    def step(level: int, a: Array, b: Array, ia: Array, _: Array) -> tuple[Array, Array]:
        e = _compare(party, f"highest/{level}", a, b, width)
        [gain] = multiply(party, f"highest/{level}/select", e[np.newaxis], (b - a)[np.newaxis], width)
        return (a + gain) & Ring(width).mask, ia

    return tournament(counts, np.zeros_like(counts), step)[0]


def threshold_check(party: Party, task: Task, n_star: Array, g: Array) -> npt.NDArray[np.bool_]:
    """Phase 2. n_star: uint[Q] shares, g: this server's noise int[Q] -> consensus, public (lines 12-19)."""
    ring = Ring(RING_BITS)
    noisy = ((n_star + ring.reduce(g)) & ring.mask)[np.newaxis]
    threshold = party.constant(np.full_like(noisy, task.threshold))
    t = _compare(party, "threshold", noisy, threshold, ring.width)
    [opened] = party.open_("threshold/t", [(Additive(t.shape, ring.width), t)])
    consensus: npt.NDArray[np.bool_] = opened[0] == 0
    return consensus


def consensus_label(party: Party, task: Task, counts: Array, g_i: Array) -> Array:
    """Phase 3. counts: uint[N, A] shares, g_i: this server's noise int[N, A] -> [i*]: uint[A] (lines 20-32)."""
    ring = Ring(RING_BITS)
    noisy = (counts + ring.reduce(g_i)) & ring.mask
    classes = np.arange(task.classes, dtype=ring.dtype)[:, np.newaxis]
    indices = party.constant(np.repeat(classes, counts.shape[-1], axis=1))

    def step(level: int, a: Array, b: Array, ia: Array, ib: Array) -> tuple[Array, Array]:
        e = _compare(party, f"label/{level}", a, b, ring.width)
        both = np.stack([e, e]), np.stack([b - a, ib - ia])
        gain, index_gain = multiply(party, f"label/{level}/select", *both, ring.width)
        return (a + gain) & ring.mask, (ia + index_gain) & ring.mask

    return tournament(noisy, indices, step)[1]


def _plan_compare(name: str, rows: int, samples: int, width: int) -> dict[str, Correlation]:
    convert: dict[str, Correlation] = {f"{name}/convert": LeafProduct((rows, samples), width)}
    return plan_scmp(f"{name}/scmp", rows, samples, width) | convert


def _compare(party: Party, name: str, a: Array, b: Array, width: int) -> Array:
    """SCMP as the paper states it: [e] in Z_{2^l}, 1 where a < b.

    With p_1, p_2 the two servers' own bits of ⟦e⟧, e = p_1 + p_2 - 2 p_1 p_2: 1 round more, l bits each way.
    """
    ring = Ring(width)
    e = scmp(party, f"{name}/scmp", (a - b) & ring.mask, width)
    own = from_planes(e, a.shape[-1]).astype(ring.dtype)
    product = leaf_product(party, f"{name}/convert", own, width)
    converted: Array = (own - ring.dtype.type(2) * product) & ring.mask
    return converted
