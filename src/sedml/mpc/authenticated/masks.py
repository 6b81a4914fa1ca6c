"""The masks of a circuit's wires, as authenticated bits, and the products of the masks of every AND's operands.

Every wire has a mask m; what both servers may know of it is M = value ^ m. Masks of inputs and of ANDs are given, those
of XORs follow. With an AND (x, y, z) of `buckets` and the opened f = m_a ^ x and g = m_b ^ y,

    [m_a m_b] = [z] ^ f [y] ^ g [x] ^ f g.

e of the buckets, f and g are opened together, in 1 round, before any of them is used; what is opened is checked before
anything follows from a vote (`authenticated_bits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sedml.mpc.authenticated.authenticated_bits import Bytes, Words, spread, times
from sedml.mpc.garbling.circuit import Circuit
from sedml.mpc.kernel import kernel

_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Plan:
    """A circuit as arrays: the wires of all ANDs, in order. An operand that is not there is the constant 0."""

    circuit: Circuit
    out: npt.NDArray[np.int64]
    a: npt.NDArray[np.int64]
    a2: npt.NDArray[np.int64]
    b: npt.NDArray[np.int64]
    b2: npt.NDArray[np.int64]

    @property
    def ands(self) -> int:
        """How many."""
        return len(self.out)

    def spread(self, wires: npt.NDArray[np.generic]) -> None:
        """Fill in all XORs of [wires, ...], where inputs and ANDs are given."""
        for layer in self.circuit.layers:
            for gate in layer.xors:
                np.bitwise_xor(wires[gate.a], wires[gate.b], out=wires[gate.out])

    def layers(self) -> Iterator[slice]:
        """The ANDs of each layer."""
        start = 0
        for layer in self.circuit.layers:
            yield slice(start, start + layer.width)
            start += layer.width


@lru_cache(maxsize=16)
def plan_of(circuit: Circuit) -> Plan:
    """The plan of a circuit."""
    program = circuit.program
    return Plan(circuit, *np.maximum(program[program[:, 5] == 1][:, :5], 0).astype(np.int64).T.copy())


def weave(plan: Plan, inputs: npt.NDArray[np.generic], results: npt.NDArray[np.generic]) -> tuple[np.ndarray, ...]:
    """From masks of the inputs [inputs, ...] and of the ANDs [ands, ...]: those of operands a and b, and of outputs.

    Bits, or rows uint64[.., samples, 2]. The constants have no mask.
    """
    fast = kernel()
    if fast is not None and inputs.dtype == np.uint64:
        a, b = np.empty_like(results), np.empty_like(results)
        outputs = np.empty((plan.circuit.outputs.size, *results.shape[1:]), np.uint64)
        fast.weave(
            plan.circuit.program,
            plan.circuit.outputs.astype(np.int32),
            plan.circuit.wires,
            results.shape[1],
            np.ascontiguousarray(inputs),
            np.ascontiguousarray(results),
            a,
            b,
            outputs,
        )
        return a, b, outputs
    wires = np.empty((plan.circuit.wires, *inputs.shape[1:]), inputs.dtype)
    wires[:2] = 0
    wires[2 : 2 + len(inputs)] = inputs
    wires[plan.out] = results
    plan.spread(wires)
    return wires[plan.a] ^ wires[plan.a2], wires[plan.b] ^ wires[plan.b2], wires[plan.circuit.outputs]


def products(
    first: int,
    place: npt.NDArray[np.uint32],
    e: Bytes,
    f: Bytes,
    g: Bytes,
    leaky: Words,
    a: Words,
    b: Words,
    delta: Words | None,
) -> tuple[Words, Words]:
    """Rows of the products of the ANDs from number `first` on, and the words by which e, f and g are checked.

    place uint32[size - 1, n], e uint8[size - 1, n], f, g uint8[n], rows of leaky ANDs uint64[.., 3, 2] and of operands
    uint64[ands, samples, 2] -> the same shape and uint64[size + 1, n]. With `delta` the rows are those under it: the
    words are what the other server's must be.
    """
    n, shape = f.size, a.shape
    found, words = np.empty((n, 2), np.uint64), np.empty((len(e) + 2, n), np.uint64)
    a, b = a.reshape(n, 2), b.reshape(n, 2)
    place, e = np.ascontiguousarray(place), np.ascontiguousarray(e)
    fast = kernel()
    if fast is not None:
        none = np.zeros(2, np.uint64)
        fast.products(first, place, e, f, g, leaky, a, b, none if delta is None else delta, found, words)
        return found.reshape(shape), words
    for start in range(0, n, _AT_ONCE):
        here = slice(start, min(start + _AT_ONCE, n))
        x, y, z = (leaky[first + here.start : first + here.stop, i].copy() for i in range(3))
        for row, (where, opened) in enumerate(zip(place[:, here], e[:, here], strict=True)):
            other = leaky[where]
            x ^= other[:, 0]
            z ^= other[:, 2] ^ times(opened, other[:, 0])
            words[row, here] = y[:, 0] ^ other[:, 1, 0]
        words[-2, here], words[-1, here] = a[here, 0] ^ x[:, 0], b[here, 0] ^ y[:, 0]
        found[here] = z ^ times(f[here], y) ^ times(g[here], x)
        if delta is not None:
            found[here] ^= times(f[here] & g[here], delta)
            for row, opened in enumerate((*e[:, here], f[here], g[here])):
                words[row, here] ^= spread(opened) & delta[0]
    return found.reshape(shape), words
