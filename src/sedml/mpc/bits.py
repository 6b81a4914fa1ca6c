"""Bits in memory and on the wire: planes of single bits, and dense packing of w-bit words.

A *plane* keeps one bit of every sample, eight samples to a byte (`planes: uint8[..., B]`, B = ceil(Q/8)),
so that one NumPy operation evaluates a gate for a whole block. Bytes rather than 64-bit words: NumPy's
bitwise loops run at the same speed on both, and a plane of 1,000 samples takes 125 bytes, not 128.

On the wire a w-bit word takes w bits: `pack` stores whole bytes as they are and the remaining w mod 8
bits as fields of 4, 2 and 1 bits, each a few vector operations.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sedml.mpc.kernel import kernel
from sedml.mpc.ring import Array, Ring

__all__ = ["Plane", "from_planes", "pack", "packed_size", "plane_bytes", "to_planes", "unpack"]

Plane = npt.NDArray[np.uint8]


def plane_bytes(samples: int) -> int:
    """Bytes of one plane of so many samples."""
    return (samples + 7) // 8


def to_planes(bits: Array) -> Plane:
    """bits: bool or 0/1 uint8[..., Q] -> uint8[..., B]."""
    return np.packbits(bits, axis=-1, bitorder="little")


def from_planes(planes: Array, samples: int) -> Plane:
    """planes: uint8[..., B] -> 0/1 uint8[..., Q]."""
    return np.unpackbits(planes, axis=-1, count=samples, bitorder="little")


def packed_size(count: int, width: int) -> int:
    """Bytes that `count` words of `width` bits take on the wire."""
    whole, rest = divmod(width, 8)
    return count * whole + sum((count * field + 7) // 8 for field in (4, 2, 1) if rest & field)


def pack(values: Array, width: int) -> npt.NDArray[np.uint8]:
    """values: uint[..., n] below 2^width -> uint8[..., packed_size(n)], row by row."""
    values = np.ascontiguousarray(values)
    if values.dtype.itemsize * 8 == width:
        return values.view(np.uint8)
    fast = kernel()
    if fast is not None and values.ndim == 1:
        packed = np.empty(packed_size(values.size, width), np.uint8)
        fast.pack(values, values.itemsize, width, packed)
        return packed
    whole, rest = divmod(width, 8)
    parts = [(values >> values.dtype.type(8 * i)).astype(np.uint8) for i in range(whole)]
    shift = 8 * whole
    for field in (4, 2, 1):
        if rest & field:
            small = (values >> values.dtype.type(shift)).astype(np.uint8) & np.uint8((1 << field) - 1)
            parts.append(_squeeze(small, field))
            shift += field
    return np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]


def unpack(packed: npt.NDArray[np.uint8], width: int, count: int) -> Array:
    """The inverse of `pack`: uint8[..., packed_size(count)] -> uint[..., count]."""
    dtype = Ring(width).dtype
    if dtype.itemsize * 8 == width:
        return np.ascontiguousarray(packed).view(dtype)
    fast = kernel()
    if fast is not None and packed.ndim == 1:
        found = np.empty(count, dtype)
        fast.unpack(np.ascontiguousarray(packed), dtype.itemsize, width, found)
        return found
    whole, rest = divmod(width, 8)
    first, *others = [8] * whole + [field for field in (4, 2, 1) if rest & field]
    start = (count * first + 7) // 8
    values: Array = _spread(packed[..., :start], first, count).astype(dtype, copy=False)
    shift = first
    for field in others:
        size = (count * field + 7) // 8
        values |= _spread(packed[..., start : start + size], field, count).astype(dtype) << dtype.type(shift)
        start += size
        shift += field
    return values


def _squeeze(small: npt.NDArray[np.uint8], field: int) -> npt.NDArray[np.uint8]:
    """Words of 1, 2 or 4 bits, one to a byte -> 8, 4 or 2 to a byte."""
    if field == 1:
        return np.packbits(small, axis=-1, bitorder="little")
    per_byte = 8 // field
    if small.shape[-1] % per_byte:
        padding = np.zeros((*small.shape[:-1], -small.shape[-1] % per_byte), np.uint8)
        small = np.concatenate([small, padding], axis=-1)
    out = small[..., 0::per_byte].copy()
    for i in range(1, per_byte):
        out |= small[..., i::per_byte] << np.uint8(field * i)
    return out


def _spread(packed: npt.NDArray[np.uint8], field: int, count: int) -> npt.NDArray[np.uint8]:
    """The inverse of `_squeeze`."""
    if field == 8:
        return packed.copy()
    if field == 1:
        return np.unpackbits(packed, axis=-1, count=count, bitorder="little")
    per_byte = 8 // field
    out = np.empty((*packed.shape[:-1], packed.shape[-1] * per_byte), np.uint8)
    for i in range(per_byte):
        out[..., i::per_byte] = (packed >> np.uint8(field * i)) & np.uint8((1 << field) - 1)
    return out[..., :count]
