"""How the laboratory's protocols share arrays between two servers: in memory and on the wire.

`Additive(w)` is [x] in Z_{2^w}, w bits a number on the wire. `Bits` is ⟦x⟧, XOR shares of single bits, kept as
*planes*: eight samples to a byte (uint8[..., B], B = ceil(Q/8)), so that one NumPy operation evaluates a gate for a
whole block. A field draws a uniform share from a pseudo-random stream, puts two shares together, and gives the second
share that a first one needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array, Ring

Plane = npt.NDArray[np.uint8]
Stream = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Additive:
    """[x]: additive shares in Z_{2^width}; the last axis of `shape` runs over samples."""

    shape: tuple[int, ...]
    width: int

    @property
    def ring(self) -> Ring:
        """Z_{2^width}."""
        return Ring(self.width)

    @property
    def drawn_bytes(self) -> int:
        """What one uniform share takes of a stream: a whole machine word each, cut down to `width` bits."""
        return prod(self.shape) * self.ring.dtype.itemsize

    @property
    def wire_bytes(self) -> int:
        """What one share takes on the wire: `width` bits each."""
        return plane_bytes(prod(self.shape) * self.width)

    def draw(self, stream: Stream) -> Array:
        """A uniform share from `drawn_bytes` bytes: words below 2^width."""
        return self.ring.reduce(stream.view(self.ring.dtype).reshape(self.shape))

    def to_wire(self, share: Array) -> Stream:
        """A share, densely packed: `width` bits each."""
        return pack(share, self.width)

    def from_wire(self, packed: Stream) -> Array:
        """The inverse of `to_wire`."""
        return unpack(packed, self.width, prod(self.shape)).reshape(self.shape)

    def combine(self, share0: Array, share1: Array) -> Array:
        """The value that two shares stand for: their sum modulo 2^width."""
        total: Array = (share0 + share1) & self.ring.mask
        return total

    def remainder(self, value: Array, share0: Array) -> Array:
        """The share that together with `share0` stands for `value`."""
        rest: Array = (value.astype(self.ring.dtype, copy=False) - share0) & self.ring.mask
        return rest


@dataclass(frozen=True)
class Bits:
    """⟦x⟧: XOR-shared bits, uint8[..., B] planes of shape[-1] samples."""

    shape: tuple[int, ...]

    @property
    def drawn_bytes(self) -> int:
        """What one uniform share takes of a stream: one bit a sample, rounded up to bytes."""
        return prod(self.shape[:-1]) * plane_bytes(self.shape[-1])

    @property
    def wire_bytes(self) -> int:
        """What one share takes on the wire: as much."""
        return self.drawn_bytes

    def draw(self, stream: Stream) -> Array:
        """A uniform share: the stream itself."""
        return stream.reshape(*self.shape[:-1], plane_bytes(self.shape[-1]))

    def combine(self, share0: Array, share1: Array) -> Array:
        """The value that two shares stand for: their XOR."""
        return share0 ^ share1

    def remainder(self, value: Array, share0: Array) -> Array:
        """The share that together with `share0` stands for `value`."""
        return value ^ share0

    def to_wire(self, share: Array) -> Stream:
        """A share, as it is: planes are dense already."""
        return np.ascontiguousarray(share).reshape(-1)

    def from_wire(self, packed: Stream) -> Array:
        """The inverse of `to_wire`."""
        return self.draw(packed)


Field: TypeAlias = Additive | Bits
"""An array of shares, of either kind."""


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
