"""What teachers and students that are stacked networks share: settings, the optimiser, how trained ones answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sedml.errors import InputError
from sedml.learn.networks import Method, Parameters, build_network, compute_dtype, forward
from sedml.learn.shards import pixels

__all__ = ["Trained", "check_training", "learning_rate", "logits", "make_optimiser", "scaled", "set_rate"]


class _Training(Protocol):
    """The settings that every training has."""

    @property
    def network(self) -> str: ...
    @property
    def steps(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def warmup(self) -> float: ...
    @property
    def precision(self) -> str: ...
    @property
    def method(self) -> Method: ...


Config = TypeVar("Config", bound=_Training)


@dataclass(frozen=True, repr=False)
class Trained(Generic[Config]):
    """Trained networks of one shape: every parameter is [K, ...]."""

    config: Config
    parameters: Parameters
    image: tuple[int, int, int]
    """(channels, height, width) of the images it was trained on."""
    classes: int

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __repr__(self) -> str:
        kind = type(self).__name__
        return f"{kind}({len(self)} x {self.config.network}, image={self.image}, classes={self.classes})"


def check_training(config: _Training, *counts: str) -> None:
    """Raise unless the named settings are at least 1, the learning rate is positive, and the network exists."""
    for name in counts:
        if getattr(config, name) < 1:
            raise InputError(f"The {name} of the training is {getattr(config, name)}.", "Give at least 1.")
    if not (math.isfinite(config.learning_rate) and config.learning_rate > 0):
        raise InputError(f"The learning rate is {config.learning_rate}.", "Give a positive number.")
    build_network(config.network)


def make_optimiser(parameters: Parameters, config: _Training) -> torch.optim.AdamW:
    """AdamW over these parameters, which learn from now on."""
    for parameter in parameters.values():
        parameter.requires_grad_()
    return torch.optim.AdamW(
        parameters.values(), lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
    )  # fmt: skip


def learning_rate(peak: float, step: int, steps: int, warmup: float) -> float:
    """A linear rise, then half a cosine down to 1 % of the peak."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return peak * (step + 1) / rise
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - rise))))


def set_rate(optimiser: torch.optim.AdamW, config: _Training, step: int) -> None:
    """Set the learning rate of a step."""
    for group in optimiser.param_groups:
        group["lr"] = learning_rate(config.learning_rate, step, config.steps, config.warmup)


def scaled(images: Tensor) -> Tensor:
    """Pixels as floats from 0 to 1; floats are taken to be that already."""
    return images.float() / 255 if images.dtype == torch.uint8 else images


@torch.no_grad()
def logits(
    trained: Trained[Any], images: NDArray[Any], at_once: int, *, hidden: bool = False
) -> Iterator[tuple[slice, Tensor]]:
    """What every network says of the images [Q, (C,) H, W]: the next few of them, and float32[K, few, classes].

    With `hidden`, what its last layer sees, float32[K, few, width]. Yields nothing where there are no images.
    """
    array = pixels(images, "images")
    if array.shape[1:] != trained.image:
        raise InputError(
            f"The images have shape {array.shape[1:]}.", f"Give images of shape {trained.image}, as in the training."
        )
    config, network = trained.config, build_network(trained.config.network)
    device = next(iter(trained.parameters.values())).device
    dtype = compute_dtype(config.precision, device)
    for start in range(0, len(array), at_once):
        some = slice(start, start + at_once)
        part = scaled(torch.from_numpy(np.ascontiguousarray(array[some])).to(device)).to(dtype)
        stacked = part.expand(len(trained), *part.shape)
        yield some, forward(network, trained.parameters, stacked, config.method, hidden=hidden)
