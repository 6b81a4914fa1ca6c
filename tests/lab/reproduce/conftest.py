"""A tiny scale, and a data folder of made-up votes and images in the form of the real ones."""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest

from sedml.lab.reproduce.scale import Scale, Settings

TINY = Scale(
    transport="memory",
    repeat=1,
    samples=24,
    teachers=12,
    sample_grid=(16, 64),
    class_grid=(3, 10),
    accuracy_teachers=(6, 12),
    accuracy_epsilons=(2.04, 8.03),
    queries=60,
    svhn_queries=50,
    thresholds=(0.3, 0.9),
    student_steps=2,
    student_seeds=2,
)
TEACHERS, TESTS, SIDE = 12, 9020, 8


def idx(array):
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.astype(np.uint8).tobytes(), 1)


@pytest.fixture(scope="session")
def made_up(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    truth = rng.integers(10, size=TESTS)
    (folder / "mnist").mkdir()
    images = np.zeros((TESTS, SIDE, SIDE), np.uint8)
    images[np.arange(TESTS), truth % SIDE, truth // SIDE] = 255
    (folder / "mnist" / "t10k-images-idx3-ubyte.gz").write_bytes(idx(images))
    (folder / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(idx(truth))
    (folder / "mnist_predictions").mkdir()
    wrong = rng.random((TEACHERS, TESTS)) < 0.1
    votes = np.where(wrong, rng.integers(10, size=(TEACHERS, TESTS)), truth).astype(np.uint8)
    np.savez(folder / "mnist_predictions" / "predictions.npz", predictions=votes, labels=truth.astype(np.uint8))
    (folder / "pate2018_votes").mkdir()
    counts = (votes[:, :80, np.newaxis] == np.arange(10)).sum(axis=0).astype(np.uint8)
    np.savez(folder / "pate2018_votes" / "svhn.npz", votes=counts, labels=truth[:80].astype(np.uint8))
    return folder


@pytest.fixture
def settings(tmp_path, made_up):
    return Settings(tmp_path / "results", TINY, data_dir=made_up, device="cpu")
