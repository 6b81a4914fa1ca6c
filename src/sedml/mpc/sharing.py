"""Two-party secret sharing: a field says how an array is shared, in memory and on the wire.

`Additive(w)` is [x] in Z_{2^w}. A field draws a uniform share from a pseudo-random stream, puts two shares together,
and gives the second share that a first one needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from sedml.mpc.bits import pack, packed_size, unpack
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array, Ring

__all__ = ["Additive", "Field", "share"]

Stream = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Field(ABC):
    """An array of shares; the last axis of `shape` runs over samples."""

    shape: tuple[int, ...]

    @property
    @abstractmethod
    def drawn_bytes(self) -> int:
        """How much of a pseudo-random stream one uniform share takes."""

    @property
    @abstractmethod
    def wire_bytes(self) -> int:
        """How many bytes one share takes on the wire."""

    @abstractmethod
    def draw(self, stream: Stream) -> Array:
        """A uniform share from `drawn_bytes` bytes."""

    @abstractmethod
    def combine(self, share0: Array, share1: Array) -> Array:
        """The value that two shares stand for."""

    @abstractmethod
    def remainder(self, value: Array, share0: Array) -> Array:
        """The share that together with `share0` stands for `value`."""

    @abstractmethod
    def to_wire(self, share: Array) -> Stream:
        """A share, densely packed."""

    @abstractmethod
    def from_wire(self, packed: Stream) -> Array:
        """The inverse of `to_wire`."""


@dataclass(frozen=True)
class Additive(Field):
    """[x]: additive shares in Z_{2^width}."""

    width: int

    @property
    def ring(self) -> Ring:
        """Z_{2^width}."""
        return Ring(self.width)

    @property
    def drawn_bytes(self) -> int:
        """A whole machine word each, cut down to `width` bits."""
        return prod(self.shape) * self.ring.dtype.itemsize

    @property
    def wire_bytes(self) -> int:
        """`width` bits each."""
        return packed_size(prod(self.shape), self.width)

    def draw(self, stream: Stream) -> Array:
        """Uniform words below 2^width."""
        words = stream.view(self.ring.dtype).reshape(self.shape)
        return words if words.dtype.itemsize * 8 == self.width else words & self.ring.mask

    def to_wire(self, share: Array) -> Stream:
        """`width` bits each."""
        return pack(share.reshape(-1), self.width)

    def from_wire(self, packed: Stream) -> Array:
        """The inverse of `to_wire`."""
        return unpack(packed, self.width, prod(self.shape)).reshape(self.shape)

    def combine(self, share0: Array, share1: Array) -> Array:
        """Addition modulo 2^width."""
        total: Array = (share0 + share1) & self.ring.mask
        return total

    def remainder(self, value: Array, share0: Array) -> Array:
        """Subtraction modulo 2^width."""
        rest: Array = (value.astype(self.ring.dtype, copy=False) - share0) & self.ring.mask
        return rest


def share(field: Field, value: Array, seed: Seed, label: str) -> tuple[Array, Array]:
    """Split `value`; the first share is the stream of (seed, label), so it can be sent as the seed."""
    share0 = field.draw(expand(seed, label, field.drawn_bytes))
    return share0, field.remainder(value, share0)
