"""AND over many XOR-shared bits, four at a time.

1. Group the N inputs by `RADIX` = 4 and AND each group in one round (`and_.products`).
2. Repeat with the results until one is left: ceil(log_4 N) rounds, about 4N/3 bits a sample each way.
"""

from __future__ import annotations

import numpy as np

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.gadgets.and_ import Gate, Products, products
from sedml.lab.semi_honest.party import Party
from sedml.mpc.bits import Plane

__all__ = ["RADIX", "and_tree", "plan_and_tree"]

RADIX = 4


def plan_and_tree(name: str, inputs: int, samples: int) -> dict[str, Correlation]:
    """What `and_tree` needs."""
    plan: dict[str, Correlation] = {}
    level = 0
    while inputs > 1:
        full, rest = divmod(inputs, RADIX)
        if full:
            plan[f"{name}/{level}/full"] = Products(RADIX, (tuple(range(RADIX)),), (full, samples))
        if rest > 1:
            plan[f"{name}/{level}/rest"] = Products(rest, (tuple(range(rest)),), (1, samples))
        inputs = full + (rest > 0)
        level += 1
    return plan


def and_tree(party: Party, name: str, x: Plane, samples: int) -> Plane:
    """⟦x_0 x_1 .. x_{N-1}⟧ of planes x: uint8[N, B]."""
    level = 0
    while len(x) > 1:
        full, rest = divmod(len(x), RADIX)
        gates = []
        if full:
            # Input i of group j is x[4j + i].
            inputs = x[: RADIX * full].reshape(full, RADIX, -1).swapaxes(0, 1)
            gates.append(Gate(f"{name}/{level}/full", inputs, (tuple(range(RADIX)),), samples))
        tail = x[RADIX * full :]
        if rest > 1:
            inputs = tail[:, np.newaxis]
            gates.append(Gate(f"{name}/{level}/rest", inputs, (tuple(range(rest)),), samples))
            tail = tail[:0]
        results = products(party, f"{name}/{level}", gates)
        x = np.concatenate([*(result[0] for result in results), tail])
        level += 1
    plane: Plane = x[0]
    return plane
