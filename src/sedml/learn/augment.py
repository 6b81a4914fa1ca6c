"""Random numbers that depend on nothing but their coordinates, and random image transformations made of them.

A number is a hash of (seed, purpose, model, sample, slot). So a network draws the same augmentations whether it is
trained alone or with 249 others, on a CPU or a GPU, in one go or resumed: there is no generator whose state to keep.
Reproducible and fast, but not secret: noise and shares must never come from here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as nnf

from sedml.errors import InputError


def _signed(x: int) -> int:
    """A 64-bit constant as the signed integer that PyTorch wants."""
    x &= (1 << 64) - 1
    return x - (1 << 64) if x >> 63 else x


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_M1, _M2 = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)


def _mix(x: Tensor) -> Tensor:
    """The finaliser of splitmix64; int64 products wrap, and the masks make the shifts unsigned."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _M1
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _M2
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def draw(seed: int, purpose: int, coordinates: Tensor, slots: int) -> Tensor:
    """63-bit integers, int64[*coordinates.shape, slots]."""
    key = _mix(torch.tensor(_signed(seed * 0xD1342543DE82EF95 + purpose), dtype=torch.int64)).item()
    base = _mix(coordinates.to(torch.int64) * _GOLDEN + int(key))
    slot = torch.arange(1, slots + 1, dtype=torch.int64, device=coordinates.device) * _GOLDEN
    return _mix(base.unsqueeze(-1) + slot) & ((1 << 63) - 1)


def uniform(seed: int, purpose: int, coordinates: Tensor, slots: int) -> Tensor:
    """float32[*coordinates.shape, slots], uniform in [0, 1)."""
    return (draw(seed, purpose, coordinates, slots) >> 39).to(torch.float32) * 2.0**-24


@dataclass(frozen=True)
class Augmentation:
    """The largest size of each random change; 0 leaves it out."""

    rotation: float = 0.0  # degrees
    scale: float = 0.0  # 0.1: from 10% smaller to 10% larger, on each axis on its own
    shear: float = 0.0  # tangent of the angle
    shift: float = 0.0  # share of the width
    elastic: float = 0.0  # share of the width by which the knots of a 5 x 5 grid move
    cutout: float = 0.0  # side of the erased square, share of the width
    contrast: float = 0.0
    brightness: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"The augmentation's {name} is {value}.", "Give a number that is not negative.")
        if self.scale >= 1:
            raise InputError(f"The augmentation's scale is {self.scale}.", "Give a number below 1.")


_KNOTS = 5
_AFFINE_SLOTS, _PIXEL_SLOTS = 6, 4


@cache
def _spread(size: int, device: torch.device) -> Tensor:
    """float32[size, knots]: what each knot adds to each pixel (cubic interpolation as a matrix)."""
    knots = torch.eye(_KNOTS).view(1, 1, _KNOTS, _KNOTS)
    return nnf.interpolate(knots, (size, _KNOTS), mode="bicubic", align_corners=True)[0, 0].to(device)


def _centres(size: int, device: torch.device) -> Tensor:
    """The centres of the pixels, with the image from -1 to 1."""
    return (torch.arange(size, device=device) * 2 + 1) / size - 1


def _grid(u: Tensor, how: Augmentation, height: int, width: int) -> Tensor:
    """Where each pixel of the result comes from, float32[N, height, width, 2]."""
    r = (2.0 * u - 1.0).unsqueeze(-1).unsqueeze(-1)
    angle = r[:, 0] * math.radians(how.rotation)
    across, down = 1.0 + how.scale * r[:, 1], 1.0 + how.scale * r[:, 2]
    skew, cos, sin = how.shear * r[:, 3], torch.cos(angle), torch.sin(angle)
    x, y = _centres(width, u.device).view(1, 1, width), _centres(height, u.device).view(1, height, 1)
    # Rotation times shear times scale; the unit of a shift is half a width.
    grid = torch.stack(
        [
            (cos * across) * x + ((cos * skew - sin) * down * y + 2 * how.shift * r[:, 4]),
            (sin * across) * x + ((sin * skew + cos) * down * y + 2 * how.shift * r[:, 5]),
        ],
        -1,
    )
    if how.elastic:
        knots = r[:, _AFFINE_SLOTS:].reshape(-1, 2, _KNOTS, _KNOTS) * (2 * how.elastic)
        field = _spread(height, u.device) @ knots @ _spread(width, u.device).T
        grid = grid + field.permute(0, 2, 3, 1)
    return grid


def scaled(images: Tensor) -> Tensor:
    """Pixels as floats from 0 to 1; floats are taken to be that already."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


def augment(images: Tensor, how: Augmentation, seed: int, purpose: int, coordinates: Tensor) -> Tensor:
    """Scale and transform every image [*coordinates.shape, C, H, W] in its own way, given by the coordinates.

    Where nothing of an image is left, zeros come in.
    """
    shape, (c, h, w) = images.shape, images.shape[-3:]
    flat, ids = scaled(images).reshape(-1, c, h, w), coordinates.reshape(-1)
    slots = _AFFINE_SLOTS + (2 * _KNOTS**2 if how.elastic else 0)
    if how.rotation or how.scale or how.shear or how.shift or how.elastic:
        grid = _grid(uniform(seed, 2 * purpose, ids, slots), how, h, w)
        flat = nnf.grid_sample(flat.float(), grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    if how.contrast or how.brightness or how.cutout:
        r = 2.0 * uniform(seed, 2 * purpose + 1, ids, _PIXEL_SLOTS) - 1.0
        flat = flat * (1 + how.contrast * r[:, 0]).view(-1, 1, 1, 1) + (how.brightness * r[:, 1]).view(-1, 1, 1, 1)
        if how.cutout:
            y = torch.linspace(-1, 1, h, device=flat.device).view(1, 1, h, 1)
            x = torch.linspace(-1, 1, w, device=flat.device).view(1, 1, 1, w)
            out_y = (y - r[:, 2].view(-1, 1, 1, 1)).abs() > how.cutout
            out_x = (x - r[:, 3].view(-1, 1, 1, 1)).abs() > how.cutout
            flat = flat * (out_y | out_x)
    return flat.reshape(shape)
