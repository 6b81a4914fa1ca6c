"""What teachers and students that are stacked networks share: settings, images as they take them, how they answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sedml.errors import InputError
from sedml.learn.augment import Augmentation, augment, draw
from sedml.learn.networks import NETWORKS, Parameters, build_network, forward

IDS = 1 << 32
"""More samples than one model ever draws: a model's first number is its own number times this."""

_ANSWERED_AT_ONCE = {"cuda": 16384, "cpu": 512}
"""Images in flight, whatever K is: they fill a GPU, and stay within reach of a CPU's caches."""

_LOOK = 31  # purposes of random numbers, from here on one for each look
_AS_IT_IS = Augmentation()


@dataclass(frozen=True)
class Training:
    """The settings that every training has."""

    network: str = "small"
    steps: int = 600
    batch: int = 32
    learning_rate: float = 3e-3

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, int) and value < 1:
                raise InputError(f"The {name} of the training is {value}.", "Give at least 1.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise InputError(f"The learning rate is {self.learning_rate}.", "Give a positive number.")
        if self.network not in NETWORKS:
            raise InputError(f"There is no network called {self.network!r}.", f"Use one of {', '.join(NETWORKS)}.")


@dataclass(frozen=True, repr=False)
class TrainedNetworks:
    """Trained networks of one shape: every parameter is [K, ...]."""

    network: str
    parameters: Parameters
    image: tuple[int, int, int]
    """(channels, height, width) of the images they were trained on."""
    classes: int

    def __len__(self) -> int:
        return len(next(iter(self.parameters.values())))

    def __repr__(self) -> str:
        return f"TrainedNetworks({len(self)} x {self.network}, image={self.image}, classes={self.classes})"


class Chooser:
    """Draws with replacement for each of K models from its own list of samples."""

    def __init__(self, lists: Sequence[NDArray[np.int64]], device: torch.device) -> None:
        self._sizes = torch.tensor([len(own) for own in lists], device=device).unsqueeze(1)
        self._starts = self._sizes.cumsum(0) - self._sizes
        self._samples = torch.from_numpy(np.concatenate(lists)).to(device)

    def choose(self, seed: int, purpose: int, ids: Tensor) -> Tensor:
        """The numbers of samples for ids int64[K, batch]."""
        return self._samples[self._starts + draw(seed, purpose, ids, 1).squeeze(-1) % self._sizes]


def pixels(images: NDArray[Any], what: str) -> NDArray[Any]:
    """Images [S, H, W] or [S, H, W, C] as [S, C, H, W], uint8 or float32."""
    images = np.asarray(images)
    if images.ndim == 3:
        images = images[..., None]
    if images.ndim != 4 or 0 in images.shape[1:]:
        raise InputError(
            f"The {what} have the shape {images.shape}.", "Pass an array [samples, height, width(, channels)]."
        )
    images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    if images.dtype == np.uint8:
        return images
    if images.dtype.kind not in "fiub":
        raise InputError(f"The {what} are of type {images.dtype}.", "Pass numbers: uint8, or floats from 0 to 1.")
    images = images.astype(np.float32)
    if images.size and not np.abs(images).max() <= 10:  # NaN fails too
        raise InputError(f"The {what} hold values beyond ±10, or NaN.", "Scale the pixels to 0 to 1.")
    return images


def check_labels(labels: Any, samples: int, classes: int) -> NDArray[np.int64]:  # noqa: ANN401
    """One label for each sample, from 0 to classes - 1."""
    if not 2 <= classes <= 256:
        raise InputError(f"The number of classes is {classes}.", "Use 2 to 256.")
    labels = np.asarray(labels)
    if labels.shape != (samples,) or (samples and labels.dtype.kind not in "iu"):
        raise InputError(
            f"The labels are {labels.dtype} of shape {labels.shape} for {samples} images.",
            "Pass one whole number for each image.",
        )
    if samples and not 0 <= labels.min() <= labels.max() < classes:
        raise InputError(
            f"The labels run from {labels.min()} to {labels.max()}.",
            f"Use 0 to {classes - 1}, or raise the number of classes.",
        )
    return np.asarray(labels, np.int64)


class Descent:
    """AdamW over parameters, whose rate rises linearly and then falls by half a cosine to 1% of its peak."""

    def __init__(self, parameters: Parameters, config: Training, *, weight_decay: float, warmup: float) -> None:
        for parameter in parameters.values():
            parameter.requires_grad_()
        self._optimiser = torch.optim.AdamW(parameters.values(), weight_decay=weight_decay, fused=True)
        self._config, self._rise, self._step = config, max(1, round(warmup * config.steps)), 0

    def step(self, loss: Tensor) -> None:
        """One step down the gradient of a loss."""
        left = max(1, self._config.steps - self._rise)
        share = (self._step + 1) / self._rise
        if self._step >= self._rise:
            share = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (self._step - self._rise) / left))
        for group in self._optimiser.param_groups:
            group["lr"] = self._config.learning_rate * share
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()
        self._step += 1


@torch.no_grad()
def answers(
    trained: TrainedNetworks,
    images: NDArray[Any],
    *,
    hidden: bool = False,
    how: Augmentation = _AS_IT_IS,
    look: int = 0,
) -> Iterator[tuple[slice, Tensor]]:
    """What every network says of the images [Q, H, W(, C)]: the next few of them, and float32[K, few, classes].

    With `hidden`, what its last layer sees, float32[K, few, width]. Each image is seen as `how` distorts it, in a way
    that depends on `look`. Yields nothing where there are no images.
    """
    array = pixels(images, "images")
    if array.shape[1:] != trained.image:
        raise InputError(
            f"The images have shape {array.shape[1:]}.", f"Give images of shape {trained.image}, as in the training."
        )
    whole = build_network(trained.network, trained.image, trained.classes)
    network = whole[:-1] if hidden else whole
    device = next(iter(trained.parameters.values())).device
    at_once = max(1, _ANSWERED_AT_ONCE.get(device.type, 512) // len(trained))
    for start in range(0, len(array), at_once):
        some = slice(start, start + at_once)
        numbers = torch.arange(start, min(start + at_once, len(array)), device=device)
        part = augment(torch.from_numpy(array[some]).to(device), how, 0, _LOOK + look, numbers)
        yield some, forward(network, trained.parameters, part.expand(len(trained), *part.shape))
