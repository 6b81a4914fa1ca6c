"""SCMP, the paper's secure comparison: ⟦f < 0⟧ by the carry look-ahead adder over the bits of the shares.

1. [f] = [a] - [b]; S0 knows the bits x_j of its share and S1 the bits y_j of its own.
2. Leaves: ⟦G_j⟧ = x_j y_j (`leaf_and`, 1 round, w-1 bits each way) and ⟦P_j⟧ = x_j ^ y_j (local).
3. Carry c_{w-1} into the top bit by the binary tree (`carry`, ceil(log2(w-1)) rounds).
4. ⟦e⟧ = x_{w-1} ^ y_{w-1} ^ c_{w-1}, the sign of f: 1 when a < b.
"""

from __future__ import annotations

import numpy as np

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.gadgets.carry import carry_out, plan_carry
from sedml.lab.paper.gadgets.leaf_and import LeafAnd, leaf_and
from sedml.lab.paper.party import Party
from sedml.lab.sharing import Plane, to_planes
from sedml.mpc.ring import Array


def plan_scmp(name: str, rows: int, samples: int, width: int) -> dict[str, Correlation]:
    """What `scmp` needs."""
    leaves = {f"{name}/leaf": LeafAnd((width - 1, rows, samples))}
    return {**leaves, **plan_carry(f"{name}/carry", width - 1, (rows, samples))}


def scmp(party: Party, name: str, f: Array, width: int) -> Plane:
    """f: uint[rows, Q] in Z_{2^width} -> ⟦f < 0⟧: uint8[rows, B]."""
    samples = f.shape[-1]
    own = np.stack([to_planes((f >> f.dtype.type(j)).astype(np.uint8) & np.uint8(1)) for j in range(width)])
    generate = leaf_and(party, f"{name}/leaf", own[:-1], samples)
    carry = carry_out(party, f"{name}/carry", generate, own[:-1], samples)
    sign: Plane = own[-1] ^ carry
    return sign
