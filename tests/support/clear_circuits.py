"""A circuit in the clear: what garbled ones must come to."""

from __future__ import annotations

import numpy as np

from sedml.mpc.garbling.circuit import ONE, ZERO, Circuit


def evaluate(circuit: Circuit, inputs: np.ndarray) -> np.ndarray:
    """Inputs 0/1 uint8[inputs, samples] -> uint8[outputs, samples]."""
    wires = np.empty((circuit.wires, inputs.shape[1]), np.uint8)
    wires[ZERO], wires[ONE] = 0, 1
    wires[2 : 2 + circuit.inputs] = inputs
    for out, a, a2, b, b2, is_and in circuit.program:
        one, other = (wires[x] if y < 0 else wires[x] ^ wires[y] for x, y in ((a, a2), (b, b2)))
        wires[out] = one & other if is_and else one ^ other
    return wires[circuit.outputs]
