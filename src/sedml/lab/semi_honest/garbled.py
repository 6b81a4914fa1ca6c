"""Algorithm 1 in three rounds (`protocol="garbled"`): check and label in one garbled circuit for each sample.

Each server garbles the circuit of one half of the samples and evaluates that of the other half
(`sedml.mpc.garbling`).

Before the votes are known:
1. Correlated transfers with Delta as the offset: the evaluator has the labels of random numbers r, the garbler those
   for 0 (`sedml.mpc.ot.extension`).
2. The garbler draws labels for its own inputs, garbles, and sends the tables and the colours of t's labels for 0.

With the votes there, for counts x = x_G + x_E in shares, noise and threshold included:
1. The evaluator sends x_E - r. The garbler's input is x_G + (x_E - r), the evaluator's is r.
2. The garbler sends the labels of its input.
3. The evaluator runs the circuit, reads t by the colours it has, and tells it. The colours of the index are XOR
   shares of it.

Same answers as `fused`. The circuit finds a label for every sample, also where there is no consensus; those shares
are dropped before anything leaves a server, and traffic does not depend on t. 3 rounds for any number of classes; 32
bytes an AND before, 16 bytes a bit of the garbler's input with the votes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sedml.lab.semi_honest.half_gates import Part, evaluate, garble, labels_of
from sedml.lab.semi_honest.lookup import halves, joined
from sedml.lab.semi_honest.party import Party, Pieces
from sedml.lab.semi_honest.recipe import Recipe
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.mpc.garbling.arithmetic import add, all_of, highest, less, negative
from sedml.mpc.garbling.circuit import Builder, Circuit
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array, Ring
from sedml.mpc.sharing import Additive
from sedml.mpc.steps import Steps

__all__ = ["GarbledHalf", "circuit_of", "consensus_and_label", "recipe"]

_AT_ONCE = 256
"""Samples garbled or evaluated together: enough that calls cost little, few enough for the caches."""


@lru_cache(maxsize=16)
def circuit_of(classes: int, threshold_width: int, label_width: int) -> Circuit:
    """Both servers' shares of all numbers in, bit by bit -> t and the bits of the label's index.

    Inputs: the garbler's n_i + g - T, bit by bit, then its noisy counts, and the same of the evaluator.
    """
    build = Builder(2 * classes * (threshold_width + label_width))
    garbler, evaluator = build.inputs.reshape(2, threshold_width + label_width, classes)
    below = negative(build, garbler[:threshold_width], evaluator[:threshold_width])
    index, _ = highest(build, add(build, garbler[threshold_width:], evaluator[threshold_width:]), less)
    return build.build(np.concatenate([build.not_(all_of(build, below)), index]))


@dataclass(frozen=True)
class GarbledHalf(Recipe):
    """Half of a block's samples garbled by this server, half by the other."""

    classes: int
    samples: int
    threshold_width: int
    label_width: int

    @property
    def half(self) -> int:
        """Samples that each server garbles."""
        return -(-self.samples // 2)

    @property
    def bits(self) -> int:
        """How many bits one server's inputs for a sample have."""
        return self.classes * (self.threshold_width + self.label_width)

    @property
    def circuit(self) -> Circuit:
        """What is garbled."""
        return circuit_of(self.classes, self.threshold_width, self.label_width)

    @property
    def transfers(self) -> int:
        """One each way a bit of the evaluator's input."""
        return self.bits * self.half

    def prepare(self, role: int, ots: Transfers, coins: Seed) -> Steps[Pieces]:
        """Make as garbler own labels, delta, colours of the index; as evaluator r, its labels, tables, colours of t."""
        shape = self.bits, self.half
        own = expand(coins, "labels", 16 * self.transfers).view(np.uint64).reshape(*shape, 2)
        theirs = ots.sent.reshape(*shape, 2)
        tables = np.empty((2 * self.circuit.ands * self.half, 2), np.uint64)
        zeros = garble(self.circuit, own, theirs, ots.delta, _parts(self, ots.first, tables))
        their_tables, their_t = yield "make", [tables, np.packbits(zeros[0], bitorder="little")]
        return {
            "own": own,
            "delta": ots.delta,
            "index": zeros[1:],
            "first": np.array(ots.first, np.uint64),
            "r": ots.choices.reshape(shape),
            "active": ots.received.reshape(*shape, 2),
            "tables": their_tables,
            "t": np.unpackbits(their_t, count=self.half, bitorder="little"),
        }


def recipe(task: Task, samples: int) -> GarbledHalf:
    """What a block of so many samples needs."""
    return GarbledHalf(task.classes, samples, task.widths.threshold, task.widths.label)


def consensus_and_label(
    party: Party, task: Task, counts: Array, g: Array, g_i: Array
) -> tuple[npt.NDArray[np.bool_], Array]:
    """counts: uint[N, Q] shares, this server's noise int[Q] and int[N, Q] -> consensus, public, and XOR shares of i*.

    The shares uint[Q] are of all samples; those without consensus must not leave the server.
    """
    samples = counts.shape[-1]
    spec, pieces = recipe(task, samples), party.take("garbled")
    rings = Ring(task.widths.threshold), Ring(task.widths.label)
    shift = g.astype(np.int64) - task.threshold if party.role == 0 else g.astype(np.int64)
    numbers = [
        (rings[0].reduce(counts) + rings[0].reduce(shift)) & rings[0].mask,
        (rings[1].reduce(counts) + rings[1].reduce(g_i)) & rings[1].mask,
    ]
    cut = spec.threshold_width * spec.classes
    r = [_numbers(part, ring.width) for part, ring in zip((pieces["r"][:cut], pieces["r"][cut:]), rings, strict=True)]
    layouts = [Additive((spec.classes, spec.half), ring.width) for ring in rings]
    mine, asked = zip(*(halves(party.role, one) for one in numbers), strict=True)
    masked = [
        layout.to_wire((one - mask.astype(one.dtype)) & ring.mask)
        for layout, ring, one, mask in zip(layouts, rings, asked, r, strict=True)
    ]
    came = party.swap("garbled/masked", masked)
    inputs = [
        _bits((one + layout.from_wire(packed)) & ring.mask, ring.width)
        for layout, ring, one, packed in zip(layouts, rings, mine, came, strict=True)
    ]
    own = labels_of(pieces["own"], np.concatenate(inputs), pieces["delta"])
    [labels] = party.swap("garbled/labels", [own])

    parts = _parts(spec, int(pieces["first"]), pieces["tables"])
    found = evaluate(spec.circuit, labels, pieces["active"], parts)
    t = found[0] ^ pieces["t"]
    [told] = party.swap("garbled/t", [np.packbits(t, bitorder="little")])
    their_t = np.unpackbits(told, count=spec.half, bitorder="little")
    consensus: npt.NDArray[np.bool_] = joined(party.role, their_t, t, samples).astype(np.bool_)
    index = np.zeros(samples, Ring(task.index_width).dtype)
    for bit, (garbled, evaluated) in enumerate(zip(pieces["index"], found[1:], strict=True)):
        index |= joined(party.role, garbled, evaluated, samples).astype(index.dtype) << index.dtype.type(bit)
    return consensus, index


def _parts(spec: GarbledHalf, first: int, tables: Array) -> list[Part]:
    """What is garbled together, in equal parts where that goes. No two under one Delta have a tweak in common.

    Transfers are counted over all blocks of an extension, and a block takes at least one a sample.
    """
    found = []
    rows = 2 * spec.circuit.ands
    size = -(-spec.half // -(-spec.half // _AT_ONCE))
    for start in range(0, spec.half, size):
        stop = min(start + size, spec.half)
        found.append(Part(slice(start, stop), first + start, tables[rows * start : rows * stop]))
    return found


def _bits(numbers: Array, width: int) -> npt.NDArray[np.uint8]:
    """uint[N, q] -> 0/1 uint8[width N, q], the lowest bits of all first."""
    planes = [(numbers >> numbers.dtype.type(bit)) & numbers.dtype.type(1) for bit in range(width)]
    return np.concatenate(planes).astype(np.uint8)


def _numbers(bits: npt.NDArray[np.uint8], width: int) -> Array:
    """The inverse."""
    planes = bits.reshape(width, -1, bits.shape[-1])
    total = np.zeros(planes.shape[1:], np.uint64)
    for bit, plane in enumerate(planes):
        total |= plane.astype(np.uint64) << np.uint64(bit)
    return total
