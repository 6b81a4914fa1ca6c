"""Authenticated bits as a trusted party would hand them out, and circuits with random gates."""

from __future__ import annotations

import numpy as np

from sedml.mpc.authenticated.authenticated_bits import Bits, times
from sedml.mpc.garbling.circuit import ONE, Builder, Circuit

__all__ = ["dealt_bits", "deltas_of", "random_circuit"]


def deltas_of(rng: np.random.Generator) -> list[np.ndarray]:
    """Two Deltas, whose lowest bits are 1."""
    found = rng.integers(0, 2**64, (2, 2), np.uint64)
    found[:, 0] |= np.uint64(1)
    return list(found)


def dealt_bits(rng: np.random.Generator, value: np.ndarray, deltas: list[np.ndarray]) -> list[Bits]:
    """Both servers' parts of bits uint8[...]."""
    one = rng.integers(0, 2, value.shape).astype(np.uint8)
    rows = rng.integers(0, 2**64, (2, *value.shape, 2), np.uint64)
    whole = [times(value, delta) for delta in deltas]
    return [Bits(one, rows[0], rows[1] ^ whole[1]), Bits(one ^ value, rows[1], rows[0] ^ whole[0])]


def random_circuit(rng: np.random.Generator, inputs: int, gates: int) -> Circuit:
    """ANDs with one or two wires to a side, XORs and NOTs, in a random order; some outputs are no gates at all."""
    build = Builder(inputs)
    wires = list(build.inputs)

    def some(count: int) -> np.ndarray:
        return np.array(rng.choice(wires, count))

    for _ in range(gates):
        count, kind = int(rng.integers(1, 4)), rng.integers(0, 5)
        if kind == 0:
            found = build.xor(some(count), some(count))
        elif kind == 1:
            found = build.not_(some(count))
        else:
            found = build.and_(
                some(count), some(count), a2=some(count) if kind > 2 else None, b2=some(count) if kind > 3 else None
            )
        wires += found.tolist()
    return build.build(np.array([*rng.choice(wires, 5), ONE, wires[-1]]))
