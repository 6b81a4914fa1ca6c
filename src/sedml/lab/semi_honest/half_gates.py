"""Garbling: one server turns a circuit into tables, the other runs it on labels that tell it nothing.

A wire's label for 0 is a random block of 128 bits, that for 1 the same ^ Delta (free XOR: Kolesnikov & Schneider
2008). Delta's lowest bit is 1, so the lowest bits of the two labels differ: the *colour*. The garbler knows the label
for 0, the evaluator the one of the real value, the *active* one; its colour and that of the label for 0 are XOR
shares of the value.

AND by half-gates (Zahur, Rosulek & Evans 2015): with the labels A, B for 0 of its operands and their colours p, q,

    T_G = H(A, i) ^ H(A ^ Delta, i) ^ q Delta        W_G = H(A, i) ^ p T_G
    T_E = H(B, j) ^ H(B ^ Delta, j) ^ A              W_E = H(B, j) ^ q (T_E ^ A)            C = W_G ^ W_E

and the evaluator, with the active labels A, B and their colours s, u:  C = H(A, i) ^ s T_G ^ H(B, j) ^ u (T_E ^ A).

32 bytes an AND. H(x, i) = pi(pi(x) ^ i) ^ pi(x), pi AES-128 under a public key of its own: TMMO of Guo, Katz, Wang
and Yu (IEEE S&P 2020), tweakable circular correlation robust in the ideal-permutation model, which free XOR and
half-gates need. No tweak is used twice under one Delta: it has the number of the gate and the sample, and that of the
block.

Tables leave before the inputs are chosen. In the ideal-permutation model that is fine as long as labels are
unpredictable until they are sent: the simulator programs pi at the active labels when the inputs come (as in Bellare,
Hoang & Rogaway 2012 for a random oracle).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sedml.mpc.garbling.circuit import ONE, ZERO, And, Circuit, run
from sedml.mpc.kernel import Kernel, kernel
from sedml.mpc.permutation import permutation, permute, room_for

__all__ = ["Evaluator", "Garbler", "Part", "colours", "evaluate", "garble", "labels_of"]

Words = npt.NDArray[np.uint64]

_KEY = b"sedml half gates"  # public
_FIRST = np.uint64(1)


def colours(labels: Words) -> npt.NDArray[np.uint8]:
    """uint64[..., 2] -> 0/1 uint8[...]."""
    return (labels[..., 0] & _FIRST).astype(np.uint8)


def labels_of(zeros: Words, bits: npt.NDArray[np.uint8], delta: Words) -> Words:
    """The labels of bits 0/1 uint8[...], from the labels for 0, uint64[..., 2]."""
    fast = kernel()
    if fast is not None:
        found = np.empty(zeros.shape, np.uint64)
        fast.label(np.ascontiguousarray(zeros), np.ascontiguousarray(bits), delta, found)
        return found
    # All ones or zeros: no branch hangs on a bit.
    chosen = bits.astype(np.uint64)
    np.negative(chosen, out=chosen)
    return zeros ^ (chosen[..., np.newaxis] & delta)


class Part(NamedTuple):
    """Samples that are garbled or evaluated together."""

    samples: slice
    tweak: int
    """A number that no other tables have."""
    tables: Words
    """uint64[2 ands samples, 2]; an evaluator uses them up."""


def garble(circuit: Circuit, one: Words, two: Words, delta: Words, parts: Sequence[Part]) -> npt.NDArray[np.uint8]:
    """Labels for 0 of the inputs, uint64[.., samples, 2] in two parts -> colours of the outputs; fills the tables."""

    def play(fast: Kernel, part: Part, labels: Words) -> None:
        fast.garble(*_for_kernel(fast, circuit, one, two, part), delta, part.tweak, part.tables, labels)

    return _play(circuit, one, two, parts, play, lambda samples: Garbler(circuit, samples, delta).garble)


def evaluate(circuit: Circuit, one: Words, two: Words, parts: Sequence[Part]) -> npt.NDArray[np.uint8]:
    """Active labels of the inputs -> colours of the outputs. The tables are used up."""

    def play(fast: Kernel, part: Part, labels: Words) -> None:
        fast.evaluate(*_for_kernel(fast, circuit, one, two, part), part.tweak, part.tables, labels)

    return _play(circuit, one, two, parts, play, lambda samples: Evaluator(circuit, samples).evaluate)


def _play(
    circuit: Circuit,
    one: Words,
    two: Words,
    parts: Sequence[Part],
    in_kernel: Callable[[Kernel, Part, Words], None],
    side: Callable[[int], Callable[[Words, int, Words], Words]],
) -> npt.NDArray[np.uint8]:
    """All parts, in the kernel or by a side, which is made once for each size: colours uint8[outputs, samples]."""
    fast = kernel()
    found = np.empty((circuit.outputs.size, one.shape[1]), np.uint8)
    sides: dict[int, Callable[[Words, int, Words], Words]] = {}
    for part in parts:
        samples = part.samples.stop - part.samples.start
        if fast is None:
            if samples not in sides:
                sides[samples] = side(samples)
            inputs = np.concatenate([one[:, part.samples], two[:, part.samples]])
            labels = sides[samples](inputs, part.tweak, part.tables)
        else:
            labels = np.empty((circuit.outputs.size, samples, 2), np.uint64)
            in_kernel(fast, part, labels)
        found[:, part.samples] = colours(labels)
    return found


def _for_kernel(
    fast: Kernel, circuit: Circuit, one: Words, two: Words, part: Part
) -> tuple[bytes, npt.NDArray[np.int32], npt.NDArray[np.int32], int, Words, Words, int, int, int]:
    outputs, wires = circuit.outputs.astype(np.int32), circuit.wires
    one, two, start = np.ascontiguousarray(one), np.ascontiguousarray(two), part.samples.start
    return (
        fast.schedule(_KEY),
        circuit.program,
        outputs,
        wires,
        one,
        two,
        one.shape[1],
        start,
        part.samples.stop - start,
    )


class _Side:
    """Buffers of one side for so many samples at a time, used again and again."""

    blocks: int
    """Labels hashed for each operand: 2 by the garbler, 1 by the evaluator."""

    def __init__(self, circuit: Circuit, samples: int) -> None:
        self.circuit, self.samples = circuit, samples
        rows = circuit.widest * samples
        self.wires = np.empty((circuit.wires, samples, 2), np.uint64)
        self._operands = np.empty((self.blocks, 2, rows, 2), np.uint64)
        self._outer = np.empty((self.blocks, 2, rows, 2), np.uint64)
        self._inner, self._hashed = (room_for(self.blocks * 2 * rows) for _ in range(2))
        self._masks = np.empty((2, rows, 2), np.uint64)
        self._tweaks = np.zeros((2 * circuit.ands * samples, 2), np.uint64)
        self._tweaks[:, 0] = np.arange(len(self._tweaks))
        self._pi = permutation(_KEY)

    def begin(self, inputs: Words, tweak: int) -> None:
        """Inputs uint64[inputs, samples, 2]; `tweak` is of this batch alone."""
        self._tweaks[:, 1] = tweak
        self.wires[2 : 2 + self.circuit.inputs] = inputs
        self._done = 0

    def outputs(self) -> Words:
        """Labels of the outputs, uint64[outputs, samples, 2]."""
        return self.wires[self.circuit.outputs]

    def _gather(self, gates: Sequence[And]) -> tuple[Words, int]:
        """The operands of a layer uint64[blocks, 2, rows, 2], those of the labels as they are first, and its rows."""
        rows = sum(gate.width for gate in gates) * self.samples
        operands = self._operands.reshape(-1)[: self.blocks * 4 * rows].reshape(self.blocks, 2, rows, 2)
        start = 0
        for gate in gates:
            stop = start + gate.width * self.samples
            for into, one, other in ((operands[0, 0], gate.a, gate.a2), (operands[0, 1], gate.b, gate.b2)):
                place = into[start:stop].reshape(gate.width, self.samples, 2)
                if other is None:
                    np.copyto(place, self.wires[one])
                else:
                    np.bitwise_xor(self.wires[one], self.wires[other], out=place)
            start = stop
        return operands, rows

    def _hash(self, operands: Words, rows: int) -> Words:
        """H of uint64[blocks, 2, rows, 2]."""
        tweaks = self._tweaks[self._done : self._done + 2 * rows].reshape(2, rows, 2)
        inner = permute(self._pi, operands, self._inner)
        outer = self._outer.reshape(-1)[: operands.size].reshape(operands.shape)
        np.bitwise_xor(inner, tweaks, out=outer)
        hashed = permute(self._pi, outer, self._hashed)
        hashed ^= inner
        return hashed

    def _colour_masks(self, operands: Words, rows: int) -> Words:
        """All ones or zeros, by the colour of each operand: no branch hangs on it."""
        masks = self._masks.reshape(-1)[: 4 * rows].reshape(2, rows, 2)
        np.bitwise_and(operands[0, ..., :1], _FIRST, out=masks[..., :1])
        np.negative(masks[..., :1], out=masks[..., :1])
        masks[..., 1] = masks[..., 0]
        return masks

    def _place(self, gates: Sequence[And], found: Words, rows: int) -> None:
        """The labels of a layer's ANDs to their wires; the layer is done."""
        self._done += 2 * rows
        start = 0
        for gate in gates:
            stop = start + gate.width * self.samples
            self.wires[gate.out] = found[start:stop].reshape(gate.width, self.samples, 2)
            start = stop


class Garbler(_Side):
    """Knows Delta, and of every wire the label for 0."""

    blocks = 2

    def __init__(self, circuit: Circuit, samples: int, delta: Words) -> None:
        super().__init__(circuit, samples)
        self._delta = delta
        self.wires[ZERO], self.wires[ONE] = 0, delta

    def garble(self, inputs: Words, tweak: int, tables: Words) -> Words:
        """The labels for 0 of the outputs; `tables` uint64[2 ands samples, 2] is filled."""
        self.begin(inputs, tweak)

        def ands(gates: Sequence[And]) -> None:
            operands, rows = self._gather(gates)
            table = tables[self._done : self._done + 2 * rows].reshape(2, rows, 2)
            np.bitwise_xor(operands[0], self._delta, out=operands[1])
            hashed = self._hash(operands, rows)
            masks = self._colour_masks(operands, rows)
            np.bitwise_xor(hashed[0], hashed[1], out=table)
            table[0] ^= masks[1] & self._delta
            masks &= table
            table[1] ^= operands[0, 0]
            found = hashed[0, 0] ^ hashed[0, 1]
            found ^= masks[0]
            found ^= masks[1]
            self._place(gates, found, rows)

        run(self.circuit, self.wires, ands)
        return self.outputs()


class Evaluator(_Side):
    """Knows the active label of every wire, and nothing of its value."""

    blocks = 1

    def __init__(self, circuit: Circuit, samples: int) -> None:
        super().__init__(circuit, samples)
        self.wires[ZERO], self.wires[ONE] = 0, 0

    def evaluate(self, inputs: Words, tweak: int, tables: Words) -> Words:
        """The active labels of the outputs. `tables` is used up."""
        self.begin(inputs, tweak)

        def ands(gates: Sequence[And]) -> None:
            operands, rows = self._gather(gates)
            table = tables[self._done : self._done + 2 * rows].reshape(2, rows, 2)
            hashed = self._hash(operands, rows)
            masks = self._colour_masks(operands, rows)
            table[1] ^= operands[0, 0]
            masks &= table
            found = hashed[0, 0] ^ hashed[0, 1]
            found ^= masks[0]
            found ^= masks[1]
            self._place(gates, found, rows)

        run(self.circuit, self.wires, ands)
        return self.outputs()
