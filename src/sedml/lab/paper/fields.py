"""Two more ways to share, which only dealt gadgets use: `Bits` is the XOR sharing ⟦x⟧ of single bits kept as planes,
`Words(w)` that of w-bit words."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from sedml.mpc.bits import plane_bytes
from sedml.mpc.ring import Array
from sedml.mpc.sharing import Additive, Field

__all__ = ["Bits", "Words"]


@dataclass(frozen=True)
class Bits(Field):
    """⟦x⟧: XOR-shared bits, uint8[..., B] planes of shape[-1] samples."""

    @property
    def _plane_shape(self) -> tuple[int, ...]:
        return (*self.shape[:-1], plane_bytes(self.shape[-1]))

    @property
    def drawn_bytes(self) -> int:
        """One bit a sample, rounded up to bytes."""
        return prod(self._plane_shape)

    @property
    def wire_bytes(self) -> int:
        """The same."""
        return self.drawn_bytes

    def draw(self, stream: npt.NDArray[np.uint8]) -> Array:
        """The stream itself."""
        return stream.reshape(self._plane_shape)

    def combine(self, share0: Array, share1: Array) -> Array:
        """XOR."""
        return share0 ^ share1

    def remainder(self, value: Array, share0: Array) -> Array:
        """XOR."""
        return value ^ share0

    def to_wire(self, share: Array) -> npt.NDArray[np.uint8]:
        """Planes are dense already."""
        return np.ascontiguousarray(share).reshape(-1)

    def from_wire(self, packed: npt.NDArray[np.uint8]) -> Array:
        """Planes are dense already."""
        return packed.reshape(self._plane_shape)


@dataclass(frozen=True)
class Words(Additive):
    """XOR shares of width-bit words."""

    def combine(self, share0: Array, share1: Array) -> Array:
        """XOR."""
        return share0 ^ share1

    def remainder(self, value: Array, share0: Array) -> Array:
        """XOR."""
        return value.astype(self.ring.dtype, copy=False) ^ share0
