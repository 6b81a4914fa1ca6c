"""The student network on few labels, with and without unlabelled images."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the optional extra torch")

from sedml.errors import InputError
from sedml.learn.augment import Augmentation
from sedml.learn.student_cnn import StudentConfig, predict, predict_proba, train_students

torch.set_num_threads(1)

# Digits are 8 x 8: what a large image shrugs off would leave nothing of them.
VIEW = Augmentation(rotation=10, scale=0.1, shear=0.1, shift=0.06)
SMALL = StudentConfig(
    network="small", members=2, steps=200, batch=32, unlabelled_batch=64, learning_rate=6e-3,
    labelled_view=VIEW, strong_view=dataclasses.replace(VIEW, rotation=15, cutout=0.2, contrast=0.2),
)  # fmt: skip
QUICK = dataclasses.replace(SMALL, steps=3)


@pytest.fixture(scope="module")
def digits():
    data = pytest.importorskip("sklearn.datasets").load_digits()
    return (data.images / 16).astype(np.float32), data.target


@pytest.fixture(scope="module")
def few(digits):
    _images, labels = digits
    return np.concatenate([np.flatnonzero(labels[:1000] == c)[:5] for c in range(10)])


def train_student(images, labels, unlabelled=None, *, seed=0, config=QUICK, **more):
    [student] = train_students(
        [(images, labels)], unlabelled, classes=10, seeds=[seed], config=config, device="cpu", **more
    )
    return student


def accuracy(student, digits):
    return (predict(student, digits[0][1200:]) == digits[1][1200:]).mean()


def test_few_labels_and_many_images_without(digits, few):
    images, labels = digits
    alone = train_student(images[few], labels[few], seed=1, config=SMALL)
    student = train_student(images[few], labels[few], images[:1200], seed=1, config=SMALL)
    assert accuracy(alone, digits) > 0.75
    assert accuracy(student, digits) > max(0.86, accuracy(alone, digits))


def test_students_of_several_seeds_at_once_are_those_of_each(digits, few):
    images, labels = digits
    sets = [(images[few], labels[few]), (images[few[::2]], labels[few[::2]])]
    both = train_students(sets, images[:300], seeds=[4, 5], classes=10, config=QUICK, device="cpu")
    for (own, own_labels), seed, student in zip(sets, (4, 5), both, strict=True):
        alone = train_student(own, own_labels, images[:300], seed=seed)
        for name, value in alone.parameters.items():
            torch.testing.assert_close(value, student.parameters[name], rtol=1e-2, atol=1e-3)
    assert not torch.equal(both[0].parameters["7.weight"], both[1].parameters["7.weight"])


def test_answers(digits, few):
    images, labels = digits
    seen = []
    student = train_student(images[few], labels[few], images[:200], progress=lambda _, *at: seen.append(at))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    p = predict_proba(student, images[:600])
    assert p.shape == (600, 10)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-4)
    answers = predict(student, images[:600])
    assert answers.dtype == np.int64
    assert predict(student, images[:0]).shape == (0,)
    assert "2 x small" in repr(student)
    with pytest.raises(InputError, match="as in the training"):
        predict(student, np.zeros((2, 9, 9), np.float32))


IMAGES = np.zeros((4, 8, 8), np.float32)


@pytest.mark.parametrize(
    ("images", "labels", "unlabelled", "match"),
    [
        (IMAGES, [0, 1, 2, 10], IMAGES, "run from 0 to 10"),
        (IMAGES, [0, 1, 2, -2], IMAGES, "run from -2"),
        (IMAGES, [0, 1], IMAGES, "for 4 images"),
        (IMAGES[0], [0], IMAGES, "shape"),
        (IMAGES[:0], np.zeros(0, np.int64), IMAGES, "No image has a label"),
        (IMAGES, [0, 1, 2, 3], IMAGES[:0], "no unlabelled images"),
        (IMAGES, [0, 1, 2, 3], IMAGES[:, 1:], "differ in shape"),
    ],
)
def test_bad_data(images, labels, unlabelled, match):
    with pytest.raises(InputError, match=match):
        train_student(images, np.asarray(labels), unlabelled)


def test_classes_may_be_of_different_frequency(digits, few):
    images, labels = digits
    common = {"classes": 10, "seeds": [1], "config": QUICK, "device": "cpu"}
    even, same, uneven = (
        train_students([(images[few], labels[few])], images[:300], shares=shares, **common)[0]
        for shares in (None, np.full((1, 10), 3.0), np.array([[50.0] + 9 * [0.1]]))
    )
    assert torch.equal(even.parameters["7.weight"], same.parameters["7.weight"])
    assert uneven.classes == even.classes


def test_features_are_learned_without_labels(digits):
    from sedml.learn.contrast import ContrastConfig, learn_features
    from sedml.learn.student_cnn import features

    images = digits[0][:200]
    config = ContrastConfig(network="small", steps=40, batch=64, view=VIEW)
    both = learn_features(images, seeds=[0, 1], config=config, device="cpu")
    alone = learn_features(images, seeds=[1], config=config, device="cpu")
    seen = features(both, images)
    assert seen.shape == (200, 128)
    np.testing.assert_allclose(seen[:, 64:], features(alone, images), rtol=0.1, atol=0.05)
    likeness = seen @ seen.T
    np.fill_diagonal(likeness, -1)
    assert (digits[1][:200][likeness.argmax(1)] == digits[1][:200]).mean() > 0.8
