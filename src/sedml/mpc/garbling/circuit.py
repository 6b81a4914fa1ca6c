"""Boolean circuits as data: vectors of wires, and the gates between them in layers.

A circuit is written down once for a task and run for all samples side by side (`mpc.authenticated`). Gates take vectors
of wires, int[n], and give new ones; XOR and NOT cost nothing when garbled, so only the ANDs count, and all ANDs
that can be done at the same time form one layer.

Wire 0 is the constant 0, wire 1 the constant 1, and NOT is XOR with it. The inputs follow, then what the gates give.

Numbers are bit-sliced: Wires[bits, n], lowest bit first, two's complement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Wires: TypeAlias = npt.NDArray[np.int64]
"""Numbers of wires."""
Place: TypeAlias = slice | Wires
"""Where the wires of a gate are: a slice where they lie evenly, which needs no copy."""

ZERO, ONE = 0, 1


@dataclass(frozen=True)
class Xor:
    """out = a ^ b, wire by wire."""

    out: slice
    a: Place
    b: Place


@dataclass(frozen=True)
class And:
    """out = (a ^ a2) & (b ^ b2), wire by wire; without a2 or b2 that part is left out."""

    out: slice
    a: Place
    a2: Place | None
    b: Place
    b2: Place | None

    @property
    def width(self) -> int:
        """How many wires."""
        return int(self.out.stop - self.out.start)


@dataclass(frozen=True)
class Layer:
    """XORs in their order, then ANDs that do not depend on each other."""

    xors: tuple[Xor, ...]
    ands: tuple[And, ...]

    @property
    def width(self) -> int:
        """ANDs of all vectors together."""
        return sum(gate.width for gate in self.ands)


@dataclass(frozen=True, eq=False)
class Circuit:
    """Layers of gates, and where inputs and outputs are; compared by identity."""

    inputs: int
    wires: int
    layers: tuple[Layer, ...] = field(repr=False)
    outputs: Wires = field(repr=False)

    @property
    def ands(self) -> int:
        """How many AND gates a sample takes."""
        return sum(layer.width for layer in self.layers)

    @cached_property
    def program(self) -> npt.NDArray[np.int32]:
        """Gate by gate: int32[gates, 6] of out, a, a2, b, b2 (-1 where there is none), and whether it is an AND."""
        rows = [np.empty((0, 6), np.int32)]
        for layer in self.layers:
            rows += [_instructions(0, xor.out, xor.a, None, xor.b, None) for xor in layer.xors]
            rows += [_instructions(1, gate.out, gate.a, gate.a2, gate.b, gate.b2) for gate in layer.ands]
        return np.concatenate(rows)


class Builder:
    """Writes a circuit down. Every gate goes into the first layer in which its operands are there."""

    def __init__(self, inputs: int) -> None:
        self._inputs = inputs
        self._levels = [0] * (inputs + 2)
        self._xors: list[tuple[int, Xor]] = []
        self._ands: list[tuple[int, And]] = []

    @property
    def inputs(self) -> Wires:
        """The input wires, in order."""
        return np.arange(2, 2 + self._inputs)

    def xor(self, a: Wires, b: Wires) -> Wires:
        """a ^ b."""
        a, b = np.broadcast_arrays(a, b)
        out, level = self._new(a.size, a, b)
        self._xors.append((level, Xor(out, _place(a), _place(b))))
        return np.arange(out.start, out.stop).reshape(a.shape)

    def not_(self, a: Wires) -> Wires:
        """1 ^ a."""
        return self.xor(a, np.full_like(a, ONE))

    def and_(self, a: Wires, b: Wires, *, a2: Wires | None = None, b2: Wires | None = None) -> Wires:
        """(a ^ a2) & (b ^ b2)."""
        shape = np.broadcast_shapes(*(part.shape for part in (a, b, a2, b2) if part is not None))
        wide = [None if part is None else np.broadcast_to(part, shape) for part in (a, a2, b, b2)]
        out, level = self._new(int(np.prod(shape)), *(part for part in wide if part is not None), later=1)
        places = [None if part is None else _place(part) for part in wide]
        self._ands.append((level - 1, And(out, *places)))  # type: ignore[arg-type]
        return np.arange(out.start, out.stop).reshape(shape)

    def build(self, outputs: Wires) -> Circuit:
        """The circuit."""
        last = 1 + max((level for level, _ in (*self._xors, *self._ands)), default=0)
        layers = tuple(
            Layer(
                tuple(gate for at, gate in self._xors if at == level),
                tuple(gate for at, gate in self._ands if at == level),
            )
            for level in range(last + 1)
        )
        kept = tuple(layer for layer in layers if layer.xors or layer.ands)
        return Circuit(self._inputs, len(self._levels), kept, np.asarray(outputs))

    def _new(self, count: int, *operands: Wires, later: int = 0) -> tuple[slice, int]:
        level = max(max(self._levels[wire] for wire in operand.flat) for operand in operands) + later
        start = len(self._levels)
        self._levels += [level] * count
        return slice(start, start + count), level


def _place(wires: Wires) -> Place:
    flat = wires.reshape(-1)
    if flat.size == 1:
        return slice(int(flat[0]), int(flat[0]) + 1)
    steps = np.diff(flat)
    step = int(steps[0])
    if step > 0 and bool((steps == step).all()):
        return slice(int(flat[0]), int(flat[-1]) + 1, step)
    return flat.copy()


def _instructions(is_and: int, out: slice, *operands: Place | None) -> npt.NDArray[np.int32]:
    """int32[n, 6] of a vector of gates."""
    found = np.full((out.stop - out.start, 6), -1, np.int32)
    for column, place in enumerate((out, *operands)):
        if place is not None:
            found[:, column] = np.arange(place.stop)[place] if isinstance(place, slice) else place
    found[:, -1] = is_and
    return found
