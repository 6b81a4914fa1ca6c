"""K teachers trained at once as one stacked model, each on its own shard.

Every random choice is a function of the seed, the teacher's number and the step, so a teacher is the same whoever is
trained beside it, and a run that was interrupted goes on from its checkpoint as if nothing had happened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as nnf

from sedml import Progress, silent
from sedml.learn.augment import Augmentation, augment, draw
from sedml.learn.checkpoint import load_checkpoint, save_checkpoint
from sedml.learn.networks import (
    Method,
    Parameters,
    build_network,
    choose_device,
    choose_method,
    compute_dtype,
    forward,
    initial_parameters,
)
from sedml.learn.shards import Shards, as_shards
from sedml.learn.stacked import Trained, check_training, logits, make_optimiser, scaled, set_rate

__all__ = ["Ensemble", "EnsembleConfig", "predict", "train_ensemble"]

_BATCHES, _VIEWS = 1, 2  # purposes of random numbers
_IDS = 1 << 32  # more samples than one model ever draws
_CPU_PIXELS = 32 << 10  # of one pass over some of the models: more of them would only push each other out of cache


@dataclass(frozen=True)
class EnsembleConfig:
    """How each teacher is trained."""

    network: str = "small"
    steps: int = 600
    batch: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    warmup: float = 0.1  # share of the steps
    label_smoothing: float = 0.0
    augmentation: Augmentation = field(default_factory=lambda: Augmentation(15.0, 0.15, 0.2, 0.08, 0.05))
    precision: str = "auto"
    method: Method = "auto"
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        check_training(self, "steps", "batch", "checkpoint_every")


class Ensemble(Trained[EnsembleConfig]):
    """K trained teachers."""


class _Trainer:
    """The state of the teachers' training: parameters, optimiser, step."""

    def __init__(self, data: Shards, classes: int, config: EnsembleConfig, seed: int, device: torch.device) -> None:
        self.config, self.seed, self.step = config, seed, 0
        self.network, self.dtype = build_network(config.network), compute_dtype(config.precision, device)
        self.images = torch.from_numpy(np.ascontiguousarray(data.images)).to(device)
        self.labels = torch.from_numpy(data.labels).to(device)
        self.sizes = torch.tensor([len(i) for i in data.indices], device=device).unsqueeze(1)
        self.starts = self.sizes.cumsum(0) - self.sizes
        self.shards = torch.from_numpy(np.concatenate(data.indices)).to(device)
        self.models = torch.arange(len(data.indices), device=device)
        c, h, w = data.images.shape[1:]
        self.parameters = initial_parameters(self.network, (c, h, w), classes, seed, self.models)
        self.optimiser = make_optimiser(self.parameters, config)
        total = len(self.models)
        at_once = min(total, max(1, _CPU_PIXELS // (config.batch * h * w)) if device.type == "cpu" else total)
        self.method = choose_method(config.method, at_once, h * w, device)
        self.pieces = self._cut(at_once)

    def _cut(self, at_once: int) -> list[tuple[slice, Parameters]]:
        """So many models at a time, as leaves that share memory with the whole, and whose gradients do too."""
        total = len(self.models)
        if at_once == total:
            return [(slice(0, total), self.parameters)]
        pieces: list[tuple[slice, Parameters]] = []
        for value in self.parameters.values():
            value.grad = torch.zeros_like(value)
        for start in range(0, total, at_once):
            own, leaves = slice(start, start + at_once), {}
            for name, value in self.parameters.items():
                leaves[name] = value.detach()[own].requires_grad_()
                leaves[name].grad = value.grad[own] if value.grad is not None else None
            pieces.append((own, leaves))
        return pieces

    def batch(self, own: slice) -> tuple[Tensor, Tensor]:
        """Augmented images [K, B, C, H, W] and labels [K, B], drawn with replacement from each teacher's shard."""
        count = torch.arange(
            self.step * self.config.batch, (self.step + 1) * self.config.batch, device=self.models.device
        )
        ids = self.models[own].unsqueeze(1) * _IDS + count
        chosen = self.shards[self.starts[own] + draw(self.seed, _BATCHES, ids, 1).squeeze(-1) % self.sizes[own]]
        views = augment(scaled(self.images[chosen]), self.config.augmentation, self.seed, _VIEWS, ids)
        return views.to(self.dtype), self.labels[chosen]

    def advance(self) -> None:
        """One step of every teacher."""
        set_rate(self.optimiser, self.config, self.step)
        self.optimiser.zero_grad(set_to_none=len(self.pieces) == 1)
        for own, parameters in self.pieces:
            images, labels = self.batch(own)
            logits = forward(self.network, parameters, images, self.method)
            loss = nnf.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), reduction="sum", label_smoothing=self.config.label_smoothing
            )
            # The sum over teachers of their mean losses: no teacher's gradient depends on another's data.
            (loss / self.config.batch).backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.step += 1

    def state(self) -> dict[str, Any]:
        return {"step": self.step, "parameters": self.parameters, "optimiser": self.optimiser.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        self.step = int(state["step"])
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(state["parameters"][name])
        self.optimiser.load_state_dict(state["optimiser"])


def _training_hash(data: Shards, classes: int, config: EnsembleConfig, seed: int) -> str:
    digest = hashlib.sha256(repr((asdict(config) | {"checkpoint_every": 0}, classes, seed)).encode())
    for array in (data.images, data.labels, *data.indices):
        digest.update(repr((array.shape, str(array.dtype))).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


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
) -> Ensemble:
    """Train all teachers at once: images [S, (C,) H, W], labels [S], and one list of sample numbers per teacher.

    An existing checkpoint is resumed; it is removed when the training is done. `progress` counts steps.
    """
    config = config or EnsembleConfig()
    data = as_shards(images, labels, classes, shards)
    place = choose_device(device)
    trainer = _Trainer(data, classes, config, seed, place)
    path, fingerprint = (
        (Path(checkpoint_path), _training_hash(data, classes, config, seed)) if checkpoint_path else (None, "")
    )
    if path and (state := load_checkpoint(path, fingerprint, place)):
        trainer.restore(state)
    while trainer.step < config.steps:
        trainer.advance()
        if path and trainer.step % config.checkpoint_every == 0 and trainer.step < config.steps:
            save_checkpoint(path, {"fingerprint": fingerprint} | trainer.state())
        progress("training", trainer.step, config.steps)
    if path:
        path.unlink(missing_ok=True)
    c, h, w = data.images.shape[1:]
    trained = {name: value.detach() for name, value in trainer.parameters.items()}
    return Ensemble(config, trained, (c, h, w), classes)


def predict(ensemble: Ensemble, images: NDArray[Any]) -> NDArray[np.uint8]:
    """The votes of every teacher on every image [Q, (C,) H, W], uint8[K, Q]."""
    device = next(iter(ensemble.parameters.values())).device
    # So many images in flight, whatever K is: they fill a GPU, and stay within reach of a CPU's caches.
    at_once = max(1, (65536 if device.type == "cuda" else 512) // len(ensemble))
    votes = np.empty((len(ensemble), len(images)), np.uint8)
    for some, found in logits(ensemble, images, at_once):
        votes[:, some] = found.argmax(-1).to(torch.uint8).cpu().numpy()
    return votes
