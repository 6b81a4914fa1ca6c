"""Stacked networks compute what each of them computes alone, in every way of convolving."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the optional extra torch")

from sedml.errors import InputError
from sedml.learn.augment import Augmentation, augment, draw, uniform
from sedml.learn.networks import (
    NETWORKS,
    Conv,
    choose_device,
    choose_method,
    compute_dtype,
    forward,
    initial_parameters,
)

torch.set_num_threads(1)


def stack(name, models, image=(1, 12, 12), seed=3):
    return initial_parameters(NETWORKS[name], image, 10, seed, torch.arange(models))


def gradients(name, parameters, x, method):
    leaves = {key: value.clone().requires_grad_() for key, value in parameters.items()}
    logits = forward(NETWORKS[name], leaves, x, method)
    weights = torch.linspace(-1, 1, logits.shape[-1])
    grads = torch.autograd.grad((logits.tanh() * weights).sum(), list(leaves.values()))
    return logits.detach(), dict(zip(leaves, grads, strict=True))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("method", ["gemm", "grouped", "loop"])
def test_stacked_equals_one_by_one(name, method):
    torch.manual_seed(0)  # some inputs lie on a kink, where rounding decides which gradient it is
    parameters, x = stack(name, 3, (2, 9, 8)), torch.rand(3, 4, 2, 9, 8)
    logits, grads = gradients(name, parameters, x, method)
    assert logits.shape == (3, 4, 10)
    for k in range(3):
        own = {key: value[k : k + 1] for key, value in parameters.items()}
        alone, own_grads = gradients(name, own, x[k : k + 1], "loop")
        torch.testing.assert_close(logits[k], alone[0], rtol=1e-4, atol=1e-5)
        for key, grad in own_grads.items():
            torch.testing.assert_close(grads[key][k], grad[0], rtol=1e-3, atol=1e-5)


def test_gemm_gradients_numerically():
    from sedml.learn.networks import _GemmConv

    x = torch.rand(2, 2, 4, 5, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(2, 27, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.rand(2, 1, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda *args: _GemmConv.apply(*args, 3), (x, weight, bias))


def test_patches_cut_into_pieces_change_nothing(monkeypatch):
    parameters, x = stack("small", 5), torch.rand(5, 3, 1, 12, 12)
    whole = gradients("small", parameters, x, "gemm")
    monkeypatch.setattr("sedml.learn.networks._PATCH_BYTES", {"cpu": 1})
    parts = gradients("small", parameters, x, "gemm")
    torch.testing.assert_close(whole[0], parts[0])
    torch.testing.assert_close(whole[1], parts[1])


def test_response_norm_is_pytorchs():
    from sedml.learn.networks import ResponseNorm, _respond

    x = torch.randn(2, 3, 4, 4, 16)
    expected = torch.nn.functional.local_response_norm(
        x.flatten(0, 1).permute(0, 3, 1, 2), size=9, alpha=0.001, beta=0.75, k=1.0
    )
    torch.testing.assert_close(_respond(x, ResponseNorm()).flatten(0, 1).permute(0, 3, 1, 2), expected)


def test_pate_network_has_the_papers_shapes():
    shapes = {key: tuple(value.shape[1:]) for key, value in stack("pate", 1, (1, 28, 28)).items()}
    assert shapes["conv0.weight"] == (25, 64)
    assert shapes["conv3.weight"] == (25 * 64, 128)
    assert [shapes[f"dense{i}.weight"] for i in range(3)] == [(7 * 7 * 128, 384), (384, 192), (192, 10)]


def test_a_models_start_depends_on_its_number_and_the_seed_alone():
    many, one = stack("small", 4), initial_parameters(NETWORKS["small"], (1, 12, 12), 10, 3, torch.tensor([2]))
    other = stack("small", 4, seed=4)
    for key, value in many.items():
        torch.testing.assert_close(value[2:3], one[key], rtol=0, atol=0)
        if key.endswith("weight"):
            assert not torch.equal(value[0], value[1])
            assert not torch.equal(value, other[key])


def test_numbers_are_uniform_and_uncorrelated():
    u = uniform(1, 2, torch.arange(4000), 8).numpy().astype(np.float64)
    assert u.min() >= 0
    assert u.max() < 1
    histogram = np.histogram(u, 16, (0, 1))[0] / u.size
    assert np.abs(histogram - 1 / 16).max() < 0.004
    neighbours = np.corrcoef(np.concatenate([u, np.roll(u, 1, 0)], 1).T)
    assert np.abs(neighbours - np.eye(16)).max() < 0.08
    assert draw(1, 2, torch.arange(1000), 3).min() >= 0
    assert not torch.equal(draw(1, 2, torch.arange(5), 1), draw(2, 2, torch.arange(5), 1))
    assert not torch.equal(draw(1, 2, torch.arange(5), 1), draw(1, 3, torch.arange(5), 1))


def test_augmentation_depends_on_coordinates_alone():
    how = Augmentation(20, 0.2, 0.2, 0.1, 0.05, 0.3, 0.3, 0.1)
    images, ids = torch.rand(6, 1, 10, 10), torch.arange(6)
    every = augment(images, how, 5, 1, ids)
    torch.testing.assert_close(augment(images[2:4], how, 5, 1, ids[2:4]), every[2:4])
    assert not torch.allclose(augment(images, how, 6, 1, ids), every)
    assert every.shape == images.shape
    assert torch.equal(augment(images, Augmentation(), 5, 1, ids), images)


def test_a_shift_moves_the_image_and_lets_zeros_in():
    image = torch.ones(200, 1, 8, 8)
    moved = augment(image, Augmentation(shift=0.25), 0, 1, torch.arange(200))
    assert moved.min() == 0
    assert moved.max() <= 1 + 1e-6
    assert 0.6 < moved.mean() < 0.9


@pytest.mark.parametrize(
    "call",
    [
        lambda: Augmentation(rotation=-1),
        lambda: Augmentation(scale=1.0),
        lambda: Augmentation(shift=float("nan")),
        lambda: Conv(8, 4),
        lambda: choose_device("abacus"),
        lambda: choose_method("magic", 2, 64, torch.device("cpu")),
        lambda: compute_dtype("float7", torch.device("cpu")),
        lambda: stack("small", 1, (1, 2, 2)),
    ],
)
def test_bad_input(call):
    with pytest.raises(InputError):
        call()


def test_bfloat16_is_close():
    parameters, x = stack("small", 2), torch.rand(2, 3, 1, 12, 12)
    exact = forward(NETWORKS["small"], parameters, x)
    rough = forward(NETWORKS["small"], parameters, x.bfloat16(), "gemm")
    assert rough.dtype == torch.float32
    torch.testing.assert_close(rough, exact, rtol=0.1, atol=0.05)
