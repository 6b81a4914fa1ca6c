"""How the laboratory's protocols share arrays between two servers: in memory and on the wire.

`Additive(w)` is [x] in Z_{2^w}, w bits a number on the wire. `Bits` is ⟦x⟧, XOR shares of single bits, kept as
*planes*: eight samples to a byte (uint8[..., B], B = ceil(Q/8)), so that one NumPy operation evaluates a gate for a
whole block. A field draws a uniform share from a pseudo-random stream, puts two shares together, and gives the second
share that a first one needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array, Ring

Plane = npt.NDArray[np.uint8]
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
        return plane_bytes(prod(self.shape) * self.width)

    def draw(self, stream: Stream) -> Array:
        """Uniform words below 2^width."""
        return self.ring.reduce(stream.view(self.ring.dtype).reshape(self.shape))

    def to_wire(self, share: Array) -> Stream:
        """`width` bits each."""
        return pack(share, self.width)

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


@dataclass(frozen=True)
class Bits(Field):
    """⟦x⟧: XOR-shared bits, uint8[..., B] planes of shape[-1] samples."""

    @property
    def drawn_bytes(self) -> int:
        """One bit a sample, rounded up to bytes."""
        return prod(self.shape[:-1]) * plane_bytes(self.shape[-1])

    @property
    def wire_bytes(self) -> int:
        """The same."""
        return self.drawn_bytes

    def draw(self, stream: Stream) -> Array:
        """The stream itself."""
        return stream.reshape(*self.shape[:-1], plane_bytes(self.shape[-1]))

    def combine(self, share0: Array, share1: Array) -> Array:
        """XOR."""
        return share0 ^ share1

    def remainder(self, value: Array, share0: Array) -> Array:
        """XOR."""
        return value ^ share0

    def to_wire(self, share: Array) -> Stream:
        """Planes are dense already."""
        return np.ascontiguousarray(share).reshape(-1)

    def from_wire(self, packed: Stream) -> Array:
        """Planes are dense already."""
        return self.draw(packed)


def share(field: Field, value: Array, seed: Seed, label: str) -> tuple[Array, Array]:
    """Split `value`; the first share is the stream of (seed, label), so it can be sent as the seed."""
    share0 = field.draw(expand(seed, label, field.drawn_bytes))
    return share0, field.remainder(value, share0)


def plane_bytes(samples: int) -> int:
    """Bytes of one plane of so many samples."""
    return (samples + 7) // 8


def to_planes(bits: Array) -> Plane:
    """bits: bool or 0/1 uint8[..., Q] -> uint8[..., B]."""
    return np.packbits(bits, axis=-1, bitorder="little")


def from_planes(planes: Array, samples: int) -> Plane:
    """planes: uint8[..., B] -> 0/1 uint8[..., Q]."""
    return np.unpackbits(planes, axis=-1, count=samples, bitorder="little")


def pack(values: Array, width: int) -> Stream:
    """values: uint[...] below 2^width, of n numbers -> uint8[ceil(n width / 8)]."""
    octets = np.ascontiguousarray(values).reshape(-1, 1).view(np.uint8)
    return to_planes(from_planes(octets, width).reshape(-1))


def unpack(packed: Stream, width: int, count: int) -> Array:
    """The inverse of `pack`: uint[count]."""
    octets = to_planes(from_planes(packed, count * width).reshape(count, width))
    words = np.zeros((count, Ring(width).dtype.itemsize), np.uint8)
    words[:, : octets.shape[1]] = octets
    return words.view(Ring(width).dtype)[:, 0]
