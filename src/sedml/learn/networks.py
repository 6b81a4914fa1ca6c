"""K convolutional networks of one shape as a single model: every parameter carries a leading axis K.

PyTorch computes such a stack as one network whose convolutions have K groups. That keeps a GPU busy with 250 small
networks at once, and takes a CPU no longer than one network after another.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from sedml.errors import InputError
from sedml.learn.augment import uniform

Parameters = dict[str, Tensor]

NETWORKS: dict[str, tuple[tuple[tuple[int, ...], ...], int]] = {
    "small": (((16,), (32,)), 64),
    "medium": (((32,), (64,)), 128),
    "deep": (((32, 32), (64, 64)), 256),
}
"""The filters of the convolutions between one pooling and the next, and the width of the hidden layer."""


def build_network(name: str, image: tuple[int, int, int], classes: int) -> nn.Sequential:
    """The network of that name for images (channels, height, width), without any parameters yet."""
    if name not in NETWORKS:
        raise InputError(f"There is no network called {name!r}.", f"Use one of {', '.join(NETWORKS)}.")
    blocks, hidden = NETWORKS[name]
    channels, height, width = image
    layers: list[nn.Module] = []
    with torch.device("meta"):
        for block in blocks:
            for filters in block:
                layers += [nn.Conv2d(channels, filters, 3, padding=1), nn.ReLU()]
                channels = filters
            layers.append(nn.MaxPool2d(2))
            height, width = height // 2, width // 2
        if not height or not width:
            raise InputError(
                f"Images of {image[1]} x {image[2]} pixels are too small for the network {name!r}.",
                f"Use images of {2 ** len(blocks)} pixels or more each way.",
            )
        layers += [nn.Flatten(), nn.Linear(channels * height * width, hidden), nn.ReLU(), nn.Linear(hidden, classes)]
    return nn.Sequential(*layers)


def choose_device(device: str | torch.device) -> torch.device:
    """`auto` is the GPU where there is one."""
    if str(device) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise InputError(f"PyTorch knows no device called {device!r}.", "Use 'auto', 'cpu' or 'cuda'.") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InputError("PyTorch finds no GPU on this machine.", "Use the device 'auto' or 'cpu'.")
    return chosen


def initial_parameters(network: nn.Sequential, seed: int, models: Tensor) -> Parameters:
    """He's uniform start for `models`, int64[K]: each model's follows from its own number and the seed alone."""
    parameters: Parameters = {}
    last = f"{len(network) - 1}.weight"
    for purpose, (name, value) in enumerate(network.named_parameters()):
        if name.endswith("bias"):
            parameters[name] = torch.zeros(len(models), *value.shape, device=models.device)
            continue
        bound = math.sqrt((3.0 if name == last else 6.0) / math.prod(value.shape[1:]))
        # One model at a time: the generator's integers would not fit a GPU for 250 large networks.
        drawn = torch.cat([uniform(seed, 1000 + purpose, one.view(1), value.numel()) for one in models])
        parameters[name] = drawn.view(-1, *value.shape).mul_(2 * bound).sub_(bound)
    return parameters


def forward(network: nn.Module, parameters: Parameters, images: Tensor) -> Tensor:
    """Logits, float32[K, batch, classes], of images [K, batch, C, H, W]; a GPU computes them in bfloat16.

    The network may be the first part of the one that the parameters are of.
    """
    dtype = torch.bfloat16 if images.device.type == "cuda" else torch.float32
    cast = {name: parameters[name].to(dtype) for name, _ in network.named_parameters()}
    answers: Tensor = vmap(lambda own, x: functional_call(network, own, (x,)))(cast, images.to(dtype))
    return answers.float()
