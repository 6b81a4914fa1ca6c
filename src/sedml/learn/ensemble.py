"""K teachers trained at once as one stacked model, each on its own shard.

Every random choice is a function of the seed, the teacher's number and the step, so a teacher is the same whoever is
trained beside it, and a run that was interrupted goes on from its checkpoint as if nothing had happened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as nnf

from sedml import Progress, silent
from sedml.errors import InputError
from sedml.learn.augment import Augmentation, augment, draw
from sedml.learn.checkpoint import Parts, load_checkpoint, save_checkpoint
from sedml.learn.cluster import Cluster
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
    """The state of some of the teachers' training: parameters, optimiser, step."""

    def __init__(
        self, data: Shards, teachers: range, classes: int, config: EnsembleConfig, seed: int, device: torch.device
    ) -> None:
        self.config, self.seed, self.step = config, seed, 0
        self.network, self.dtype = build_network(config.network), compute_dtype(config.precision, device)
        self.images = torch.from_numpy(np.ascontiguousarray(data.images)).to(device)
        self.labels = torch.from_numpy(data.labels).to(device)
        own = [data.indices[k] for k in teachers]
        self.sizes = torch.tensor([len(i) for i in own], device=device).unsqueeze(1)
        self.starts = self.sizes.cumsum(0) - self.sizes
        self.shards = torch.from_numpy(np.concatenate(own)).to(device)
        self.models = torch.tensor(teachers, dtype=torch.int64, device=device)
        c, h, w = data.images.shape[1:]
        self.parameters = initial_parameters(self.network, (c, h, w), classes, seed, self.models)
        self.optimiser = make_optimiser(self.parameters, config)
        at_once = min(len(teachers), _together(config, h * w, device) or len(teachers))
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


def _together(config: EnsembleConfig, pixels: int, device: torch.device) -> int | None:
    """How many models are advanced together; None for all of them."""
    return max(1, _CPU_PIXELS // (config.batch * pixels)) if device.type == "cpu" else None


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
    cluster: Cluster | None = None,
) -> Ensemble:
    """Train all teachers at once: images [S, (C,) H, W], labels [S], and one list of sample numbers per teacher.

    An existing checkpoint is resumed; it is removed when the training is done. `progress` counts steps.

    With a `cluster` they are trained there, some of them in each task, and `progress` counts teachers. They come out
    the same to the last bit on processors; on a GPU, rounded as products of other sizes are.
    """
    config = config or EnsembleConfig()
    data = as_shards(images, labels, classes, shards)
    if cluster is not None:
        path = Path(checkpoint_path) if checkpoint_path else None
        return _train_on(cluster, data, classes, config, seed, str(device), path, progress)
    place = choose_device(device)
    trainer = _Trainer(data, range(len(data.indices)), classes, config, seed, place)
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
    return _finish([trainer.parameters], data, classes, config)


def _train_on(
    cluster: Cluster,
    data: Shards,
    classes: int,
    config: EnsembleConfig,
    seed: int,
    device: str,
    path: Path | None,
    progress: Progress,
) -> Ensemble:
    """The teachers in tasks of a cluster. What is done is kept here, beside the path of the checkpoint."""
    on_gpu = device != "cpu" and cluster.gpus > 0
    place, threads, total = torch.device("cuda" if on_gpu else "cpu"), torch.get_num_threads(), len(data.indices)
    if path is not None and path.exists():
        raise InputError(
            f"{path} is of a training that was begun without a cluster.",
            "Go on without one, or remove the file to start over.",
        )
    kept = Parts(path, f"{place.type} {_training_hash(data, classes, config, seed)}" if path else "")
    done = kept.load()
    pixels = data.images.shape[2] * data.images.shape[3]
    whole = _together(config, pixels, place) or 1
    # Cut between those that are advanced together: any other cut would be rounded otherwise.
    left = [k for k in range(0, total, whole) if not any(own.start <= k < own.stop for own in done)]
    each = -(-len(left) // cluster.places(threads, on_gpu=on_gpu)) or 1
    pieces = [range(one[0].start, one[-1].stop) for one in _runs([range(k, min(k + whole, total)) for k in left], each)]
    shared = data, classes, config, seed, str(place), threads
    tasks = cluster.run(_train_part, shared, [(own,) for own in pieces], threads=threads, on_gpu=on_gpu)
    with closing(tasks) as trained:
        for number, found in trained:
            done[pieces[number]] = found
            kept.save(pieces[number], found)
            progress("training", sum(map(len, done)), total)
    kept.remove()
    return _finish([done[own] for own in sorted(done, key=lambda own: own.start)], data, classes, config)


def _runs(ranges: list[range], most: int) -> list[list[range]]:
    """Neighbours together, up to so many."""
    runs: list[list[range]] = []
    for one in ranges:
        if runs and len(runs[-1]) < most and runs[-1][-1].stop == one.start:
            runs[-1].append(one)
        else:
            runs.append([one])
    return runs


def _train_part(
    data: Shards, classes: int, config: EnsembleConfig, seed: int, device: str, threads: int, teachers: range
) -> Parameters:
    """Some of the teachers, wherever this runs."""
    torch.set_num_threads(threads)
    # What comes from a cluster's memory may be looked at only.
    own = Shards(np.array(data.images), np.array(data.labels), data.indices)
    trainer = _Trainer(own, teachers, classes, config, seed, choose_device(device))
    while trainer.step < config.steps:
        trainer.advance()
    return {name: value.detach().cpu() for name, value in trainer.parameters.items()}


def _finish(parts: list[Parameters], data: Shards, classes: int, config: EnsembleConfig) -> Ensemble:
    merged = {name: torch.cat([part[name].detach() for part in parts]) for name in parts[0]}
    c, h, w = data.images.shape[1:]
    return Ensemble(config, merged, (c, h, w), classes)


def predict(ensemble: Ensemble, images: NDArray[Any]) -> NDArray[np.uint8]:
    """The votes of every teacher on every image [Q, (C,) H, W], uint8[K, Q]."""
    device = next(iter(ensemble.parameters.values())).device
    # So many images in flight, whatever K is: they fill a GPU, and stay within reach of a CPU's caches.
    at_once = max(1, (65536 if device.type == "cuda" else 512) // len(ensemble))
    votes = np.empty((len(ensemble), len(images)), np.uint8)
    for some, found in logits(ensemble, images, at_once):
        votes[:, some] = found.argmax(-1).to(torch.uint8).cpu().numpy()
    return votes
