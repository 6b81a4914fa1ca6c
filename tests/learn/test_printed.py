"""Digits rendered from matplotlib's fonts."""

import numpy as np
import pytest

from sedml.errors import FileFormatError
from sedml.learn import printed
from sedml.learn.datasets import load_dataset
from sedml.learn.printed import FACES, printed_digits


def test_images_follow_from_the_seed():
    first, second = (printed_digits(50, np.random.default_rng(4)) for _ in range(2))
    other = printed_digits(50, np.random.default_rng(5))
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1], second[1])
    assert not np.array_equal(first[0], other[0])


def test_images_have_ink_on_paper_and_every_digit():
    images, labels = printed_digits(5000, np.random.default_rng(0))
    assert images.shape == (5000, 16, 16, 1)
    assert images.dtype == np.float32
    assert labels.dtype == np.int64
    assert images.min() == 0
    assert 0.9 < images.max() <= 1
    assert np.bincount(labels).min() > 400
    edge = np.concatenate([images[:, [0, -1]].ravel(), images[:, :, [0, -1]].ravel()])
    assert edge.mean() < 0.1
    assert images[:, 4:12, 4:12].mean() > 0.2


def test_every_face_draws_every_digit_in_its_own_way():
    glyphs = printed._glyphs()
    assert glyphs.shape == (len(FACES), 10, 48, 48)
    assert len({glyph.tobytes() for face in glyphs for glyph in face}) == 10 * len(FACES)


def test_missing_fonts_are_explained(monkeypatch, tmp_path):
    monkeypatch.setattr("matplotlib.get_data_path", lambda: str(tmp_path))
    with pytest.raises(FileFormatError, match="fonts"):
        load_dataset("printed")


def test_the_data_set_needs_no_files(tmp_path):
    data = load_dataset("printed", tmp_path, seed=1)
    assert (len(data.train_labels), len(data.test_labels), data.classes) == (30_000, 6_000, 10)
    assert np.array_equal(load_dataset("printed", seed=1).test_images, data.test_images)
