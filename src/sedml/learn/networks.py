"""K convolutional networks of one shape as a single model: every parameter carries a leading axis K.

Activations are [K, batch, height, width, channels] throughout. A convolution is then one batched matrix product over
image patches, which keeps a GPU busy with 250 small networks at once; grouped convolutions and a loop over the
networks compute the same and are there because a CPU prefers the loop once the images outgrow its caches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional as nnf

from sedml.errors import InputError
from sedml.learn.augment import uniform

__all__ = [
    "NETWORKS",
    "Conv",
    "MaxPool",
    "Method",
    "Network",
    "Parameters",
    "ResponseNorm",
    "build_network",
    "choose_device",
    "choose_method",
    "compute_dtype",
    "forward",
    "initial_parameters",
]

Parameters = dict[str, Tensor]
Method = Literal["auto", "gemm", "grouped", "loop"]

# Patches of one product at most: beyond it a GPU runs out of memory and a CPU out of cache.
_PATCH_BYTES = {"cuda": 6 << 30, "cpu": 8 << 20}
_CPU_GEMM_PIXELS = 196


@dataclass(frozen=True)
class Conv:
    """A convolution that keeps height and width, followed by a ReLU."""

    filters: int
    kernel: int

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise InputError(f"A kernel of {self.kernel} pixels has no centre.", "Use an odd number of pixels.")


@dataclass(frozen=True)
class MaxPool:
    """Maximum over windows at every second pixel; a window of 3 overlaps its neighbours, as in PATE."""

    window: int = 2


@dataclass(frozen=True)
class ResponseNorm:
    """Local response normalisation over 9 neighbouring channels, with the constants of PATE's code."""

    radius: int = 4
    bias: float = 1.0
    alpha: float = 0.001 / 9.0
    beta: float = 0.75


@dataclass(frozen=True)
class Network:
    """The shape of a network: its convolutional part, then the widths of its hidden dense layers."""

    name: str
    layers: tuple[Conv | MaxPool | ResponseNorm, ...]
    dense: tuple[int, ...]


NETWORKS: dict[str, Network] = {
    network.name: network
    for network in (
        Network(
            "pate",
            (Conv(64, 5), MaxPool(3), ResponseNorm(), Conv(128, 5), ResponseNorm(), MaxPool(3)),
            (384, 192),
        ),
        Network("small", (Conv(16, 3), MaxPool(), Conv(32, 3), MaxPool()), (64,)),
        Network("medium", (Conv(32, 3), MaxPool(), Conv(64, 3), MaxPool()), (128,)),
        Network("deep", (Conv(32, 3), Conv(32, 3), MaxPool(), Conv(64, 3), Conv(64, 3), MaxPool()), (256,)),
    )
}


def build_network(name: str) -> Network:
    """The network of that name."""
    if name not in NETWORKS:
        raise InputError(f"There is no network called {name!r}.", f"Use one of {', '.join(NETWORKS)}.")
    return NETWORKS[name]


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


def compute_dtype(precision: str, device: torch.device) -> torch.dtype:
    """The type of activations and products; parameters and their updates are always float32."""
    if precision == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if precision not in ("float32", "bfloat16"):
        raise InputError(f"There is no precision {precision!r}.", "Use 'auto', 'float32' or 'bfloat16'.")
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


def choose_method(method: Method, models: int, pixels: int, device: torch.device) -> Method:
    """The fastest way to convolve `models` stacks of images with `pixels` pixels each."""
    if method not in ("auto", "gemm", "grouped", "loop"):
        raise InputError(f"There is no method {method!r}.", "Use 'auto', 'gemm', 'grouped' or 'loop'.")
    if method != "auto":
        return method
    if device.type == "cuda":
        return "loop" if models == 1 else "gemm"
    return "gemm" if pixels <= _CPU_GEMM_PIXELS else "loop"


def _shapes(network: Network, image: tuple[int, int, int], classes: int) -> Iterator[tuple[str, int, int]]:
    """Name, inputs and outputs of each weight matrix; image is (channels, height, width)."""
    channels, height, width = image
    for i, layer in enumerate(network.layers):
        if isinstance(layer, Conv):
            yield f"conv{i}", layer.kernel**2 * channels, layer.filters
            channels = layer.filters
        elif isinstance(layer, MaxPool):
            height, width = _pooled(height, layer.window), _pooled(width, layer.window)
            if min(height, width) < 1:
                raise InputError(
                    f"Images of {image[1]} x {image[2]} pixels are too small for the network {network.name!r}.",
                    "Use larger images or another network.",
                )
    inputs = height * width * channels
    for i, outputs in enumerate((*network.dense, classes)):
        yield f"dense{i}", inputs, outputs
        inputs = outputs


def _pooled(size: int, window: int) -> int:
    return (size + 2 * (window // 2 if window > 2 else 0) - window) // 2 + 1


def initial_parameters(
    network: Network, image: tuple[int, int, int], classes: int, seed: int, models: Tensor
) -> Parameters:
    """Parameters of the models with these numbers: each depends on the seed and its own number alone."""
    parameters: Parameters = {}
    for purpose, (name, inputs, outputs) in enumerate(_shapes(network, image, classes)):
        last = name == f"dense{len(network.dense)}"
        bound = math.sqrt((3.0 if last else 6.0) / inputs)
        # One model at a time: the generator's integers would not fit a GPU for 250 large networks.
        weights = [uniform(seed, 1000 + purpose, m.view(1), inputs * outputs) for m in models]
        parameters[f"{name}.weight"] = torch.cat(weights).view(-1, inputs, outputs).mul_(2 * bound).sub_(bound)
        parameters[f"{name}.bias"] = torch.zeros(len(models), 1, outputs, device=models.device)
    return parameters


def _patches(x: Tensor, kernel: int) -> Tensor:
    """[K, B, H, W, C] to [K, B*H*W, kernel*kernel*C], zeros beyond the edge."""
    k, b, h, w, c = x.shape
    p = kernel // 2
    padded = nnf.pad(x, (0, 0, p, p, p, p)).contiguous()
    s = padded.stride()
    windows = padded.as_strided((k, b, h, w, kernel, kernel, c), (s[0], s[1], s[2], s[3], s[2], s[3], s[4]))
    return windows.reshape(k, b * h * w, kernel * kernel * c)


def _models_at_once(x: Tensor, kernel: int, channels: int) -> int:
    per_model = math.prod(x.shape[1:4]) * kernel * kernel * channels * x.element_size()
    return max(1, _PATCH_BYTES.get(x.device.type, 1 << 30) // per_model)


class _GemmConv(torch.autograd.Function):
    """Convolution as a batched product over patches, which are made again for the gradient instead of kept.

    The gradient of the input is itself a convolution, with the kernel turned around: no scatter-add is needed, so
    it is fast and the same in every run.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, kernel: int) -> Tensor:  # noqa: ANN401
        ctx.save_for_backward(x, weight)
        ctx.kernel = kernel
        step = _models_at_once(x, kernel, x.shape[4])
        parts = [
            torch.baddbmm(b, _patches(part, kernel), w)
            for part, w, b in zip(*(torch.split(t, step) for t in (x, weight, bias)), strict=True)
        ]
        return (parts[0] if len(parts) == 1 else torch.cat(parts)).view(*x.shape[:4], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:  # noqa: ANN401
        x, weight = ctx.saved_tensors
        kernel, channels, filters = ctx.kernel, x.shape[4], weight.shape[2]
        out = gradients[0].contiguous()
        rows = out.view(x.shape[0], -1, filters)
        step = _models_at_once(x, kernel, max(channels, filters))
        pairs = zip(torch.split(x, step), torch.split(rows, step), strict=True)
        d_weight = torch.cat([torch.bmm(_patches(part, kernel).transpose(1, 2), row) for part, row in pairs])
        d_bias = rows.sum(1, keepdim=True)
        if not ctx.needs_input_grad[0]:
            return None, d_weight, d_bias, None
        turned = weight.view(-1, kernel * kernel, channels, filters).flip(1).transpose(2, 3)
        turned = turned.reshape(-1, kernel * kernel * filters, channels)
        pairs = zip(torch.split(out, step), torch.split(turned, step), strict=True)
        d_x = torch.cat([torch.bmm(_patches(part, kernel), w) for part, w in pairs])
        return d_x.view_as(x), d_weight, d_bias, None


def _as_kernels(weight: Tensor, kernel: int) -> Tensor:
    """[K, kernel*kernel*C, filters] to PyTorch's [K, filters, C, kernel, kernel]."""
    return weight.view(weight.shape[0], kernel, kernel, -1, weight.shape[2]).permute(0, 4, 3, 1, 2)


def _convolve(x: Tensor, weight: Tensor, bias: Tensor, kernel: int, method: Method) -> Tensor:
    k, b, h, w, c = x.shape
    if method == "gemm":
        return _GemmConv.apply(x, weight, bias, kernel)  # type: ignore[no-untyped-call,no-any-return]
    kernels, padding = _as_kernels(weight, kernel), kernel // 2
    if method == "grouped":
        merged = x.permute(1, 0, 4, 2, 3).reshape(b, k * c, h, w)
        out = nnf.conv2d(merged, kernels.flatten(0, 1), bias.flatten(), padding=padding, groups=k)
        return out.view(b, k, -1, h, w).permute(1, 0, 3, 4, 2).contiguous()
    outs = [nnf.conv2d(x[i].permute(0, 3, 1, 2), kernels[i], bias[i, 0], padding=padding) for i in range(k)]
    return outs[0].permute(0, 2, 3, 1).unsqueeze(0) if k == 1 else torch.stack([o.permute(0, 2, 3, 1) for o in outs])


def _pool(x: Tensor, window: int) -> Tensor:
    k, b = x.shape[:2]
    images = x.flatten(0, 1).permute(0, 3, 1, 2)
    pooled = nnf.max_pool2d(images, window, stride=2, padding=window // 2 if window > 2 else 0)
    return pooled.permute(0, 2, 3, 1).reshape(k, b, *pooled.shape[2:], -1)


def _respond(x: Tensor, norm: ResponseNorm) -> Tensor:
    channel = torch.arange(x.shape[-1], device=x.device)
    near = ((channel[:, None] - channel).abs() <= norm.radius).to(x.dtype)
    # The sum over neighbouring channels as a product with a band matrix: one fast operation, forward and backward.
    return x * (norm.bias + norm.alpha * ((x * x) @ near)).pow(-norm.beta)


def forward(
    network: Network, parameters: Parameters, x: Tensor, method: Method = "auto", *, hidden: bool = False
) -> Tensor:
    """Logits, float32[K, batch, classes], of images [K, batch, C, H, W]; computed in the type of the images.

    With `hidden`, what the last layer sees instead: float32[K, batch, width].
    """
    method = choose_method(method, x.shape[0], x.shape[3] * x.shape[4], x.device)
    dtype = x.dtype
    h = x.permute(0, 1, 3, 4, 2)
    for i, layer in enumerate(network.layers):
        if isinstance(layer, Conv):
            weight, bias = parameters[f"conv{i}.weight"].to(dtype), parameters[f"conv{i}.bias"].to(dtype)
            h = torch.relu(_convolve(h, weight, bias, layer.kernel, method))
        elif isinstance(layer, MaxPool):
            h = _pool(h, layer.window)
        else:
            h = _respond(h, layer)
    h = h.flatten(2)
    for i in range(len(network.dense) + (not hidden)):
        weight, bias = parameters[f"dense{i}.weight"].to(dtype), parameters[f"dense{i}.bias"].to(dtype)
        h = torch.baddbmm(bias, h, weight)
        if i < len(network.dense):
            h = torch.relu(h)
    return h.float()
