"""The inputs of a block's circuits, and their masks: shares of the counts, noise, and T.

Bits are in planes, [bits x classes, samples], the lowest bits of all classes first. In the half that a server garbles
its masks come from one section of the transfers, in the half that it evaluates from another. The owner of an input
knows its whole mask b: its part is b, the other's is 0; the owner has b Delta for `own` and what it received for
`peer`, the other has what it sent for `own` and 0 for `peer`.

The garbler's shares have M = value ^ mask. What the evaluator puts in *is* its mask r, as both subtracted it before
(`block`), and noise becomes its own mask by a public shift: M = 0, and the label for it is 0. That is safe only because
M is never 1 there: the other label is Delta. T is public: its mask is 0, M is T.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sedml.mpc.authenticated.authenticated_bits import Bytes, Words, times
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array
from sedml.protocol.block_shape import Shape


@dataclass(frozen=True)
class InputMasks:
    """A server's part of the masks of all inputs, and its own noise in them."""

    shape: Shape
    garblers: Transfers
    """Of each server's inputs in the half that it garbles."""
    evaluators: Transfers
    """In the half that it evaluates."""
    noise: tuple[Bytes, Bytes] = field(repr=False)
    """This server's noise in planes: of the half that it garbles, and of the other one."""

    @property
    def shifts(self) -> Bytes:
        """What makes its noise the mask: uint8[2, noise planes, half], to be told."""
        masks = (self._noise(part.choices) for part in (self.garblers, self.evaluators))
        return np.stack([noise ^ mask for noise, mask in zip(self.noise, masks, strict=True)])

    def shares(self, garbles: bool) -> Bytes:
        """Masks of its shares of the counts, as garbler or as evaluator."""
        return self._counts((self.garblers if garbles else self.evaluators).choices)

    def bits(self, garbles: bool) -> Bytes:
        """Its part of the masks of a half: uint8[inputs, half]."""
        counts, noise = self.shares(garbles), self.noise[0 if garbles else 1]
        return self._in_order(garbles, (counts, noise), (np.zeros_like(counts), np.zeros_like(noise)))

    def own(self, garbles: bool, delta: Words, their_shifts: Bytes) -> Words:
        """The same of its `own` rows: uint64[inputs, half, 2]."""
        counts, noise = self.shares(garbles), self.noise[0 if garbles else 1]
        # Their garbling section is of the half that this server evaluates, and the other way round.
        section, shift = (self.evaluators, their_shifts[1]) if garbles else (self.garblers, their_shifts[0])
        theirs = self._counts(section.sent), self._noise(section.sent) ^ times(shift, delta)
        return self._in_order(garbles, (times(counts, delta), times(noise, delta)), theirs)

    def peer(self, garbles: bool) -> Words:
        """The same of its `peer` rows."""
        received = (self.garblers if garbles else self.evaluators).received
        mine = self._counts(received), self._noise(received)
        return self._in_order(garbles, mine, (np.zeros_like(mine[0]), np.zeros_like(mine[1])))

    def _counts(self, section: Array) -> Array:
        return self._planes(section)[: self.shape.planes[0]]

    def _noise(self, section: Array) -> Array:
        return self._planes(section)[self.shape.planes[0] :]

    def _planes(self, section: Array) -> Array:
        return section.reshape(sum(self.shape.planes), self.shape.half, *section.shape[1:])

    def _in_order(self, garbles: bool, mine: tuple[Array, Array], theirs: tuple[Array, Array]) -> Array:
        one, two = (mine, theirs) if garbles else (theirs, mine)
        threshold = np.zeros((self.shape.widths.value, *mine[0].shape[1:]), mine[0].dtype)
        return np.concatenate([one[0], two[0], one[1], two[1], threshold])


@dataclass(frozen=True)
class InputLabels:
    """The garbler's labels for M = 0."""

    shares: Words = field(repr=False)
    """uint64[count planes, half, 2]."""
    threshold: Words = field(repr=False)
    """uint64[value bits, 2]: the same for all samples."""


def draw_labels(shape: Shape) -> InputLabels:
    """Fresh ones."""
    planes, value = shape.planes[0], shape.widths.value
    drawn = expand(Seed.random(), "labels", 16 * (planes * shape.half + value)).view(np.uint64).reshape(-1, 2)
    return InputLabels(drawn[value:].reshape(planes, shape.half, 2), drawn[:value])


def all_inputs(shape: Shape, shares: Array, threshold: Array) -> Array:
    """Labels or M of all inputs, where those of the evaluator's shares and of noise are 0: [inputs, half, ..]."""
    planes, noise = shape.planes
    whole = np.zeros((2 * (planes + noise) + len(threshold), *shares.shape[1:]), shares.dtype)
    whole[:planes] = shares
    whole[2 * (planes + noise) :] = threshold[:, np.newaxis]
    return whole


def to_planes(numbers: Array, width: int) -> Bytes:
    """uint[N, q] -> 0/1 uint8[width N, q]."""
    wide = numbers.astype(np.uint64)
    return np.concatenate([(wide >> np.uint64(bit)) & np.uint64(1) for bit in range(width)]).astype(np.uint8)


def from_planes(planes: Bytes, width: int) -> Words:
    """The inverse."""
    total = np.zeros((len(planes) // width, planes.shape[1]), np.uint64)
    for bit, plane in enumerate(planes.reshape(width, *total.shape)):
        total |= plane.astype(np.uint64) << np.uint64(bit)
    return total
