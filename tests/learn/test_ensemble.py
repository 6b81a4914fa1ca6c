"""Teachers trained at once are the teachers trained one by one, interrupted or not."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the optional extra torch")

from sedml.errors import FileFormatError, InputError
from sedml.learn.augment import Augmentation
from sedml.learn.ensemble import EnsembleConfig, predict, train_ensemble

torch.set_num_threads(1)

QUICK = EnsembleConfig(steps=6, batch=8)


@pytest.fixture(scope="module")
def digits():
    data = pytest.importorskip("sklearn.datasets").load_digits()
    return (data.images / 16).astype(np.float32), data.target


def shards(teachers, samples=40):
    return [np.arange(k * samples, k * samples + samples - 7 * k) for k in range(teachers)]


def train(digits, config=QUICK, seed=1, teachers=4, **more):
    own = shards(teachers)
    return train_ensemble(*digits, classes=10, shards=own, config=config, seed=seed, device="cpu", **more)


def same(a, b, **tolerance):
    assert a.parameters.keys() == b.parameters.keys()
    for name, value in a.parameters.items():
        torch.testing.assert_close(value, b.parameters[name], **tolerance)


def test_at_once_equals_one_by_one(digits):
    together = train(digits)
    for some in (1, 3):
        fewer = train(digits, teachers=some)
        # Adam's first steps divide by gradients near zero and blow up their rounding, so a few entries differ more.
        for name, value in fewer.parameters.items():
            torch.testing.assert_close(together.parameters[name][:some], value, rtol=1e-2, atol=1e-3)


def test_teachers_learn(digits):
    config = EnsembleConfig(steps=100, learning_rate=6e-3, augmentation=Augmentation(rotation=10, shift=0.05))
    ensemble = train(digits, config=config, teachers=5)
    votes = predict(ensemble, digits[0][400:])
    assert votes.shape == (5, len(digits[0]) - 400)
    assert votes.dtype == np.uint8
    accuracy = (votes == digits[1][400:]).mean(1)
    assert accuracy.min() > 0.35  # the last has twelve samples
    assert accuracy.mean() > 0.6
    assert "5 x small" in repr(ensemble)


def interrupt_training(digits, path, monkeypatch):
    """Two of four teachers are done, and the others under way."""

    def interrupt(_, done, total):
        if done == 20:
            raise KeyboardInterrupt

    monkeypatch.setattr("sedml.learn.ensemble._AT_ONCE", {"cpu": 2})
    with pytest.raises(KeyboardInterrupt):
        train(digits, checkpoint_path=path, progress=interrupt)


def test_interrupted_equals_uninterrupted(digits, tmp_path, monkeypatch):
    path, seen = tmp_path / "teachers.pt", []
    interrupt_training(digits, path, monkeypatch)
    assert [file.name for file in tmp_path.iterdir()] == ["teachers.pt"]
    resumed = train(digits, checkpoint_path=path, progress=lambda _, *at: seen.append(at))
    assert seen == [(done, 24) for done in range(14, 26, 2)]
    assert not path.exists()
    same(resumed, train(digits), rtol=0, atol=0)


def test_a_checkpoint_of_something_else_is_refused(digits, tmp_path, monkeypatch):
    path = tmp_path / "teachers.pt"
    interrupt_training(digits, path, monkeypatch)
    with pytest.raises(InputError, match="other data"):
        train(digits, checkpoint_path=path, seed=2)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(FileFormatError, match="not a whole checkpoint"):
        train(digits, checkpoint_path=path)


def test_seeds(digits):
    first, again, other = train(digits), train(digits), train(digits, seed=2)
    same(first, again, rtol=0, atol=0)
    assert not torch.equal(first.parameters["7.weight"], other.parameters["7.weight"])


def test_one_teachers_data_reaches_no_other(digits):
    images, labels = digits
    changed = images.copy()
    changed[:40] = changed[:40][:, ::-1]
    before, after = train((images, labels)), train((changed, labels))
    for name, value in before.parameters.items():
        assert torch.equal(value[1:], after.parameters[name][1:])
        assert "bias" in name or not torch.equal(value[0], after.parameters[name][0])


IMAGES, LABELS = np.zeros((20, 8, 8), np.float32), np.arange(20) % 10


@pytest.mark.parametrize(
    ("images", "labels", "split", "classes", "match"),
    [
        (IMAGES[0, 0], LABELS, [[0]], 10, "shape"),
        (IMAGES, LABELS[:5], [[0]], 10, "for 20 images"),
        (IMAGES, LABELS / 2, [[0]], 10, "float64"),
        (IMAGES, LABELS, [[0]], 9, "run from 0 to 9"),
        (IMAGES, LABELS, [[0]], 1, "classes"),
        (IMAGES, LABELS, [[0], []], 10, "Teacher 1 has no samples"),
        (IMAGES, LABELS, [[0], [20]], 10, "do not exist"),
        (IMAGES, LABELS, [], 10, "no teachers"),
        (IMAGES + 16, LABELS, [[0]], 10, "Scale"),
        (IMAGES * np.nan, LABELS, [[0]], 10, "NaN"),
        (IMAGES.astype(str), LABELS, [[0]], 10, "numbers"),
    ],
)
def test_bad_data(images, labels, split, classes, match):
    with pytest.raises(InputError, match=match):
        train_ensemble(images, labels, classes=classes, shards=split, config=QUICK, device="cpu")


def test_images_of_another_shape_cannot_be_voted_on(digits):
    ensemble = train(digits, config=dataclasses.replace(QUICK, steps=1))
    with pytest.raises(InputError, match="as in the training"):
        predict(ensemble, np.zeros((3, 9, 9), np.float32))
