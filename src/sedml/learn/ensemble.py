"""K teachers trained as one stacked model, each on its own shard.

Every random choice is a function of the seed, the teacher's number and the step, so a teacher is the same whoever is
trained beside it, and a run that was interrupted goes on as if nothing had happened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as nnf

from sedml import Progress, silent
from sedml.errors import FileFormatError, InputError
from sedml.files import replacing
from sedml.learn.augment import Augmentation, augment
from sedml.learn.networks import Parameters, build_network, choose_device, forward, initial_parameters
from sedml.learn.stacked import IDS, Chooser, Descent, TrainedNetworks, Training, answers, check_labels, pixels

_BATCHES, _VIEWS = 1, 2  # purposes of random numbers
_AT_ONCE = {"cuda": 256, "cpu": 16}  # teachers: a GPU wants many, a CPU would run out of cache


@dataclass(frozen=True)
class EnsembleConfig(Training):
    """How each teacher is trained."""

    augmentation: Augmentation = field(default_factory=lambda: Augmentation(15.0, 0.15, 0.2, 0.08, 0.05))


def train_ensemble(
    images: NDArray[Any],
    labels: NDArray[Any],
    *,
    classes: int,
    shards: Sequence[Any],
    config: EnsembleConfig | None = None,
    seed: int = 0,
    device: str | torch.device = "auto",
    progress: Progress = silent,
    checkpoint_path: str | Path | None = None,
) -> TrainedNetworks:
    """Train a teacher per shard: images [S, H, W(, C)], labels [S], and one list of sample numbers per teacher.

    As many train at once as suit the device. `progress` counts steps. The checkpoint has those that are done; an
    existing one is continued, and it is removed at the end.
    """
    config, place = config or EnsembleConfig(), choose_device(device)
    images = pixels(images, "images")
    labels = check_labels(labels, len(images), classes)
    indices = _checked_shards(shards, len(images))
    on_device = torch.from_numpy(images).to(place), torch.from_numpy(labels).to(place)
    path, fingerprint = (Path(checkpoint_path), "") if checkpoint_path else (None, "")
    if path:
        fingerprint = _fingerprint(images, labels, indices, repr((config, classes, seed)))
    done = _load(path, fingerprint, place) if path and path.exists() else {}
    count, at_once = len(next(iter(done.values()), ())), _AT_ONCE.get(place.type, 16)
    for first in range(count, len(indices), at_once):
        own = indices[first : first + at_once]

        def told(step: int, models: int = len(own), before: int = first) -> None:
            progress("training", before * config.steps + models * step, len(indices) * config.steps)

        trained = _train_some(*on_device, own, first, classes, config, seed, told)
        done = {name: torch.cat([done[name], value]) if done else value for name, value in trained.items()}
        if path and first + at_once < len(indices):
            with replacing(path) as stream:  # the old checkpoint or the new one, never half of one
                torch.save({"fingerprint": fingerprint, "parameters": done}, stream)
    if path:
        path.unlink(missing_ok=True)
    return TrainedNetworks(config.network, done, images.shape[1:], classes)


def predict(ensemble: TrainedNetworks, images: NDArray[Any]) -> NDArray[np.uint8]:
    """The votes of every teacher on every image [Q, H, W(, C)], uint8[K, Q]."""
    votes = np.empty((len(ensemble), len(images)), np.uint8)
    for some, found in answers(ensemble, images):
        votes[:, some] = found.argmax(-1).to(torch.uint8).cpu().numpy()
    return votes


def _train_some(
    images: Tensor,
    labels: Tensor,
    shards: Sequence[NDArray[np.int64]],
    first: int,
    classes: int,
    config: EnsembleConfig,
    seed: int,
    told: Callable[[int], None],
) -> Parameters:
    """The teachers from number `first` on, as many as there are shards, all at once."""
    models = torch.arange(first, first + len(shards), device=images.device).unsqueeze(1)
    channels, height, width = images.shape[1:]
    network = build_network(config.network, (channels, height, width), classes)
    parameters = initial_parameters(network, seed, models.squeeze(1))
    chooser, descent = Chooser(shards, images.device), Descent(parameters, config, weight_decay=1e-4, warmup=0.1)
    for step in range(config.steps):
        ids = models * IDS + torch.arange(step * config.batch, (step + 1) * config.batch, device=images.device)
        chosen = chooser.choose(seed, _BATCHES, ids)
        views = augment(images[chosen], config.augmentation, seed, _VIEWS, ids)
        logits = forward(network, parameters, views)
        # The sum over teachers of their mean losses: no teacher's gradient depends on another's data.
        descent.step(nnf.cross_entropy(logits.flatten(0, 1), labels[chosen].flatten(), reduction="sum") / config.batch)
        told(step + 1)
    return {name: value.detach() for name, value in parameters.items()}


def _checked_shards(shards: Sequence[Any], samples: int) -> list[NDArray[np.int64]]:
    if not len(shards):
        raise InputError("There are no teachers.", "Pass one shard for each teacher.")
    indices = [np.asarray(own, dtype=np.int64).reshape(-1) for own in shards]
    for number, own in enumerate(indices):
        if not len(own):
            raise InputError(f"Teacher {number} has no samples.", "Use fewer teachers, or a split that is less uneven.")
        if own.min() < 0 or own.max() >= samples:
            raise InputError(
                f"Teacher {number} lists samples that do not exist.", f"Use numbers from 0 to {samples - 1}."
            )
    return indices


def _fingerprint(images: NDArray[Any], labels: NDArray[Any], shards: list[NDArray[np.int64]], settings: str) -> str:
    digest = hashlib.sha256(settings.encode())
    for array in (images, labels, *shards):
        digest.update(repr((array.shape, str(array.dtype))).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _load(path: Path, fingerprint: str, device: torch.device) -> Parameters:
    """The teachers in a checkpoint; one of another training is refused."""
    start_over = "Remove the file to start over."
    try:
        state = torch.load(path, map_location=device, weights_only=True)
        found, parameters = state["fingerprint"], dict(state["parameters"])
    except Exception as error:  # torch raises half a dozen kinds for a damaged file
        raise FileFormatError(f"{path} is not a whole checkpoint ({type(error).__name__}).", start_over) from None
    if found != fingerprint:
        raise InputError(f"{path} is a checkpoint of other data, settings or another seed.", start_over)
    return parameters
