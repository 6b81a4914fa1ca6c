"""Features of images that nobody labelled: networks learn to tell which two distorted views are of one image.

Contrastive learning as in SimCLR (Chen et al. 2020): of all views in a batch, the other view of the same image is to be
the most similar. What is left in the features is what distortions do not change: the kind of thing an image shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as nnf

from sedml import Progress, silent
from sedml.learn.augment import Augmentation, augment, draw
from sedml.learn.networks import build_network, choose_device, forward, initial_parameters
from sedml.learn.stacked import IDS, Descent, TrainedNetworks, Training, pixels

_CHOSEN, _ONE_VIEW, _OTHER_VIEW = 21, 22, 23  # purposes of random numbers
_WIDTH = 64  # of the space in which views are compared
_TEMPERATURE = 0.2


@dataclass(frozen=True)
class ContrastConfig(Training):
    """How features are learned."""

    network: str = "deep"
    steps: int = 1000
    batch: int = 512
    learning_rate: float = 1e-3
    view: Augmentation = field(default_factory=lambda: Augmentation(20.0, 0.2, 0.25, 0.12, 0.08, cutout=0.2))


def _missed(views: Tensor) -> Tensor:
    """The cross-entropy of finding each view's other one, summed over networks; views [K, 2 B, width]."""
    z = nnf.normalize(views, dim=-1)
    half = z.shape[1] // 2
    likeness = z @ z.transpose(1, 2) / _TEMPERATURE
    likeness.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
    other = torch.arange(2 * half, device=z.device).roll(half).expand(len(z), -1)
    return nnf.cross_entropy(likeness.transpose(1, 2), other, reduction="none").mean(-1).sum()


def learn_features(
    images: NDArray[Any],
    *,
    seeds: list[int],
    config: ContrastConfig | None = None,
    device: str | torch.device = "auto",
    progress: Progress = silent,
) -> TrainedNetworks:
    """A network for each seed, trained on images [S, H, W(, C)] alone; see `student_cnn.features`."""
    config, place = config or ContrastConfig(), choose_device(device)
    pool = pixels(images, "images")
    channels, height, width = pool.shape[1:]
    public = torch.from_numpy(pool).to(place)
    batch = min(config.batch, len(pool))
    network = build_network(config.network, (channels, height, width), _WIDTH)
    models = torch.tensor([seed % (1 << 26) for seed in seeds], device=place).unsqueeze(1) * IDS
    parameters = initial_parameters(network, 2, models.flatten())
    descent = Descent(parameters, config, weight_decay=1e-4, warmup=0.1)
    for step in range(config.steps):
        ids = models + torch.arange(step * batch, (step + 1) * batch, device=place)
        # No image comes up twice: its views would have to be told apart from each other.
        order = draw(0, _CHOSEN, models + step, len(pool)).squeeze(1).argsort(-1)[:, :batch]
        chosen = public[order]
        views = [augment(chosen, config.view, 0, purpose, ids) for purpose in (_ONE_VIEW, _OTHER_VIEW)]
        descent.step(_missed(forward(network, parameters, torch.cat(views, 1))))
        progress("learning features", step + 1, config.steps)
    done = {name: value.detach() for name, value in parameters.items()}
    return TrainedNetworks(config.network, done, (channels, height, width), _WIDTH)
