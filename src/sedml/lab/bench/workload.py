"""Votes to measure with: random, with a realistic share of samples on which the teachers agree.

On each sample one class is right, and a teacher votes for it with a probability that itself varies from sample
to sample (Beta(6, 2): three quarters on average, so that about four samples in five pass a threshold of 60%);
the other votes are spread evenly. Only synthetic votes come from here, never anything secret.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_AGREE = (6.0, 2.0)


def random_votes(samples: int, classes: int, teachers: int, seed: int) -> npt.NDArray[np.int16]:
    """Votes int16[K, Q]."""
    generator = np.random.default_rng(seed)
    right = generator.integers(classes, size=samples, dtype=np.int16)
    agree = generator.beta(*_AGREE, size=samples)
    votes = np.empty((teachers, samples), np.int16)
    for row in votes:
        shift = generator.integers(1, classes, size=samples, dtype=np.int16)
        row[:] = np.where(generator.random(samples) < agree, right, (right + shift) % classes)
    return votes


def random_counts(samples: int, classes: int, teachers: int, seed: int) -> npt.NDArray[np.int32]:
    """Counts int32[N, Q] of the same law as `random_votes`, without drawing the single votes."""
    generator = np.random.default_rng(seed)
    right = generator.integers(classes, size=samples)
    agreeing = generator.binomial(teachers, generator.beta(*_AGREE, size=samples))
    even = np.full(classes - 1, 1.0 / (classes - 1))
    others = generator.multinomial(teachers - agreeing, even)
    counts = np.concatenate([agreeing[:, np.newaxis], others], axis=1)
    rotated = (np.arange(classes) - right[:, np.newaxis]) % classes
    return np.ascontiguousarray(np.take_along_axis(counts, rotated, axis=1).T).astype(np.int32)
