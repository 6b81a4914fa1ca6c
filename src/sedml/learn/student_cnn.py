"""A student network, trained on few labels and, if asked to, on the many public images that have none.

Semi-supervised training is consistency training in the manner of FixMatch (Sohn et al. 2020): what the model is sure of
on a slightly shifted image, it must also say of a strongly distorted one. Three things make it hold up on the seven or
so labels per class that a small privacy budget buys:

- the sure answers come from moving averages of the weights (Tarvainen & Valpola 2017);
- they are aligned to a prior over the classes (Berthelot et al. 2020), so that no class swallows its neighbours;
- the supervised loss is bounded (Zhang & Sabuncu 2018): a wrong consensus label cannot outweigh the images around it.

A student is the average of its *members*: networks that start apart, see different distortions, and each believe
their own sure answers. (When they shared those, they agreed early, right or wrong: 12 of 20 students of three on MNIST
were right on less than 98.3 % of the public images, against 4 of 20 single networks.) The members, and the students of
several seeds, train at once as one stacked model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sedml import Progress, silent
from sedml.errors import InputError
from sedml.learn.augment import Augmentation, augment, draw
from sedml.learn.networks import (
    Method,
    Network,
    Parameters,
    build_network,
    choose_device,
    compute_dtype,
    forward,
    initial_parameters,
)
from sedml.learn.shards import by_class, check_labels, pixels
from sedml.learn.stacked import Trained, check_training, logits, make_optimiser, scaled, set_rate

__all__ = ["Student", "StudentConfig", "features", "predict", "predict_proba", "train_students"]

_LABELLED, _UNLABELLED, _LABELLED_VIEW, _WEAK_VIEW, _STRONG_VIEW = 11, 12, 13, 14, 15  # purposes of random numbers
_IDS = 1 << 32


@dataclass(frozen=True)
class StudentConfig:
    """How a student is trained."""

    mode: Literal["supervised", "semi"] = "semi"
    network: str = "deep"
    members: int = 4
    steps: int = 3000
    batch: int = 32
    unlabelled_batch: int = 128
    learning_rate: float = 3e-3
    weight_decay: float = 5e-4
    warmup: float = 0.05  # share of the steps
    average: float = 0.99  # decay of the moving average of the weights
    threshold: float = 0.8  # an answer at least this sure becomes a pseudo-label
    unlabelled_weight: float = 1.0
    align: bool = True  # towards equally frequent classes
    robust: float = 0.3  # 0: cross-entropy; towards 1: the mean absolute error, which hardly heeds outliers
    labelled_view: Augmentation = field(default_factory=lambda: Augmentation(20.0, 0.2, 0.2, 0.1, 0.03))
    weak_view: Augmentation = field(default_factory=lambda: Augmentation(shift=0.05))
    strong_view: Augmentation = field(
        default_factory=lambda: Augmentation(20.0, 0.2, 0.2, 0.1, 0.05, contrast=0.3, brightness=0.1)
    )
    precision: str = "auto"
    method: Method = "auto"

    def __post_init__(self) -> None:
        if self.mode not in ("supervised", "semi"):
            raise InputError(f"There is no mode {self.mode!r}.", "Use 'supervised' or 'semi'.")
        check_training(self, "members", "steps", "batch", "unlabelled_batch")
        if self.members > 60:
            raise InputError(f"A student of {self.members} members is too large.", "Use at most 60.")
        for name in ("average", "threshold", "robust"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError(f"The {name} of the training is {getattr(self, name)}.", "Give 0 to 1.")


class Student(Trained[StudentConfig]):
    """A trained student: the average of its members."""


class _Labelled:
    """The labelled images of several runs, drawn so that every class a run has comes up equally often."""

    def __init__(
        self, runs: Sequence[tuple[NDArray[Any], NDArray[np.int64]]], classes: int, device: torch.device
    ) -> None:
        self.images = torch.from_numpy(np.concatenate([images for images, _ in runs])).to(device)
        self.labels = torch.from_numpy(np.concatenate([labels for _, labels in runs])).to(device)
        tables = by_class([labels for _, labels in runs], classes)
        self.table, self.sizes, present = (torch.from_numpy(table).to(device) for table in tables)
        self.present = present.view(-1, 1, 1)

    def batch(self, seed: int, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Images and labels for ids [runs, members, batch]."""
        numbers = draw(seed, _LABELLED, ids, 2)
        run = torch.arange(len(ids), device=ids.device).view(-1, 1, 1)
        group = numbers[..., 0] % self.present
        chosen = self.table[run, group, numbers[..., 1] % self.sizes[run, group]]
        return self.images[chosen], self.labels[chosen]


def _supervised_loss(logits: Tensor, labels: Tensor, robust: float) -> Tensor:
    """Mean over the last axis of (1 - p^q) / q, whose limit at q = 0 is the cross-entropy."""
    log_p = logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)
    return (-torch.expm1(robust * log_p) / robust if robust else -log_p).mean(-1)


class _Trainer:
    """R students of M members each: K = R * M stacked networks and their moving averages."""

    def __init__(
        self,
        labelled: _Labelled,
        unlabelled: Tensor | None,
        seeds: Sequence[int],
        image: tuple[int, int, int],
        classes: int,
        config: StudentConfig,
    ) -> None:
        device = labelled.images.device
        self.config, self.labelled, self.unlabelled = config, labelled, unlabelled
        self.network: Network = build_network(config.network)
        self.dtype = compute_dtype(config.precision, device)
        self.runs, self.members, self.classes, self.step = len(seeds), config.members, classes, 0
        # A student's numbers depend on its own seed alone, not on the students beside it.
        run = torch.tensor([s % (1 << 20) for s in seeds], dtype=torch.int64, device=device).view(-1, 1, 1)
        member = torch.arange(config.members, device=device).view(1, -1, 1)
        self.ids, self.shared = (run * 64 + member + 1) * _IDS, run * 64 * _IDS
        self.parameters = initial_parameters(self.network, image, classes, 1, self.ids.flatten())
        self.averages = {name: value.clone() for name, value in self.parameters.items()}
        self.optimiser = make_optimiser(self.parameters, config)
        self.frequency = torch.full((self.runs, config.members, 1, classes), 1.0 / classes, device=device)

    def _forward(self, parameters: Parameters, images: Tensor) -> Tensor:
        """[R, M, B, C, H, W] to logits [R, M, B, classes]."""
        flat = images.to(self.dtype).flatten(0, 1)
        logits = forward(self.network, parameters, flat, self.config.method)
        return logits.view(self.runs, self.members, -1, self.classes)

    def _views(self, count: int, purpose: int, images: Tensor, how: Augmentation) -> Tensor:
        ids = self.ids + torch.arange(self.step * count, (self.step + 1) * count, device=images.device)
        return augment(scaled(images), how, 0, purpose, ids)

    @torch.no_grad()
    def _pseudo_labels(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Labels [R, M, B] and whether they are sure enough, from each member's answers on weak views."""
        weak = self._views(images.shape[2], _WEAK_VIEW, images, self.config.weak_view)
        p = self._forward(self.averages, weak).softmax(-1)
        if self.config.align:
            self.frequency.lerp_(p.mean(2, keepdim=True), 0.01)
            p = p / (self.frequency * self.classes)
            p = p / p.sum(-1, keepdim=True)
        sure, labels = p.max(-1)
        return labels, (sure >= self.config.threshold).float()

    def _loss(self) -> Tensor:
        config = self.config
        count = torch.arange(self.step * config.batch, (self.step + 1) * config.batch, device=self.ids.device)
        images, labels = self.labelled.batch(0, self.ids + count)
        views = self._views(config.batch, _LABELLED_VIEW, images, config.labelled_view)
        if self.unlabelled is None:
            return _supervised_loss(self._forward(self.parameters, views), labels, config.robust).sum()
        size = config.unlabelled_batch
        count = torch.arange(self.step * size, (self.step + 1) * size, device=self.ids.device)
        # All members of a student look at the same images, each at its own views of them.
        chosen = draw(0, _UNLABELLED, self.shared + count, 1).squeeze(-1) % len(self.unlabelled)
        public = self.unlabelled[chosen].expand(-1, self.members, -1, -1, -1, -1)
        guesses, sure = self._pseudo_labels(public)
        strong = self._views(size, _STRONG_VIEW, public, config.strong_view)
        logits = self._forward(self.parameters, torch.cat([views, strong], 2))
        loss = _supervised_loss(logits[:, :, : config.batch], labels, config.robust).sum()
        log_p = logits[:, :, config.batch :].log_softmax(-1)
        missed = -log_p.gather(-1, guesses.unsqueeze(-1)).squeeze(-1)
        return loss + config.unlabelled_weight * (missed * sure).mean(-1).sum()

    def advance(self) -> None:
        """One step of every member of every student."""
        config = self.config
        set_rate(self.optimiser, config, self.step)
        self.optimiser.zero_grad(set_to_none=True)
        self._loss().backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.step += 1
        # The average is short at first, so that it forgets the random start.
        keep = min(config.average, self.step / (self.step + 10))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averages.values()), list(self.parameters.values()), 1 - keep)


def train_students(
    labelled: Sequence[tuple[NDArray[Any], NDArray[Any]]],
    images_unlabelled: NDArray[Any] | None,
    *,
    classes: int,
    seeds: Sequence[int],
    config: StudentConfig | None = None,
    device: str | torch.device = "auto",
    progress: Progress = silent,
) -> list[Student]:
    """Several students at once, each with its own labelled (images, labels) and seed, on the same unlabelled images.

    Images are [S, (C,) H, W]; those labelled -1 count as unlabelled. `progress` counts steps.
    """
    config, place = config or StudentConfig(), choose_device(device)
    if not labelled or len(labelled) != len(seeds):
        raise InputError(
            f"There are {len(labelled)} labelled sets and {len(seeds)} seeds.", "Pass one of each per student."
        )
    runs, spare = [], []
    for images, labels in labelled:
        own = pixels(images, "labelled images")
        checked = check_labels(labels, len(own), classes, lowest=-1)
        if not (checked >= 0).any():
            raise InputError("No image has a label.", "Lower the threshold, or ask about more samples.")
        runs.append((own[checked >= 0], checked[checked >= 0]))
        spare.append(own[checked < 0])
    if images_unlabelled is not None:
        spare.append(pixels(images_unlabelled, "unlabelled images"))
    if len({(part.shape[1:], part.dtype) for part in (*spare, *(own for own, _ in runs))}) > 1:
        raise InputError("The images differ in shape or type.", "Give all of them the same shape and type.")
    pool = torch.from_numpy(np.concatenate(spare)).to(place) if config.mode == "semi" else None
    if pool is not None and not len(pool):
        raise InputError("There are no unlabelled images.", "Pass some, or use the mode 'supervised'.")
    c, h, w = runs[0][0].shape[1:]
    trainer = _Trainer(_Labelled(runs, classes, place), pool, seeds, (c, h, w), classes, config)
    while trainer.step < config.steps:
        trainer.advance()
        progress("training", trainer.step, config.steps)
    members = [slice(r * config.members, (r + 1) * config.members) for r in range(len(runs))]
    return [
        Student(config, {n: value[own] for n, value in trainer.averages.items()}, (c, h, w), classes) for own in members
    ]


def _at_once(student: Student) -> int:
    return 2048 if next(iter(student.parameters.values())).device.type == "cuda" else 64


def predict_proba(student: Student, images: NDArray[Any]) -> NDArray[np.float32]:
    """The mean of the members' class probabilities on images [Q, (C,) H, W], float32[Q, classes]."""
    answers = np.empty((len(images), student.classes), np.float32)
    for some, found in logits(student, images, _at_once(student)):
        answers[some] = found.softmax(-1).mean(0).cpu().numpy()
    return answers


def features(student: Student, images: NDArray[Any]) -> NDArray[np.float32]:
    """How the student sees images [Q, (C,) H, W]: directions in its last hidden layer, float32[Q, members * width].

    Images of one kind lie together, also where the student takes the kind for another: what to ask about next.
    """
    width = build_network(student.config.network).dense[-1]
    seen = np.empty((len(images), len(student) * width), np.float32)
    for some, found in logits(student, images, _at_once(student), hidden=True):
        directions = found / found.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        seen[some] = directions.transpose(0, 1).flatten(1).cpu().numpy()
    return seen


def predict(student: Student, images: NDArray[Any]) -> NDArray[np.int64]:
    """The student's class for each image, int64[Q]."""
    return np.asarray(predict_proba(student, images).argmax(1), np.int64)
