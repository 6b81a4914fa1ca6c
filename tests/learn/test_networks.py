"""Stacked networks compute what each of them computes alone."""

import pytest

torch = pytest.importorskip("torch", reason="needs the optional extra torch")

from sedml.learn.augment import Augmentation, augment
from sedml.learn.networks import NETWORKS, build_network, forward, initial_parameters

torch.set_num_threads(1)


def stack(name, models, image=(1, 12, 12), seed=3):
    network = build_network(name, image, 10)
    return network, initial_parameters(network, seed, torch.tensor(models))


@pytest.mark.parametrize("name", NETWORKS)
def test_stacked_equals_one_by_one(name):
    torch.manual_seed(0)  # some inputs lie on a kink, where rounding decides which gradient it is
    (network, parameters), x = stack(name, range(3), (2, 9, 8)), torch.rand(3, 4, 2, 9, 8)
    leaves = {key: value.requires_grad_() for key, value in parameters.items()}
    logits = forward(network, leaves, x)
    assert logits.shape == (3, 4, 10)
    weights = torch.linspace(-1, 1, 10)
    grads = torch.autograd.grad((logits.tanh() * weights).sum(), list(leaves.values()))
    for k in range(3):
        alone = build_network(name, (2, 9, 8), 10).to_empty(device="cpu")
        alone.load_state_dict({key: value[k] for key, value in parameters.items()})
        own = alone(x[k])
        torch.testing.assert_close(logits[k], own, rtol=1e-4, atol=1e-5)
        own_grads = torch.autograd.grad((own.tanh() * weights).sum(), list(alone.parameters()))
        for grad, own_grad in zip(grads, own_grads, strict=True):
            torch.testing.assert_close(grad[k], own_grad, rtol=1e-3, atol=1e-5)


def test_a_models_start_depends_on_its_number_and_the_seed_alone():
    (_, many), (_, one), (_, other) = stack("small", range(4)), stack("small", [2]), stack("small", range(4), seed=4)
    for key, value in many.items():
        torch.testing.assert_close(value[2:3], one[key], rtol=0, atol=0)
        if key.endswith("weight"):
            assert not torch.equal(value[0], value[1])
            assert not torch.equal(value, other[key])


def test_augmentation_depends_on_coordinates_alone():
    how = Augmentation(20, 0.2, 0.2, 0.1, 0.05, 0.3, 0.3, 0.1)
    images, ids = torch.rand(6, 1, 10, 10), torch.arange(6)
    every = augment(images, how, 5, 1, ids)
    torch.testing.assert_close(augment(images[2:4], how, 5, 1, ids[2:4]), every[2:4])
    assert not torch.allclose(augment(images, how, 6, 1, ids), every)
    assert every.shape == images.shape
    assert torch.equal(augment(images, Augmentation(), 5, 1, ids), images)
